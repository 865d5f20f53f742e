//! Stall timeout: the other side of a stream must keep reading; a write stuck for a minute ends its
//! connection.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// How long a write may make no progress.
const STALL_LIMIT: Duration = Duration::from_mins(1);

pub(super) struct StallTimeoutStream {
    /// Shared with the requests, which check whether the peer is still connected.
    stream: Arc<TcpStream>,
    /// Runs while a write waits.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl StallTimeoutStream {
    pub(super) fn new(stream: Arc<TcpStream>) -> Self {
        Self {
            stream,
            stalled: None,
        }
    }

    fn write(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        // Uses readiness, because `AsyncWrite` needs exclusive access and this stream is shared.
        // Readiness may be outdated: then the write returns `WouldBlock`, and readiness is awaited
        // again.
        loop {
            ready!(self.stream.poll_write_ready(context))?;
            match write(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn check_stall<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            // Any progress restarts the minute: a slow reader is fine, one that stopped is not.
            self.stalled = None;
            return written;
        }
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL_LIMIT)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Reads what has arrived.
fn read_all(stream: &TcpStream, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
    let mut received = 0;
    let read = stream.try_io(Interest::READABLE, || {
        let free = buffer.initialize_unfilled();
        received = recv(stream, &mut *free, RecvFlags::empty())?.0;
        // A read that does not fill the buffer has emptied the socket. "Would block" says so to
        // tokio, as its own streams do; otherwise each request would cost a second, useless read.
        if received > 0 && received < free.len() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    });
    buffer.advance(received);
    if received > 0 { Ok(()) } else { read }
}

impl AsyncRead for StallTimeoutStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match read_all(&self.stream, buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }
}

impl AsyncWrite for StallTimeoutStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.write(context, |stream| stream.try_write(bytes));
        self.check_stall(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.write(context, |stream| stream.try_write_vectored(pieces));
        self.check_stall(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is buffered.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // tokio's own shutdown also needs exclusive access to the stream. shutdown(2) does not
        // block.
        let done = shutdown(&*self.stream, Shutdown::Write).map_err(io::Error::from);
        Poll::Ready(done)
    }
}
