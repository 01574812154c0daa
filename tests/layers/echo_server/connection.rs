//! [`Connection`]: an endpoint that serves one peer.

use std::any::Any;
use std::time::Duration;

use loom_core::endpoint::{Receives, Transmits};
use loom_fabric::{CqDriver, Endpoint, Errno, Error, Transport};
use tokio::sync::oneshot;
use tokio::time::timeout;

pub(crate) type Bytes = Vec<u8>;
pub(crate) type Driver<T> = CqDriver<'static, T, Bytes>;

/// The longest message.
pub(crate) const MAX_MESSAGE: usize = 64 << 10;

/// How long a peer may take to do its part: to connect, or to receive what is sent to it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Endpoints with which one peer is served: connected ones, and others that are used for one peer only.
pub(crate) trait Kind<T: Transport>: Transmits<T> + Receives<T> + 'static {}

impl<T: Transport, K: Transmits<T> + Receives<T> + 'static> Kind<T> for K {}

/// A connection to one peer. Dropping it closes it.
pub(crate) struct Connection<T: Transport + 'static, K: Kind<T>> {
    // First: it is closed before the other side is told, or others use its place.
    pub(crate) link: Link<T, K>,
    /// Ends when the peer is gone.
    pub(crate) gone: oneshot::Receiver<()>,
    /// What is to be given up with the connection.
    pub(crate) _held: Box<dyn Any>,
}

/// An endpoint that serves one peer, and what stands for the peer in its operations.
pub(crate) struct Link<T: Transport + 'static, K: Kind<T>> {
    pub(crate) endpoint: Endpoint<'static, T, Bytes, K>,
    pub(crate) to: K::To,
}

impl<T: Transport, K: Kind<T>> Link<T, K> {
    /// Sends a message. The buffer comes back.
    pub(crate) async fn send(&self, driver: &Driver<T>, message: Bytes) -> Result<Bytes, Error> {
        let sent = driver.run(message, |message| self.endpoint.send(self.to, message));
        // A peer that receives nothing would hold up its task for ever.
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

/// How many operations a queue has in flight for this number of peers. Those whose tasks have ended take room until their endpoints are closed.
pub(crate) fn depth(peers: u16) -> usize {
    4 * usize::from(peers) + 64
}
