//! One connection through a proxy: two pumps, and how they end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::network::LONGEST_PATTERN;
use super::{ConnectionCut, CutAction, LinkState, ProxyDirection, ProxyShared, ProxyState, reset};

/// Maximum number of bytes per read; one read is one message.
const MAX_MESSAGE: usize = 64 * 1024;
/// How many messages a direction buffers before it stops reading.
const MAX_BUFFERED_MESSAGES: usize = 64;
/// How long the server of a cut connection may continue to send.
const DRAIN_TIME: Duration = Duration::from_secs(30);
/// How many slices a slow direction sends per second.
const SLICES: u32 = 20;

/// Carries a connection to its end.
pub(super) async fn carry(mut client: TcpStream, shared: Arc<ProxyShared>) {
    // The proxy has already accepted, so it cannot refuse the connection as the absent server
    // would. A reset is what comes closest.
    let Ok(mut server) = TcpStream::connect(shared.target).await else {
        return reset(&client);
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    shared.open.fetch_add(1, Ordering::Relaxed);
    let end = both_ways(&mut client, &mut server, &shared).await;
    shared.open.fetch_sub(1, Ordering::Relaxed);
    match end {
        Ok(()) => {}
        Err(ConnectionEnd::Reset) => {
            reset(&client);
            reset(&server);
        }
        Err(ConnectionEnd::Cut) => {
            // Before `drain_server`, which may take as long as `DRAIN_TIME`. The client must learn
            // at once that its connection is gone.
            reset(&client);
            drop(client);
            drain_server(server).await;
        }
    }
}

/// Why a connection ended other than by both sides closing it.
enum ConnectionEnd {
    /// Reset, by one of the sides or on request.
    Reset,
    /// By a cut. The connection to the server is closed without a reset, so that it still processes
    /// what it received.
    Cut,
}

impl From<io::Error> for ConnectionEnd {
    fn from(_: io::Error) -> Self {
        Self::Reset
    }
}

async fn both_ways(
    client: &mut TcpStream,
    server: &mut TcpStream,
    shared: &ProxyShared,
) -> Result<(), ConnectionEnd> {
    let mut state = shared.state.subscribe();
    // Only a reset that is ordered from now on ends this connection. Earlier ones are in the count
    // already.
    let resets = state.borrow_and_update().resets;
    // One hold for both directions. If only the one with the matching bytes stopped, the other
    // could still carry the answer.
    let held = watch::Sender::new(None);
    let pump = |side| DirectionPump {
        side,
        shared,
        state: shared.state.subscribe(),
        held: &held,
        hold_changes: held.subscribe(),
        recent: Vec::new(),
    };
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let pumps = async {
        tokio::try_join!(
            pump(ProxyDirection::Up).run(from_client, to_server),
            pump(ProxyDirection::Down).run(from_server, to_client),
        )
    };
    tokio::select! {
        end = pumps => end.map(|_| ()),
        // `wait_for` fails only if the sender is gone, and `shared` owns it.
        _ = state.wait_for(|state| state.resets > resets) => Err(ConnectionEnd::Reset),
    }
}

/// Closes the connection to a server, and reads its remaining data so that it gets no reset.
async fn drain_server(mut server: TcpStream) {
    // A socket that is closed with unread data sends a reset, on which the server might discard the
    // data that the cut let pass. So the sending side is closed, and its answers are read to the
    // end.
    let _ = server.shutdown().await;
    let mut rest = tokio::io::sink();
    let _ = tokio::time::timeout(DRAIN_TIME, tokio::io::copy(&mut server, &mut rest)).await;
}

/// One direction of a connection.
struct DirectionPump<'a> {
    side: ProxyDirection,
    shared: &'a ProxyShared,
    state: watch::Receiver<ProxyState>,
    /// The count of releases when a cut began to hold this connection, for both directions.
    held: &'a watch::Sender<Option<u64>>,
    hold_changes: watch::Receiver<Option<u64>>,
    /// The end of the data carried so far, in which a cut's pattern may begin.
    recent: Vec<u8>,
}

/// The data read, and when; empty at the end.
type ProxyMessage = (Instant, Bytes);

