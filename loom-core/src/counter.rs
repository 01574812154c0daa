//! [`Counter`]: numbers of completed operations.

#![allow(unsafe_code, reason = "opens, uses and closes a raw handle")]

use core::alloc::Layout;
use core::cell::Cell;
use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::time::Duration;

use allocator_api2::alloc::Allocator;
use heapless::Vec;

use crate::domain::{Brand, Domain, DomainInner};
use crate::error::{CqError, OpenError};
use crate::storage::handle::{Bond, Ended, Handle, Object, Plan, Unfilled};
pub use crate::transport::CounterAttr;
use crate::transport::{CounterWait, Transport};
use crate::util::clone::clone_struct;
use crate::util::debug::debug_struct;
use crate::vocabulary::{Access, Caps, Counted, Errno, WaitObj};

const EVERYTHING: Counted = Counted::SEND
    .union(Counted::RECV)
    .union(Counted::READ)
    .union(Counted::WRITE)
    .union(Counted::REMOTE_READ)
    .union(Counted::REMOTE_WRITE);

/// Maximum number of counters of an endpoint: one per event.
const MOST: usize = 6;

/// Numbers of successful and of failed operations.
///
/// Counts for endpoints that are opened with it
/// ([`Binding::counter`](super::endpoint::Binding::counter)). A counted handle, which stays on its
/// thread. Over the software transport it changes when the endpoints' queue is polled.
///
/// If the info grants [`Caps::RMA_EVENT`], peers' successful operations on this side's memory count
/// once ([`Counted::REMOTE_READ`], [`Counted::REMOTE_WRITE`]), a fetching atomic operation as a
/// read, others as writes. Over the software transport, a thread that reads the number finds the
/// bytes without polling. Collectives are not counted.
///
/// ```
/// use loom_core::{Binding, Counted, Counter, CounterAttr, Forever, Source};
///
/// # fixture::queue!(network, domain, av, cq);
/// let arrived = Counter::open(&domain, CounterAttr::default())?;
/// let bob = cq.endpoint(Binding::to(&av).counter(Counted::RECV, &arrived))?;
/// let alice = cq.endpoint(&av)?;
/// let to_bob = av.insert(&bob.address()?)?;
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// cq.finish(received, Forever)?.result()?;
/// assert_eq!(arrived.read(), 1);
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_cntr`
#[doc(alias = "fid_cntr")]
pub struct Counter<'m, T: Transport> {
    body: Handle<'m, CounterInner<T>>,
    /// Invariant in `'m`: not bound to queues of a scope that may end on another thread.
    lives: Brand<'m>,
}

struct CounterInner<T: Transport> {
    raw: T::Counter,
    domain: Handle<'static, DomainInner<T>>,
    wait: WaitObj,
    /// Last values, once an endpoint is left open, because a read would drive it.
    last: [Cell<u64>; 2],
}

impl<'m, T: Transport> Counter<'m, T> {
    /// Opens a counter at zero, in memory from `alloc`.
    ///
    /// # Errors
    /// - [`OpenError::OutOfMemory`]
    /// - [`OpenError::Errno`] if the provider refuses: it lacks counters, or the wait object
    #[doc(alias = "fi_cntr_open")]
    pub fn open_in<A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        attr: CounterAttr,
        alloc: A,
    ) -> Result<Self, OpenError> {
        let block = Unfilled::new(Plan::of::<CounterInner<T>, A>()?, alloc)?;
        // SAFETY: the counter keeps the domain open (H1, H2).
        let raw = unsafe { T::counter_open(domain.raw(), attr) }?;
        // SAFETY: the counter's handles live for 'm.
        let domain = unsafe { domain.body.for_child() };
        let last = [Cell::new(0), Cell::new(0)];
        Ok(Counter { body: block.fill(CounterInner { raw, domain, wait: attr.wait, last }), lives: PhantomData })
    }

    /// [`Counter::open_in`] with the global allocator.
    #[cfg(feature = "std")]
    pub fn open(domain: &Domain<'m, T>, attr: CounterAttr) -> Result<Self, OpenError> {
        Self::open_in(domain, attr, allocator_api2::alloc::Global)
    }

    /// Layout of a counter's block in an `A`.
    ///
    /// # Errors
    /// [`OpenError::Size`].
    pub fn layout<A: Allocator>() -> Result<Layout, OpenError> {
        Ok(Plan::of::<CounterInner<T>, A>()?.layout())
    }
}

