//! [`EventQueue`]: event queue for connections and multicast groups.
//!
//! A server listens on a [`PassiveEndpoint`]. A client connects a
//! [`MsgEndpoint`](super::endpoint::MsgEndpoint).

#![allow(unsafe_code, reason = "opens, uses and closes raw handles")]

mod event;
mod passive;

use core::alloc::Layout;
use core::cell::{Cell, RefCell};
use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use allocator_api2::alloc::Allocator;
use heapless::Vec;

pub use self::event::{ConnectedEvent, EndpointId, EqEvent, Failure, JoinedEvent, ShutdownEvent};
pub use self::passive::ConnectionRequest;
pub use self::passive::PassiveEndpoint;
pub(crate) use self::passive::check_data;
use crate::cq::ErrorText;
use crate::domain::{Brand, Domain, DomainInner};
use crate::error::{CqError, OpenError};
use crate::info::Info;
use crate::storage::handle::{Bond, Ended, Handle, Object, Plan, Unfilled};
use crate::transport::Connected;
pub use crate::transport::connected::EqAttr;
use crate::transport::connected::{EqEntry, Fid, Notice};
use crate::util::clone::clone_struct;
use crate::util::debug::debug_struct;
use crate::vocabulary::{CmData, Errno, EventKind, WaitObj};

/// Maximum number of passive endpoints of an event queue.
pub const LISTENERS: usize = 8;

/// Maximum number of events that a closing queue discards.
const UNREAD: u32 = 1 << 16;

/// An event queue.
///
/// A counted handle. Queue and bound objects stay on the thread that opened it.
///
/// ```
/// use loom_core::{EventQueue, EqEvent, Error, transport::Connected};
///
/// /// Handles the next event of a server.
/// fn turn<T: Connected>(eq: &EventQueue<'_, T>) -> Result<(), Error> {
///     match eq.poll()? {
///         Some(EqEvent::Request(request)) => request.reject(b"busy")?,
///         Some(EqEvent::Shutdown(event)) => println!("{:?} is not connected any more", event.endpoint),
///         Some(EqEvent::Failed(failure)) => println!("{failure}: {}", eq.error_text(&failure)),
///         _ => {}
///     }
///     Ok(())
/// }
/// ```
///
/// # References
/// - `man fi_eq`, `man fi_cm`
#[doc(alias = "fid_eq")]
pub struct EventQueue<'m, T: Connected> {
    body: Handle<'m, EqInner<T>>,
    /// Invariant in `'m`: a scope of these queues may end on another thread.
    lives: Brand<'m>,
}

pub(crate) struct EqInner<T: Connected> {
    raw: T::Eq,
    domain: Handle<'static, DomainInner<T>>,
    attr: EqAttr,
    /// Unique in the program.
    identity: u64,
    /// Number of endpoints bound so far.
    bound: Cell<u64>,
    /// Closed with the queue: `tcp` continues to use a passive endpoint.
    listeners: RefCell<Vec<T::PassiveEndpoint, LISTENERS>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    queue: u64,
    bound: u64,
}

impl Moment {
    pub(crate) const fn is_since(self, other: Moment) -> bool {
        self.queue == other.queue && self.bound >= other.bound
    }
}

impl Default for EqAttr {
    fn default() -> Self {
        EqAttr { size: 0, wait: WaitObj::UNSPEC, write: false }
    }
}

