#![allow(unsafe_code, reason = "moves a queue to another thread")]

use super::{Connectionless, Endpoint};
use crate::Error;
use crate::buffer::Buffer;
use crate::cq::{Cq, EndpointSlot};
use crate::domain::Domain;
use crate::error::Rejected;
use crate::transport::Transport;
use crate::util::debug::debug_struct;

type Unparked<'m, T, B, const N: usize> = (Cq<'m, T, B>, [Endpoint<'m, T, B>; N]);

/// An idle queue with all of its endpoints, to move to another thread (over libfabric, with
/// `Ofi<Shared>`).
///
/// ```
/// use loom_core::{CqError, Forever, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// let parked = cq.park([alice, bob])?;
/// let thread = std::thread::spawn(move || {
///     let (cq, [_alice, _bob]) = parked.unpark();
///     Ok::<_, CqError>(cq.wait(received, Forever)?.map(|done| done.into_buf()))
/// });
/// assert_eq!(thread.join().expect("it does not panic")?.as_deref(), Some(&b"hello"[..]));
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Parked<'m, T: Transport, B: Buffer, const N: usize = 0> {
    // First field: endpoints close before their queue.
    endpoints: [Endpoint<'m, T, B>; N],
    cq: Cq<'m, T, B>,
}

// SAFETY: this value holds all handles of the queue (`park`), so another thread uses its block and
// counts only after this one. Domain and address vectors may be shared. Threads may use the
// transport's queues and endpoints in turn (P9: a domain handle is `Send` only if the raw domain
// is `Sync`).
unsafe impl<'m, T: Transport, B: Buffer + Send, const N: usize> Send for Parked<'m, T, B, N>
where
    Domain<'m, T>: Send,
    Connectionless<'m, T>: Send,
{
}

impl<'m, T: Transport, B: Buffer> Cq<'m, T, B> {
    /// Parks the queue with all of its endpoints.
    ///
    /// ```
    /// use loom_core::Rejected;
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// let endpoint = cq.endpoint(&av)?;
    /// let another = cq.clone();
    /// let Err(Rejected { value: (cq, endpoints), .. }) = cq.park([endpoint]) else { panic!("there is another handle") };
    /// drop(another);
    /// assert!(cq.park(endpoints).is_ok());
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`], with the queue and its endpoints, if the queue has another handle
    /// (clone, other endpoint, [piece](crate::cq::Piece), multicast group or region of an
    /// endpoint), or an endpoint is bound to an object of this thread (counter or event queue).
    pub fn park<const N: usize>(
        self,
        endpoints: [Endpoint<'m, T, B>; N],
    ) -> Result<Parked<'m, T, B, N>, Rejected<Unparked<'m, T, B, N>, Error>> {
        let own = endpoints.iter().all(|endpoint| endpoint.cq().body.is(&self.body));
        let handles = u32::try_from(N).ok().and_then(|endpoints| endpoints.checked_add(1));
        let all = own && handles.is_some_and(|handles| self.body.count_is(handles));
        if !all || self.body.endpoint_slots().iter().any(EndpointSlot::stays_on_its_thread) {
            let error = Error::Invalid("the queue has other handles, or endpoints that stay on this thread");
            return Err(Rejected { value: (self, endpoints), error });
        }
        Ok(Parked { endpoints, cq: self })
    }
}

impl<'m, T: Transport, B: Buffer, const N: usize> Parked<'m, T, B, N> {
    /// Returns the queue, now bound to this thread, and its endpoints.
    #[must_use]
    pub fn unpark(self) -> Unparked<'m, T, B, N> {
        (self.cq, self.endpoints)
    }
}

debug_struct!([T: Transport, B: Buffer, const N: usize] Parked['_, T, B, N], |it| cq: it.cq);
