//! Posting until it is taken.

use super::{Cq, CqError};
use crate::buffer::Buffer;
use crate::engine::op_table::Done;
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::objects::deadline::Deadline;
use crate::transport::Transport;

impl<T: Transport, B: Buffer> Cq<'_, T, B> {
    /// Posts a buffer until it is taken: as long as that is refused for the moment
    /// ([`PostError::is_transient`]), this drives progress and posts again. What completes meanwhile is kept for
    /// [`poll`](Self::poll) and [`wait`](Self::wait).
    ///
    /// Over a fabric a first message may be refused thousands of times, until a connection is there.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// # use loom_core::objects::{av::Av, cq::Cq, deadline::Forever, domain::Domain, endpoint::Source};
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 4)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let received = cq.post(vec![0; 5], Forever, |room| bob.recv(Source::Any, room))?;
    /// cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The last refusal, with the buffer: one that is not for the moment, or when the deadline has passed, or when the queue cannot go
    /// on ([`progress`](Self::progress) says why).
    pub fn post(
        &self,
        mut buf: B,
        mut until: impl Deadline,
        post: impl Fn(B) -> Result<OpKey, Rejected<B>>,
    ) -> Result<OpKey, Rejected<B>> {
        loop {
            match post(buf) {
                Err(refused) if self.goes_on(refused.error, &mut until) => buf = refused.buf,
                posted => return posted,
            }
        }
    }

    /// As [`post`](Self::post), for what has no buffer: injected messages and writes, and peeks.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub fn retry<V>(&self, mut until: impl Deadline, post: impl Fn() -> Result<V, PostError>) -> Result<V, PostError> {
        loop {
            match post() {
                Err(error) if self.goes_on(error, &mut until) => {}
                posted => return posted,
            }
        }
    }

    /// Whether to post again.
    #[cold]
    fn goes_on(&self, error: PostError, until: &mut impl Deadline) -> bool {
        // Progress first: the deadline may be one of so many looks.
        error.is_transient() && self.progress().is_ok() && !until.passed()
    }

    /// As [`wait`](Self::wait), where a deadline that has passed is an error.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and [`CqError::TimedOut`]: the operation is still in flight.
    pub fn finish(&self, key: OpKey, until: impl Deadline) -> Result<Done<B>, CqError> {
        self.wait(key, until)?.ok_or(CqError::TimedOut)
    }
}