impl<'m, T: Connected> EventQueue<'m, T> {
    /// Opens an event queue on the domain's fabric, in memory of `alloc`.
    ///
    /// # Errors
    /// [`OpenError::OutOfMemory`] or [`OpenError::Errno`]
    #[doc(alias = "fi_eq_open")]
    pub fn open_in<A: Allocator + Send + 'm>(
        domain: &Domain<'m, T>,
        attr: EqAttr,
        alloc: A,
    ) -> Result<Self, OpenError> {
        static IDENTITIES: AtomicU64 = AtomicU64::new(1);

        let block = Unfilled::new(Plan::of::<EqInner<T>, A>()?, alloc)?;
        // SAFETY: the queue keeps the domain open (H1, E1).
        let raw = unsafe { T::eq_open(domain.raw(), attr) }?;
        // SAFETY: the queue's handles live for `'m`.
        let domain = unsafe { domain.body.for_child() };
        let body = EqInner {
            raw,
            domain,
            attr,
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
            bound: Cell::new(0),
            listeners: RefCell::new(Vec::new()),
        };
        Ok(EventQueue { body: block.fill(body), lives: PhantomData })
    }

    /// [`EventQueue::open_in`] with the global allocator.
    #[cfg(feature = "std")]
    pub fn open(domain: &Domain<'m, T>, attr: EqAttr) -> Result<Self, OpenError> {
        Self::open_in(domain, attr, allocator_api2::alloc::Global)
    }

    /// Layout of an event queue's block in an `A`.
    ///
    /// # Errors
    /// [`OpenError::Size`].
    pub fn layout<A: Allocator>() -> Result<Layout, OpenError> {
        Ok(Plan::of::<EqInner<T>, A>()?.layout())
    }

    /// Returns the next event, or `None` if the queue is empty.
    ///
    /// Drives connections, as polls of completion queues do.
    ///
    /// ```
    /// use loom_core::{CqError, EventQueue, EqEvent, eq::ConnectionRequest, transport::Connected};
    ///
    /// /// Waits for the next request of a peer.
    /// fn next_request<'m, T: Connected>(eq: &EventQueue<'m, T>) -> Result<ConnectionRequest<'m, T>, CqError> {
    ///     loop {
    ///         if let Some(EqEvent::Request(request)) = eq.poll()? {
    ///             return Ok(request);
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// [`CqError::EventQueue`]
    #[doc(alias = "fi_eq_read")]
    pub fn poll(&self) -> Result<Option<EqEvent<'m, T>>, CqError> {
        self.next(None)
    }

    /// Waits for the next event, for at most `time`, rounded up to milliseconds. Returns `None`
    /// after the timeout or a spurious wake-up.
    ///
    /// # Errors
    /// Those of [`poll`](Self::poll), and [`CqError::NotOpenedFor`] without a wait object.
    #[doc(alias = "fi_eq_sread")]
    pub fn poll_for(&self, time: Duration) -> Result<Option<EqEvent<'m, T>>, CqError> {
        if self.body.attr.wait == WaitObj::NONE {
            return Err(CqError::NotOpenedFor);
        }
        self.next(Some(i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)))
    }

    fn next(&self, sleep: Option<i32>) -> Result<Option<EqEvent<'m, T>>, CqError> {
        let mut data = CmData::EMPTY;
        let read = self.body.read(sleep, &mut data)?;
        let seen = self.moment();
        Ok(read.map(|notice| match notice {
            Notice::Request { listener, info, request } => match self.body.listener(listener) {
                Some(place) => EqEvent::Request(ConnectionRequest {
                    eq: self.clone(),
                    listener,
                    place,
                    info: Info::from_raw(info),
                    request: Some(request),
                    data,
                }),
                None => EqEvent::Other { kind: EventKind::CONNREQ, data },
            },
            Notice::Connected(endpoint) => EqEvent::Connected(ConnectedEvent { endpoint, seen, data }),
            Notice::Shutdown(endpoint) => EqEvent::Shutdown(ShutdownEvent { endpoint, seen }),
            Notice::Joined { group, context } => EqEvent::Joined(JoinedEvent { group, context }),
            Notice::Entry(entry) => EqEvent::Entry(entry),
            Notice::Failed(fault) => EqEvent::Failed(Failure { fault, seen, data }),
            Notice::Other(kind) => EqEvent::Other { kind, data },
        }))
    }

    /// Writes an event, which this queue reports as an [`EqEvent::Entry`] of kind
    /// [`EventKind::NOTIFY`].
    ///
    /// ```
    /// use loom_core::{CqError, EventQueue, EqEvent, transport::Connected, vocabulary::EventKind};
    ///
    /// /// Ends a loop that sleeps on the queue (`EqAttr::write`): it reads this event among the others.
    /// fn stop<T: Connected>(eq: &EventQueue<'_, T>) -> Result<(), CqError> {
    ///     eq.notify(0, STOP)
    /// }
    ///
    /// fn is_stop<T: Connected>(event: &EqEvent<'_, T>) -> bool {
    ///     matches!(event, EqEvent::Entry(entry) if entry.kind == EventKind::NOTIFY && entry.data == STOP)
    /// }
    ///
    /// const STOP: u64 = 1;
    /// ```
    ///
    /// # Errors
    /// [`CqError::NotOpenedFor`] unless the queue was opened for writing, or
    /// [`CqError::EventQueue`].
    #[doc(alias = "fi_eq_write")]
    pub fn notify(&self, context: u64, data: u64) -> Result<(), CqError> {
        if !self.body.attr.write {
            return Err(CqError::NotOpenedFor);
        }
        // SAFETY: handles keep H1 and T3.
        unsafe { T::eq_notify(&self.body.raw, context, data) }.map_err(CqError::event_queue)
    }

    /// The provider's text for a failure.
    #[doc(alias = "fi_eq_strerror")]
    #[must_use]
    pub fn error_text(&self, failure: &Failure) -> ErrorText {
        ErrorText::written_by(|out| {
            // SAFETY: handles keep H1 and T3.
            unsafe { T::eq_error_text(&self.body.raw, failure.fault.provider_errno, &failure.data, out) }
        })
    }

    /// File descriptor, owned by the queue, that becomes readable when the queue may have an event.
    /// Call [`may_sleep`](Self::may_sleep) before sleeping on it.
    ///
    /// # Errors
    /// [`CqError::NotOpenedFor`] without [`WaitObj::FD`], or [`CqError::EventQueue`].
    #[doc(alias = "FI_GETWAIT")]
    pub fn wait_fd(&self) -> Result<c_int, CqError> {
        if self.body.attr.wait != WaitObj::FD {
            return Err(CqError::NotOpenedFor);
        }
        // SAFETY: handles keep H1 and T3, and the queue has a descriptor.
        unsafe { T::eq_wait_fd(&self.body.raw) }.map_err(CqError::event_queue)
    }

    /// Returns `true` if the program may sleep on the file descriptor. After `false`, poll until
    /// the queue is empty and call it again.
    ///
    /// ```
    /// use core::ffi::c_int;
    /// use loom_core::{CqError, EventQueue, transport::Connected};
    ///
    /// /// Takes all events, and sleeps if the queue is empty.
    /// fn turn<T: Connected>(eq: &EventQueue<'_, T>, sleep_on: impl FnOnce(c_int)) -> Result<(), CqError> {
    ///     while eq.poll()?.is_some() {}
    ///     if eq.may_sleep()? {
    ///         sleep_on(eq.wait_fd()?);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of [`wait_fd`](Self::wait_fd).
    #[doc(alias = "fi_trywait")]
    pub fn may_sleep(&self) -> Result<bool, CqError> {
        if self.body.attr.wait != WaitObj::FD {
            return Err(CqError::NotOpenedFor);
        }
        // SAFETY: handles keep H1 and T3, and the queue was opened on this domain (H4).
        unsafe { T::eq_may_sleep(self.body.domain.raw(), &self.body.raw) }.map_err(CqError::event_queue)
    }

    pub(crate) fn domain(&self) -> &Handle<'static, DomainInner<T>> {
        &self.body.domain
    }

    /// Raw handle.
    #[must_use]
    pub fn raw(&self) -> &T::Eq {
        &self.body.raw
    }

    pub(crate) fn bond(&self) -> Bond {
        self.body.bound.set(self.body.bound.get() + 1);
        self.body.bond()
    }

    pub(crate) fn moment(&self) -> Moment {
        Moment { queue: self.body.identity, bound: self.body.bound.get() }
    }
}