impl<T: Transport> Counter<'_, T> {
    /// Number of successful operations, plus added values. libfabric's providers drive progress
    /// here.
    ///
    /// Returns the last value once an endpoint is left open (`shm`), and in a forked child.
    ///
    /// ```
    /// use loom_core::{Binding, Counted, Counter, CounterAttr, Forever, Source};
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// let received = Counter::open(&domain, CounterAttr::default())?;
    /// let bob = cq.endpoint(Binding::to(&av).counter(Counted::RECV, &received))?;
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// for _ in 0..3 {
    ///     bob.recv(Source::Any, vec![0; 5])?;
    ///     cq.retry(Forever, || bob.inject(to_bob, b"hello"))?;
    /// }
    /// while received.read() < 3 {
    ///     cq.progress()?;
    /// }
    /// assert_eq!((received.read(), received.read_error()), (3, 0));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_cntr_read")]
    #[must_use]
    pub fn read(&self) -> u64 {
        let [last, _] = &self.body.last;
        // SAFETY: handles keep H1 and T1.
        self.latest(last, || unsafe { T::counter_read(&self.body.raw) })
    }

    /// Number of failed operations.
    ///
    /// ```
    /// use loom_core::{Binding, Counted, Counter, CounterAttr, Forever, Source};
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// let received = Counter::open(&domain, CounterAttr::default())?;
    /// let bob = cq.endpoint(Binding::to(&av).counter(Counted::RECV, &received))?;
    /// let key = bob.recv(Source::Any, vec![0; 5])?;
    /// bob.cancel(key)?;
    /// assert!(cq.finish(key, Forever)?.result().is_err());
    /// assert_eq!((received.read(), received.read_error()), (0, 1));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_cntr_readerr")]
    #[must_use]
    pub fn read_error(&self) -> u64 {
        let [_, last] = &self.body.last;
        // SAFETY: handles keep H1 and T1.
        self.latest(last, || unsafe { T::counter_read_error(&self.body.raw) })
    }

    /// Adds to the number of successful operations.
    ///
    /// ```
    /// use loom_core::{Counter, CounterAttr};
    ///
    /// # fixture::domain!(network, domain);
    /// let counter = Counter::open(&domain, CounterAttr::default())?;
    /// // The program counts what it has done itself beside what the provider counts.
    /// counter.add(2)?;
    /// counter.add(3)?;
    /// while counter.read() < 5 {}
    /// assert_eq!(counter.read(), 5);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_cntr_add")]
    pub fn add(&self, value: u64) -> Result<(), Errno> {
        self.is_usable()?;
        // SAFETY: handles keep H1 and T1.
        unsafe { T::counter_add(&self.body.raw, value) }
    }

    /// Adds to the number of failed operations.
    #[doc(alias = "fi_cntr_adderr")]
    pub fn add_error(&self, value: u64) -> Result<(), Errno> {
        self.is_usable()?;
        // SAFETY: handles keep H1 and T1.
        unsafe { T::counter_add_error(&self.body.raw, value) }
    }

    /// Sets the number of successful operations. Concurrent completions may be lost.
    ///
    /// ```
    /// use loom_core::{Counter, CounterAttr};
    ///
    /// # fixture::domain!(network, domain);
    /// let counter = Counter::open(&domain, CounterAttr::default())?;
    /// counter.add(3)?;
    /// counter.add(4)?;
    /// assert_eq!(counter.read(), 7);
    /// // The program starts a new count.
    /// counter.set(0)?;
    /// assert_eq!(counter.read(), 0);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_cntr_set")]
    pub fn set(&self, value: u64) -> Result<(), Errno> {
        self.is_usable()?;
        // SAFETY: handles keep H1 and T1.
        unsafe { T::counter_set(&self.body.raw, value) }
    }

    /// Sets the number of failed operations.
    ///
    /// ```
    /// use loom_core::{Counter, CounterAttr};
    ///
    /// # fixture::domain!(network, domain);
    /// let counter = Counter::open(&domain, CounterAttr::default())?;
    /// counter.add_error(3)?;
    /// while counter.read_error() != 3 {}
    /// // The program has seen to the failures.
    /// counter.set_error(0)?;
    /// while counter.read_error() != 0 {}
    /// assert_eq!((counter.read(), counter.read_error()), (0, 0));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_cntr_seterr")]
    pub fn set_error(&self, value: u64) -> Result<(), Errno> {
        self.is_usable()?;
        // SAFETY: handles keep H1 and T1.
        unsafe { T::counter_set_error(&self.body.raw, value) }
    }

    /// Sleeps until [`read`](Self::read) is at least `threshold`, for at most `time`, rounded up to
    /// milliseconds. `false` means that the time has passed, or a spurious wake-up.
    ///
    /// # Errors
    /// - [`CqError::CountedFailure`] if an operation fails meanwhile (over `sockets`, if one
    ///   has ever failed)
    /// - [`CqError::NotOpenedFor`] without a wait object
    /// - [`CqError::Counter`]
    #[doc(alias = "fi_cntr_wait")]
    pub fn wait_for(&self, threshold: u64, time: Duration) -> Result<bool, CqError> {
        if self.body.wait == WaitObj::NONE {
            return Err(CqError::NotOpenedFor);
        }
        self.is_usable().map_err(CqError::counter)?;
        let milliseconds = i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
        // SAFETY: handles keep H1 and T1, and the counter has a wait object.
        match unsafe { T::counter_wait(&self.body.raw, threshold, milliseconds) }.map_err(CqError::counter)? {
            CounterWait::Reached => Ok(true),
            CounterWait::TimeIsOver => Ok(false),
            CounterWait::OperationFailed => Err(CqError::CountedFailure),
        }
    }

    /// File descriptor that becomes readable when the counter changes. Call
    /// [`may_sleep`](Self::may_sleep) before each sleep.
    ///
    /// # Errors
    /// [`CqError::NotOpenedFor`] without [`WaitObj::FD`], or [`CqError::Counter`].
    #[doc(alias = "FI_GETWAIT")]
    pub fn wait_fd(&self) -> Result<c_int, CqError> {
        if self.body.wait != WaitObj::FD {
            return Err(CqError::NotOpenedFor);
        }
        // SAFETY: handles keep H1 and T1, and the counter has a descriptor.
        unsafe { T::counter_wait_fd(&self.body.raw) }.map_err(CqError::counter)
    }

    /// Returns `true` if the program may sleep on the file descriptor. If `false`, read the
    /// counter, then call again.
    ///
    /// # Errors
    /// Those of [`wait_fd`](Self::wait_fd).
    #[doc(alias = "fi_trywait")]
    pub fn may_sleep(&self) -> Result<bool, CqError> {
        if self.body.wait != WaitObj::FD {
            return Err(CqError::NotOpenedFor);
        }
        self.is_usable().map_err(CqError::counter)?;
        // SAFETY: handles keep H1 and T1, and the counter belongs to this domain (H4).
        unsafe { T::counter_may_sleep(self.body.domain.raw(), &self.body.raw) }.map_err(CqError::counter)
    }

    pub(crate) fn naps(&self) -> bool {
        // SAFETY: the counter is open until its last handle is dropped (H1).
        unsafe { T::counter_naps(&self.body.raw) }
    }

    pub(crate) fn is_of(&self, domain: &Handle<'_, DomainInner<T>>) -> bool {
        self.body.domain.is(domain)
    }

    pub(crate) fn bond(&self) -> Bond {
        self.body.bond()
    }

    pub(crate) fn counts_writes_to(
        &self,
        domain: &Handle<'_, DomainInner<T>>,
        access: Access,
    ) -> Result<(), OpenError> {
        if !self.body.domain.is(domain) {
            return Err(OpenError::OtherDomain);
        }
        if !access.contains(Access::REMOTE_WRITE) {
            return Err(OpenError::Counters);
        }
        if !domain.info().caps().contains(Caps::RMA_EVENT) {
            return Err(OpenError::Errno(Errno::EOPNOTSUPP));
        }
        Ok(())
    }

    fn latest(&self, last: &Cell<u64>, read: impl FnOnce() -> Result<u64, Errno>) -> u64 {
        if !self.body.is_left() {
            last.set(read().unwrap_or(last.get()));
        }
        last.get()
    }

    fn is_usable(&self) -> Result<(), Errno> {
        if self.body.is_left() { Err(Errno::ENODEV) } else { Ok(()) }
    }

    /// Raw handle.
    #[must_use]
    pub fn raw(&self) -> &T::Counter {
        &self.body.raw
    }
}

