//! [`Connection`]: endpoint that serves one peer.

use std::any::Any;
use std::time::Duration;

use loom_core::endpoint::{Receives, Transmits};
use loom_fabric::{CqDriver, Endpoint, Errno, Error, Transport};
use tokio::sync::oneshot;
use tokio::time::timeout;

pub(crate) type Bytes = Vec<u8>;
pub(crate) type Driver<T> = CqDriver<'static, T, Bytes>;

/// Maximum length of a message.
pub(crate) const MAX_MESSAGE: usize = 64 << 10;

/// Time for a peer to connect, or to receive a message.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Endpoint that serves one peer: a connected one, or another one that is used for one peer only.
pub(crate) trait Kind<T: Transport>: Transmits<T> + Receives<T> + 'static {}

impl<T: Transport, K: Transmits<T> + Receives<T> + 'static> Kind<T> for K {}

/// Connection to one peer, which a drop closes.
pub(crate) struct Connection<T: Transport + 'static, K: Kind<T>> {
    // The first field, so it is closed before the other side is notified or its place is reused.
    pub(crate) link: Link<T, K>,
    /// Receiver that ends when the peer has gone.
    pub(crate) gone: oneshot::Receiver<()>,
    /// Value to drop with the connection.
    pub(crate) _held: Box<dyn Any>,
}

/// Endpoint that serves one peer, and the name of the peer in its operations.
pub(crate) struct Link<T: Transport + 'static, K: Kind<T>> {
    pub(crate) endpoint: Endpoint<'static, T, Bytes, K>,
    pub(crate) to: K::To,
}

impl<T: Transport, K: Kind<T>> Link<T, K> {
    /// Sends a message, and returns the buffer.
    pub(crate) async fn send(&self, driver: &Driver<T>, message: Bytes) -> Result<Bytes, Error> {
        let sent = driver.run(message, |message| self.endpoint.send(self.to, message));
        // A peer without receives would block its task for ever.
        Ok(timeout(PATIENCE, sent).await.map_err(|_| Errno::ETIMEDOUT)??.into_result()?.0)
    }

    /// Receives a message of at most [`MAX_MESSAGE`] bytes into a buffer of any length.
    pub(crate) async fn receive(&self, driver: &Driver<T>, mut buf: Bytes) -> Result<Bytes, Error> {
        buf.resize(MAX_MESSAGE, 0);
        let (mut message, result) = driver.run(buf, |buf| self.endpoint.recv(K::ANY, buf)).await?.into_parts();
        message.truncate(result?.len);
        Ok(message)
    }
}

/// Depth of a queue for this number of peers. Operations of ended tasks keep their slots until
/// their endpoints close.
pub(crate) fn depth(peers: u16) -> usize {
    4 * usize::from(peers) + 64
}
