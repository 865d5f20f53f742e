//! The connection over which a caller waits, used to detect that the caller has disconnected.

use std::sync::{Arc, Weak};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::net::TcpStream;

/// A caller's connection. Cheap to clone; does not keep the connection open.
#[derive(Debug, Clone, Default)]
pub struct PeerSocket(Option<Weak<TcpStream>>);

impl PeerSocket {
    /// The connection behind this stream.
    pub fn of(stream: &Arc<TcpStream>) -> Self {
        Self(Some(Arc::downgrade(stream)))
    }

    /// Whether the other side has closed it, which its handler may not have noticed yet. An unknown
    /// connection counts as open. So does an HTTP/2 connection of which only a stream was closed.
    pub fn is_closed(&self) -> bool {
        let Some(stream) = &self.0 else { return false };
        let Some(stream) = stream.upgrade() else {
            return true;
        };
        is_end_announced(&stream) || is_at_end(&stream)
    }
}

/// Whether the end was received, even if there are bytes before it that nobody has read yet.
#[cfg(target_os = "linux")]
fn is_end_announced(stream: &TcpStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let mut sockets = [PollFd::new(stream, PollFlags::RDHUP)];
    let without_waiting = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut sockets, Some(&without_waiting)).is_ok() && !sockets[0].revents().is_empty()
}

/// Other systems do not tell it before those bytes are read.
#[cfg(not(target_os = "linux"))]
fn is_end_announced(_: &TcpStream) -> bool {
    false
}

/// Whether everything was read and nothing will follow.
fn is_at_end(stream: &TcpStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match recv(stream, &mut [0_u8; 1], flags) {
        Ok((count, _)) => count == 0,
        Err(error) => !matches!(error, Errno::AGAIN | Errno::INTR),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt as _, Interest};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_socket_is_closed_when_the_other_side_has_disconnected() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut caller = TcpStream::connect(address).await.unwrap();
        let stream = Arc::new(listener.accept().await.unwrap().0);
        let socket = PeerSocket::of(&stream);
        assert!(!socket.is_closed());
        caller.write_all(b"more").await.unwrap();
        stream.readable().await.unwrap();
        assert!(!socket.is_closed(), "there is more to read");
        assert_eq!(stream.try_read(&mut [0; 4]).unwrap(), 4);
        assert!(!socket.is_closed());
        caller.write_all(b"more").await.unwrap();
        drop(caller);
        while !stream
            .ready(Interest::READABLE)
            .await
            .unwrap()
            .is_read_closed()
        {
            tokio::task::yield_now().await;
        }
        assert!(
            socket.is_closed() || cfg!(not(target_os = "linux")),
            "unread bytes"
        );
        assert_eq!(stream.try_read(&mut [0; 4]).unwrap(), 4);
        assert!(socket.is_closed());
        drop(stream);
        assert!(socket.is_closed());
        assert!(!PeerSocket::default().is_closed());
    }
}