impl<T: Transport> Object for CounterInner<T> {
    const ONE_THREAD: bool = false;

    fn is_here(&self) -> bool {
        self.domain.is_here()
    }

    unsafe fn end(this: NonNull<Self>, left: bool) -> Ended {
        // SAFETY: the caller guarantees a valid object.
        let this = unsafe { this.as_ref() };
        // SAFETY: bound objects held handles, which are dropped (H2, N2). A failed close is not
        // retried (H3).
        if left || unsafe { T::counter_close(&this.raw) }.is_err() {
            this.domain.leave();
        }
        Ended::Free
    }
}

clone_struct!([T: Transport] Counter['_, T], body, lives);

impl<T: Transport> PartialEq for Counter<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.body.is(&other.body)
    }
}

impl<T: Transport> Eq for Counter<'_, T> {}

debug_struct!([T: Transport] Counter['_, T], |it| wait: it.body.wait);

pub(crate) struct BoundCounters<'m, T: Transport> {
    list: Vec<(Counted, Counter<'m, T>), MOST>,
    too_many: bool,
}

impl<'m, T: Transport> BoundCounters<'m, T> {
    pub(crate) const fn none() -> Self {
        BoundCounters { list: Vec::new(), too_many: false }
    }

    pub(crate) fn add(&mut self, counted: Counted, counter: Counter<'m, T>) {
        self.too_many |= self.list.push((counted, counter)).is_err();
    }

    pub(crate) fn check(&self, domain: &Handle<'_, DomainInner<T>>, granted: Caps) -> Result<(), OpenError> {
        let mut before = Counted::empty();
        for (counted, counter) in &self.list {
            if !counter.body.domain.is(domain) {
                return Err(OpenError::OtherDomain);
            }
            let remote = counted.intersects(Counted::REMOTE_READ | Counted::REMOTE_WRITE);
            if remote && !granted.contains(Caps::RMA_EVENT) {
                return Err(OpenError::Errno(Errno::EOPNOTSUPP));
            }
            if counted.is_empty() || counted.intersects(before) || !EVERYTHING.contains(*counted) {
                return Err(OpenError::Counters);
            }
            before |= *counted;
        }
        if self.too_many { Err(OpenError::Counters) } else { Ok(()) }
    }

    pub(crate) fn raw(&self) -> Vec<(Counted, &T::Counter), MOST> {
        self.list.iter().map(|(counted, counter)| (*counted, counter.raw())).collect()
    }

    pub(crate) fn bonds(&self) -> impl Iterator<Item = Bond> {
        self.list.iter().map(|(_, counter)| counter.bond())
    }
}

debug_struct!([T: Transport] BoundCounters['_, T], |it| count: it.list.len());
