use super::Cq;
use crate::buffer::Buffer;
use crate::deadline::Deadline;
use crate::engine::op_table::OpKey;
use crate::error::{PostError, Rejected};
use crate::transport::Transport;

impl<T: Transport, B: Buffer> Cq<'_, T, B> {
    /// Posts a buffer. After [`PostError::Full`] and [`PostError::Again`], drives progress, keeps
    /// completions, which hold slots, and retries. Returns [`PostError::Kept`] at once: take
    /// completions first.
    ///
    /// ```
    /// # use loom_core::{Av, Cq, Forever, Source};
    /// # fixture::domain!(network, domain);
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 4)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let received = cq.post(vec![0; 5], Forever, |room| bob.recv(Source::Any, room))?;
    /// cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The last refusal, with the buffer: a permanent error, or any error once the deadline has
    /// passed or the queue has failed ([`progress`](Self::progress) reports the cause).
    #[inline]
    pub fn post(
        &self,
        mut buf: B,
        mut until: impl Deadline,
        mut post: impl FnMut(B) -> Result<OpKey, Rejected<B>>,
    ) -> Result<OpKey, Rejected<B>> {
        loop {
            match post(buf) {
                Err(refused) if self.goes_on(refused.error, &mut until) => buf = refused.value,
                posted => return posted,
            }
        }
    }

    /// [`post`](Self::post) for operations without a buffer: injected messages and writes, and
    /// peeks.
    #[inline]
    pub fn retry<V>(
        &self,
        mut until: impl Deadline,
        mut post: impl FnMut() -> Result<V, PostError>,
    ) -> Result<V, PostError> {
        loop {
            match post() {
                Err(error) if self.goes_on(error, &mut until) => {}
                posted => return posted,
            }
        }
    }

    /// Precedes the deadline, which may count checks.
    #[cold]
    fn goes_on(&self, error: PostError, until: &mut impl Deadline) -> bool {
        error.is_transient() && error != PostError::Kept && self.progress().is_ok() && !until.passed()
    }
}