impl DirectionPump<'_> {
    async fn run(mut self, source: ReadHalf<'_>, sink: WriteHalf<'_>) -> Result<(), ConnectionEnd> {
        // Reading continues while writing waits, as in the buffers of a real network. The time at
        // which a message was read goes along, so that delays overlap instead of adding up.
        let (sender, receiver) = mpsc::channel(MAX_BUFFERED_MESSAGES);
        tokio::try_join!(read(source, sender), self.write(receiver, sink))?;
        Ok(())
    }

    async fn write(
        &mut self,
        mut messages: mpsc::Receiver<ProxyMessage>,
        mut sink: WriteHalf<'_>,
    ) -> Result<(), ConnectionEnd> {
        while let Some((read_at, message)) = messages.recv().await {
            self.wait_until_due(read_at).await;
            // Only this direction has ended. The other side may still be sending.
            if message.is_empty() {
                sink.shutdown().await?;
                return Ok(());
            }
            match self.shared.matching_cut(self.side, &self.recent, &message) {
                Some(cut) => self.strike(&cut, &message, &mut sink).await?,
                None => self.pass(&message, &mut sink).await?,
            }
            self.remember(&message);
        }
        Ok(())
    }

    /// Waits until a message may be sent: its delay is over and it is not held.
    async fn wait_until_due(&mut self, read_at: Instant) {
        loop {
            // Each state is marked as seen before it is evaluated. A change in between wakes the
            // `select!` below, and is not lost.
            let (link, releases) = {
                let state = self.state.borrow_and_update();
                (state.network.link(self.side), state.releases)
            };
            let held_since = *self.hold_changes.borrow_and_update();
            // A hold lasts until the first release after it began, so it is compared with the count
            // of releases at its beginning.
            let is_held = link.held || held_since.is_some_and(|held_since| held_since >= releases);
            let due = read_at + link.delay;
            if !is_held && due <= Instant::now() {
                return;
            }
            tokio::select! {
                _ = self.state.changed() => {}
                _ = self.hold_changes.changed() => {}
                () = tokio::time::sleep_until(due), if !is_held => {}
            }
        }
    }

    async fn strike(
        &mut self,
        cut: &ConnectionCut,
        message: &[u8],
        sink: &mut WriteHalf<'_>,
    ) -> Result<(), ConnectionEnd> {
        // Stop the other direction before anything else: it must not carry the answer to this
        // message.
        let releases = self.state.borrow().releases;
        self.held.send_replace(Some(releases));
        if cut.passes {
            self.pass(message, sink).await?;
        }
        // Counted after the message was passed on, so a test that waits for the strike knows that
        // the message was sent to the server.
        self.shared.count_strike();
        match cut.then {
            CutAction::Reset => Err(ConnectionEnd::Cut),
            CutAction::Hold => {
                self.wait_until_due(Instant::now()).await;
                if !cut.passes {
                    self.pass(message, sink).await?;
                }
                Ok(())
            }
        }
    }

    async fn pass(
        &mut self,
        message: &[u8],
        sink: &mut WriteHalf<'_>,
    ) -> Result<(), ConnectionEnd> {
        let LinkState {
            bytes_per_second, ..
        } = self.state.borrow().network.link(self.side);
        match bytes_per_second {
            None => sink.write_all(message).await?,
            Some(rate) => {
                // A slice takes a twentieth of a second. Otherwise a slow link would send nothing
                // for a long time and then deliver a whole message.
                let slice = usize::try_from(rate.get().div_ceil(SLICES)).unwrap_or(MAX_MESSAGE);
                for slice in message.chunks(slice) {
                    let length = u32::try_from(slice.len()).unwrap_or(u32::MAX);
                    let pause = Duration::from_secs(1) * length / rate.get();
                    tokio::time::sleep(pause).await;
                    sink.write_all(slice).await?;
                }
            }
        }
        self.shared.count_message(self.side);
        Ok(())
    }

    fn remember(&mut self, message: &[u8]) {
        // The pattern of a cut may span two messages. More than the longest pattern need not be
        // remembered.
        self.recent.extend_from_slice(message);
        let excess = self.recent.len().saturating_sub(LONGEST_PATTERN);
        self.recent.drain(..excess);
    }
}

async fn read(
    mut source: ReadHalf<'_>,
    messages: mpsc::Sender<ProxyMessage>,
) -> Result<(), ConnectionEnd> {
    let mut buffer = vec![0; MAX_MESSAGE];
    loop {
        let length = source.read(&mut buffer).await?;
        let message = Bytes::copy_from_slice(&buffer[..length]);
        // The empty message at the end is sent too: it makes the writer close its side.
        let sent = messages.send((Instant::now(), message)).await;
        if length == 0 || sent.is_err() {
            return Ok(());
        }
    }
}