impl<T: Connected> EqInner<T> {
    fn read(&self, sleep: Option<i32>, data: &mut CmData) -> Result<Option<Notice<T>>, CqError> {
        // SAFETY: handles keep H1 and T3.
        match unsafe { T::eq_read(&self.raw, sleep, data) } {
            Ok(notice) => Ok(notice),
            Err(Errno::EAVAIL) => {
                // SAFETY: handles keep H1 and T3.
                let fault = unsafe { T::eq_read_error(&self.raw, data) }.map_err(CqError::event_queue)?;
                Ok(fault.map(Notice::Failed))
            }
            Err(errno) => Err(CqError::event_queue(errno)),
        }
    }

    fn listener(&self, fid: Fid) -> Option<usize> {
        self.listeners.borrow().iter().position(|passive| T::passive_fid(passive) == fid)
    }

    fn with_listener<R>(
        &self,
        index: usize,
        use_it: impl FnOnce(&T::PassiveEndpoint) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.listeners.borrow().get(index).map_or(Err(Errno::ENOENT), use_it)
    }

    fn reject(&self, listener: usize, request: T::Request, data: &[u8]) -> Result<(), Errno> {
        self.with_listener(listener, |passive| {
            // SAFETY: the passive endpoint is open as long as the queue. The request was made to it
            // and is consumed here (E2). The caller has checked the data's length.
            unsafe { T::reject(passive, request, data) }
        })
    }
}

impl<T: Connected> Object for EqInner<T> {
    const ONE_THREAD: bool = true;

    fn is_here(&self) -> bool {
        self.domain.is_here()
    }

    unsafe fn end(mut this: NonNull<Self>, left: bool) -> Ended {
        // SAFETY: `end` is called once, after the last handle has gone.
        let this = unsafe { this.as_mut() };
        for _ in 0..UNREAD {
            match this.read(None, &mut CmData::EMPTY.clone()) {
                Ok(Some(Notice::Request { listener, request, .. })) => {
                    let _ = this.listener(listener).map(|place| this.reject(place, request, &[]));
                }
                Ok(Some(_)) => {}
                _ => break,
            }
        }
        let mut closed = !left;
        if closed {
            for passive in this.listeners.get_mut() {
                // SAFETY: closed once, here (H3), before the queue (E1). Requests hold a handle of
                // the queue, so none exists (E2).
                closed &= unsafe { T::passive_close(passive) }.is_ok();
            }
        }
        // SAFETY: the last handle has gone, so no object is bound to the queue (E1). A failed
        // close is not retried (H3).
        if !closed || unsafe { T::eq_close(&this.raw) }.is_err() {
            this.domain.leave();
        }
        Ended::Free
    }
}

clone_struct!([T: Connected] EventQueue['_, T], body, lives);

debug_struct!([T: Connected] EventQueue['_, T], |it| attr: it.body.attr);
