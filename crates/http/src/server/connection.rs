//! One connection, from its first byte to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::ConnectInfo;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::connection_table::{ActiveRequest, Connection, ConnectionState};
use super::stall_timeout::StallTimeoutStream;
use super::{CLOSE_TIMEOUT, ConnectionLimits, OverflowConnection};
use crate::client_address::client_address;
use mediagate_core::intents::PeerSocket;

/// Read and write buffer of a connection, in bytes; a request head must fit.
const BUFFER: usize = 128 * 1024;
/// How often a connection is checked for a peer that has closed it, while a request is answered.
const PEER_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How often an HTTP/2 connection is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// An accepted connection.
pub(super) struct AcceptedConnection {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) connection: Arc<Connection>,
    pub(super) limits: Arc<ConnectionLimits>,
    /// Set when the connection must end after its current requests.
    pub(super) draining: CancellationToken,
}

impl AcceptedConnection {
    /// Serves until either side closes, it is idle for too long, or its slot is needed.
    pub(super) async fn serve(self, router: Router) {
        // Responses are small and complete; delaying them to fill packets gains nothing.
        drop(self.stream.set_nodelay(true));
        // Shared with the requests: before an order is accepted, this socket shows whether its
        // caller is still connected (`PeerSocket`).
        let stream = Arc::new(self.stream);
        let (peer, socket) = (self.peer, PeerSocket::of(&stream));
        let connection_entry = self.connection.clone();
        let limits = self.limits.clone();
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(socket.clone());
            let client = client_address(request.headers(), peer.ip(), &limits.proxies);
            let busy = connection_entry.begin(client);
            request
                .extensions_mut()
                .insert(connection_entry.requests.clone());
            let watch = PeerWatch {
                socket: socket.clone(),
                connection: connection_entry.clone(),
            };
            let answer = answer(router.clone(), request, peer, busy);
            watched_response(answer, watch)
        });
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            // hyper's `half_close` stays off: a caller that closes its side counts as disconnected,
            // here as in `PeerSocket`.
            .http1()
            .timer(TokioTimer::new())
            // This is the timeout of later heads. `silence` gives the first one less time, and
            // covers phases without a timeout in hyper: the choice of the protocol, and HTTP/2
            // connections without a request.
            .header_read_timeout(self.limits.idle)
            // A connection beyond the caps ends after one response and makes room for the next.
            .keep_alive(!self.connection.is_overflow)
            .max_buf_size(BUFFER);
        builder
            // A machine that vanished sends no FIN. hyper closes the connection when a ping stays
            // unanswered for 20 s (its default), and only then is it known that the caller has
            // disconnected.
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL);
        let io = TokioIo::new(StallTimeoutStream::new(stream));
        let mut connection = pin!(builder.serve_connection(io, service));
        let mut silence = pin!(wait_idle_timeout(&self.connection, &self.limits));
        let mut is_ending = false;
        loop {
            tokio::select! {
                // The order matters. After the process was suspended, all of these branches can be
                // ready at once, and a connection whose next request has arrived must not be closed
                // as silent.
                biased;
                ended = &mut connection => {
                    // Peers break connections all the time, so this is not worth a warning.
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection ended with an error");
                    }
                    return;
                }
                // The peer has left, or an idle connection is evicted. A request that arrives just
                // now is lost, as on any connection that its server closes.
                () = self.connection.leave.cancelled() => return,
                // Its requests end with an error now.
                () = self.connection.requests.displaced() => {
                    connection.as_mut().graceful_shutdown();
                    drop(tokio::time::timeout(CLOSE_TIMEOUT, &mut connection).await);
                    return;
                }
                // An HTTP/2 peer gets a GOAWAY before the end, so it knows that requests sent from
                // now on are not processed.
                () = &mut silence => {
                    connection.as_mut().graceful_shutdown();
                    drop(tokio::time::timeout(CLOSE_TIMEOUT, &mut connection).await);
                    return;
                }
                // The token stays cancelled: without the flag this branch would spin.
                () = self.draining.cancelled(), if !is_ending => {
                    is_ending = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

async fn answer(
    router: Router,
    mut request: hyper::Request<Incoming>,
    peer: SocketAddr,
    busy: ActiveRequest,
) -> Result<hyper::Response<(Body, ActiveRequest)>, Infallible> {
    request.extensions_mut().insert(ConnectInfo(peer));
    if busy.is_overflow() {
        request.extensions_mut().insert(OverflowConnection);
    }
    let response = router.oneshot(request.map(Body::new)).await?;
    // The request ends with its body, not with its head: a stream must not count as idle.
    Ok(response.map(|body| (body, busy)))
}

/// A response body; the request ends with it. While it waits for its next part, it looks for a peer
/// that has left.
struct TrackedBody {
    body: Body,
    _busy: ActiveRequest,
    watch: PeerWatch,
    next_check: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let poll = Pin::new(&mut this.body).poll_frame(context);
        if poll.is_pending() {
            let new_check = || Box::pin(tokio::time::sleep(PEER_CHECK_INTERVAL));
            let check = this.next_check.get_or_insert_with(new_check);
            while check.as_mut().poll(context).is_ready() {
                this.watch.end_if_closed();
                check.as_mut().reset(Instant::now() + PEER_CHECK_INTERVAL);
            }
        }
        poll
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns when there was no request for the allowed time.
async fn wait_idle_timeout(connection: &Connection, limits: &ConnectionLimits) {
    // Only requests count. A head that trickles in byte by byte does not extend the deadline.
    let mut until = Instant::now() + limits.first_request;
    loop {
        tokio::time::sleep_until(until).await;
        // The state is read only now: a notification at each request would wake this connection's
        // task for nothing.
        let idle_from = match connection.state() {
            ConnectionState::New => return,
            ConnectionState::Busy => Instant::now(),
            ConnectionState::Idle(since) => since,
        };
        until = idle_from + limits.idle;
        if until <= Instant::now() {
            return;
        }
    }
}

/// A look at whether the peer has closed the connection, as long as a request lives. hyper does not
/// notice that while it holds bytes that follow the request: a line break that old clients send
/// after a body, or the next request.
struct PeerWatch {
    socket: PeerSocket,
    connection: Arc<Connection>,
}

impl PeerWatch {
    /// Ends the connection, and everything that is answered on it, if the peer has closed it.
    fn end_if_closed(&self) -> bool {
        let is_closed = self.socket.is_closed();
        if is_closed {
            self.connection.leave.cancel();
        }
        is_closed
    }
}

/// The response to a request, watched until its body ends.
async fn watched_response(
    answer: impl Future<Output = Result<hyper::Response<(Body, ActiveRequest)>, Infallible>>,
    watch: PeerWatch,
) -> Result<hyper::Response<TrackedBody>, Infallible> {
    let mut answer = pin!(answer);
    let response = loop {
        match tokio::time::timeout(PEER_CHECK_INTERVAL, &mut answer).await {
            Ok(response) => break response?,
            // Dropped with the connection.
            Err(_) if watch.end_if_closed() => std::future::pending().await,
            Err(_) => {}
        }
    };
    Ok(response.map(|(body, busy)| TrackedBody {
        body,
        _busy: busy,
        watch,
        next_check: None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::connection_table::ConnectionTable;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_arrived_in_time_counts_even_if_it_was_noticed_late() {
        let limits = Arc::new(ConnectionLimits::new(10, 10, None, Vec::new()));
        let table = Arc::new(ConnectionTable::new(limits.clone()));
        let connection = table.admit([127, 0, 0, 1].into()).unwrap();
        let mut timeout = pin!(wait_idle_timeout(&connection, &limits));
        let begun = tokio::time::timeout(Duration::ZERO, &mut timeout).await;
        assert!(begun.is_err());
        let request = connection.begin([127, 0, 0, 1].into());
        tokio::time::advance(limits.first_request * 2).await;
        let ended = tokio::time::timeout(Duration::ZERO, &mut timeout).await;
        assert!(ended.is_err());
        drop(request);
        let ended_at = Instant::now();
        timeout.await;
        assert!(ended_at.elapsed() >= limits.idle && ended_at.elapsed() < limits.idle * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_closed_sooner() {
        let limits = Arc::new(ConnectionLimits::new(10, 10, None, Vec::new()));
        let table = Arc::new(ConnectionTable::new(limits.clone()));
        let connection = table.admit([127, 0, 0, 1].into()).unwrap();
        let start = Instant::now();
        wait_idle_timeout(&connection, &limits).await;
        assert_eq!(start.elapsed(), limits.first_request);
    }
}
