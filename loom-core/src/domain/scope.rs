use core::cell::Cell;
use core::marker::PhantomData;

use allocator_api2::alloc::Allocator;

use super::scope_registry::ScopeRegistry;
use crate::domain::Domain;
use crate::error::OpenError;
use crate::info::Info;
use crate::transport::Transport;
use crate::util::debug::debug_struct;

/// Opens objects that may use borrowed memory: buffers, exposed memory, and arenas for their own
/// memory.
///
/// Objects opened through the [`Scope`] cannot leave the closure. Queues and regions of forgotten
/// handles are closed when the closure returns or unwinds: first queues with their endpoints, then
/// regions. Forgotten handles and the memory that they keep are leaked: buffers in flight, exposed
/// memory, blocks of allocators.
///
/// If the provider fails to close, or goes on using lent memory, the process is aborted.
///
/// ```
/// use loom_core::{Forever, Source, scope};
///
/// # fixture::domain!(network, domain);
/// let mut inbox = [0; 5];
/// scope(|s| {
///     let domain = s.open(&network.info())?;
/// # fixture::pair!(domain, av, cq, alice, bob, to_bob);
///     let received = bob.recv(Source::Any, &mut inbox[..])?;
///     cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
///     cq.finish(received, Forever)?.result()?;
///     Ok::<_, loom_core::Error>(())
/// })?;
/// assert_eq!(&inbox, b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
pub fn scope<'env, R>(f: impl for<'m> FnOnce(&'m Scope<'m, 'env>) -> R) -> R {
    let scope = Scope { left_open: ScopeRegistry::new(), lives: PhantomData, env: PhantomData };
    let _end = scope.left_open.closed_at_end();
    f(&scope)
}

/// Opens the domains of a [`scope`].
///
/// ```
/// use loom_core::{Error, Forever, Info, Scope, Source, Transport, scope};
///
/// fn receive<'m, T: Transport + 'm>(s: &'m Scope<'m, '_>, info: &Info<T>, room: &'m mut [u8]) -> Result<(), Error> {
///     let domain = s.open(info)?;
/// # fixture::pair!(domain, av, cq, alice, bob, to_bob);
///     let received = bob.recv(Source::Any, room)?;
///     cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
///     cq.finish(received, Forever)?.result()?;
///     Ok(())
/// }
/// # fixture::domain!(network, domain);
/// let mut room = [0; 5];
/// scope(|s| receive(s, &network.info(), &mut room))?;
/// assert_eq!(&room, b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Scope<'m, 'env: 'm> {
    left_open: ScopeRegistry,
    /// Makes `'m` invariant, so that scopes cannot be exchanged.
    lives: PhantomData<Cell<&'m ()>>,
    env: PhantomData<Cell<&'env ()>>,
}

impl<'m, 'env> Scope<'m, 'env> {
    /// [`Domain::open_in`] for objects of this scope.
    #[doc(alias = "fi_domain")]
    pub fn open_in<T: Transport + 'm, A: Allocator + Send + 'm>(
        &'m self,
        info: &Info<T>,
        alloc: A,
    ) -> Result<Domain<'m, T>, OpenError> {
        Domain::open_for(info, alloc, Some(self.left_open.place()))
    }

    /// [`open_in`](Self::open_in) with the global allocator.
    #[cfg(feature = "std")]
    pub fn open<T: Transport + 'm>(&'m self, info: &Info<T>) -> Result<Domain<'m, T>, OpenError> {
        self.open_in(info, allocator_api2::alloc::Global)
    }

    /// Returns a handle of an outer domain, for objects that close with this scope.
    ///
    /// The domain's other endpoints stay open. Exposing memory through this handle fails with
    /// [`OpenError::NoFence`], except where closing a region is a fence (over the software
    /// transport).
    ///
    /// ```
    /// use loom_core::{Av, Cq, Forever, Source, scope};
    ///
    /// # fixture::domain!(network, domain);
    /// # let av = Av::open(&domain, 2)?;
    /// let mut inbox = [0; 5];
    /// scope(|s| {
    ///     // This queue takes borrowed memory. It closes with the scope, and the domain stays open.
    ///     let cq = Cq::open(&s.domain(&domain), 16)?;
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// # let to_bob = av.insert(&bob.address()?)?;
    ///     let received = bob.recv(Source::Any, &mut inbox[..])?;
    ///     cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
    ///     cq.finish(received, Forever)?.result()?;
    ///     Ok::<_, loom_core::Error>(())
    /// })?;
    /// assert_eq!(&inbox, b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[must_use]
    pub fn domain<'a: 'm, T: Transport>(&'m self, domain: &Domain<'a, T>) -> Domain<'m, T> {
        domain.within(self.left_open.place())
    }
}

debug_struct!(Scope['_, '_], |it| registry: it.left_open.place().0);
