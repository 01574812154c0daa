#![allow(unsafe_code, reason = "lays events out in the block of the driver, and projects pins")]

use core::alloc::Layout;
use core::cell::Cell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use allocator_api2::alloc::Allocator;

use super::Drive;
use super::wait_list::{WaitList, Waiter, store};
use crate::buffer::Buffer;
use crate::endpoint::{
    Connecting, Established, Idle, Joined, MsgEndpoint, MulticastEndpoint, MulticastGroup, Requested,
};
use crate::eq::{EndpointId, EqEvent, EventQueue, Failure, Moment};
use crate::error::{CqError, OpenError, Rejected};
use crate::storage::Part;
use crate::storage::block_slice::BlockSlice;
use crate::storage::handle::{Handle, Object, Plan, Unfilled};
use crate::transport::connected::Fid;
use crate::transport::{Connected, Multicast};
use crate::util::clone::clone_struct;
use crate::util::debug::debug_struct;
use crate::util::on_drop::for_each;
use crate::vocabulary::{CmData, EndpointAddr, Errno};

type NotConnected = Rejected<Option<Failure>, OpenError>;

/// Polls an event queue, and wakes the futures of its connections. Keeps other events for
/// [`next_event`](Self::next_event).
///
/// A counted handle, also of its queue. Polling the queue directly takes events away from futures.
///
/// ```
/// use loom_core::{CqDriver, EqEvent, Error, ThePeer, driver::EqDriver, transport::Connected};
///
/// /// Accepts one peer and receives its first message. An executor drives `(&cqs, &eqs)`.
/// async fn accept<'m, T: Connected>(cqs: &CqDriver<'m, T, Vec<u8>>, eqs: &EqDriver<'m, T>) -> Result<Vec<u8>, Error> {
///     let request = loop {
///         if let EqEvent::Request(request) = eqs.next_event().await? { break request; }
///     };
///     let endpoint = request.endpoint(cqs.cq(), eqs.eq())?;
///     let received = endpoint.recv(ThePeer, vec![0; 64])?;
///     let _connection = eqs.accept(endpoint, b"").await?;
///     Ok(cqs.finish(received).await?.into_result()?.0)
/// }
/// ```
pub struct EqDriver<'m, T: Connected> {
    body: Handle<'m, EqDriverInner<'m, T>>,
}

struct KeptEqEvent<'m, T: Connected> {
    seen: Moment,
    /// Object of the event, if futures may wait for it.
    about: Option<Fid>,
    event: EqEvent<'m, T>,
}

type Place<'m, T> = Cell<Option<KeptEqEvent<'m, T>>>;

struct EqDriverInner<'m, T: Connected> {
    eq: EventQueue<'m, T>,
    /// The first `len` cells hold one event each, oldest first.
    events: BlockSlice<Place<'m, T>>,
    len: Cell<usize>,
    failed: Cell<Option<CqError>>,
    /// Goals are the object's address.
    about: WaitList,
    others: WaitList,
    idle: Cell<Option<Waker>>,
}

impl<'m, T: Connected> EqDriver<'m, T> {
    /// Opens the driver of an event queue, with memory from `alloc`. Keeps at most `events` events
    /// that no future waits for.
    ///
    /// # Errors
    /// - [`OpenError::OutOfMemory`]
    /// - [`OpenError::Size`], see [`layout`](Self::layout)
    pub fn open_in<A: Allocator + Send + 'm>(
        eq: &EventQueue<'m, T>,
        events: usize,
        alloc: A,
    ) -> Result<Self, OpenError> {
        let (plan, part) = Self::plan::<A>(events)?;
        let block = Unfilled::new(plan, alloc)?;
        // SAFETY: the part was planned for these events. The slice is dropped before its block.
        let events = unsafe { BlockSlice::new(&block, &part, |_| Cell::new(None)) };
        let inner = EqDriverInner {
            eq: eq.clone(),
            events,
            len: Cell::new(0),
            failed: Cell::new(None),
            about: WaitList::new(),
            others: WaitList::new(),
            idle: Cell::new(None),
        };
        Ok(EqDriver { body: block.fill(inner) })
    }

    /// [`EqDriver::open_in`] with the global allocator.
    #[cfg(feature = "std")]
    pub fn open(eq: &EventQueue<'m, T>, events: usize) -> Result<Self, OpenError> {
        Self::open_in(eq, events, allocator_api2::alloc::Global)
    }

    fn plan<A: Allocator>(events: usize) -> Result<(Plan, Part<Place<'m, T>>), OpenError> {
        if events == 0 {
            return Err(OpenError::Size);
        }
        let mut plan = Plan::of::<EqDriverInner<'m, T>, A>()?;
        let part = Part::of(&mut plan.layout, events)?;
        Ok((plan, part))
    }

    /// Layout of a driver's block in an `A`.
    ///
    /// # Errors
    /// [`OpenError::Size`] if `events` is zero, or more than fit into memory.
    pub fn layout<A: Allocator>(events: usize) -> Result<Layout, OpenError> {
        Ok(Self::plan::<A>(events)?.0.layout())
    }

    /// Polled queue.
    #[must_use]
    pub fn eq(&self) -> &EventQueue<'m, T> {
        &self.body.eq
    }

    /// Connects an endpoint, waits until it is connected, and returns it with the peer's data.
    /// Begins at the first poll. Dropping the future closes the endpoint.
    ///
    /// ```
    /// use loom_core::{MsgEndpoint, OpenError, Rejected, driver::EqDriver, endpoint::Idle};
    /// # use loom_core::{EndpointAddr, Errno, transport::Connected};
    /// /// Connects, or returns `None` if the server refuses, for a caller that tries another server.
    /// async fn connect<'m, T: Connected>(
    ///     (driver, server): (&EqDriver<'m, T>, &EndpointAddr),
    ///     endpoint: MsgEndpoint<'m, T, Vec<u8>, Idle>,
    /// ) -> Result<Option<MsgEndpoint<'m, T, Vec<u8>>>, OpenError> {
    ///     match driver.connect(endpoint, server, b"").await {
    ///         Ok((endpoint, _)) => Ok(Some(endpoint)),
    ///         Err(Rejected { error: OpenError::Unconnected(Errno::ECONNREFUSED), .. }) => Ok(None),
    ///         Err(refused) => Err(refused.error),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// [`OpenError`], with the event that reports a failure. The endpoint is closed, and its
    /// completion queue returns posted buffers.
    #[doc(alias = "fi_connect")]
    pub fn connect<B: Buffer>(
        &self,
        endpoint: MsgEndpoint<'m, T, B, Idle>,
        to: &EndpointAddr,
        data: &[u8],
    ) -> impl Future<Output = Result<(MsgEndpoint<'m, T, B, Established>, CmData), NotConnected>> + use<'m, T, B> {
        let (driver, to, data) = (self.clone(), to.clone(), copy_of(&endpoint, data));
        async move {
            // Events from before a connect belong to an earlier endpoint with this address.
            driver.turn(driver.body.room());
            driver.body.leave_to_others(endpoint.id().fid, |_| true);
            // Connects in the poll that begins to wait, or `next_event` could take the event.
            let connecting = endpoint.connect(&to, &data?);
            driver.established(connecting.map_err(OpenError::from)?).await
        }
    }

    /// Accepts a request, and waits until the endpoint is connected. Begins at the first poll.
    /// Dropping the future closes the endpoint.
    ///
    /// # Errors
    /// See [`connect`](Self::connect).
    #[doc(alias = "fi_accept")]
    pub fn accept<B: Buffer>(
        &self,
        endpoint: MsgEndpoint<'m, T, B, Requested>,
        data: &[u8],
    ) -> impl Future<Output = Result<MsgEndpoint<'m, T, B, Established>, NotConnected>> + use<'m, T, B> {
        let (driver, data) = (self.clone(), copy_of(&endpoint, data));
        async move {
            let accepted = endpoint.accept(&data?);
            let accepted = accepted.map_err(OpenError::from)?;
            Ok(driver.established(accepted).await?.0)
        }
    }

    async fn established<B: Buffer>(
        self,
        endpoint: MsgEndpoint<'m, T, B, Connecting>,
    ) -> Result<(MsgEndpoint<'m, T, B, Established>, CmData), NotConnected> {
        if !self.body.eq.moment().is_since(endpoint.id().opened) {
            return Err(OpenError::Errno(Errno::EINVAL).into());
        }
        self.body.is_wanted();
        let mut endpoint = endpoint;
        loop {
            let EndpointId { fid, opened } = endpoint.id();
            match self.event(Some((fid, opened))).await.map_err(OpenError::Events)? {
                EqEvent::Connected(event) => {
                    let answer = CmData::new(endpoint.answer(&event)).unwrap_or(CmData::EMPTY);
                    match endpoint.established(&event) {
                        Ok(endpoint) => return Ok((endpoint, answer)),
                        Err(same) => endpoint = same,
                    }
                }
                EqEvent::Failed(failure) => return Err(failure.into()),
                EqEvent::Shutdown(_) => return Err(OpenError::Shutdown.into()),
                _ => {}
            }
        }
    }

    /// Joins a multicast group, and waits for membership. Begins at the first poll. Dropping the
    /// future leaves the group.
    ///
    /// # Errors
    /// See [`connect`](Self::connect).
    #[doc(alias = "fi_join")]
    pub fn join<B: Buffer>(
        &self,
        endpoint: &MulticastEndpoint<'m, T, B>,
        address: &EndpointAddr,
    ) -> impl Future<Output = Result<MulticastGroup<'m, T, B, Joined>, NotConnected>> + use<'m, T, B>
    where
        T: Multicast,
    {
        let (driver, endpoint, address) = (self.clone(), endpoint.clone(), address.clone());
        async move {
            let since = driver.body.eq.moment();
            if !since.is_since(endpoint.eq().moment()) {
                return Err(OpenError::Errno(Errno::EINVAL).into());
            }
            let mut group = endpoint.join(&address).map_err(OpenError::Errno)?;
            driver.body.is_wanted();
            loop {
                match driver.event(Some((group.fid(), since))).await.map_err(OpenError::Events)? {
                    EqEvent::Joined(event) => match group.joined(&event) {
                        Ok(group) => return Ok(group),
                        Err(same) => group = same,
                    },
                    EqEvent::Failed(failure) => return Err(failure.into()),
                    _ => {}
                }
            }
        }
    }

    /// Waits for a peer's request, or the end of a connection.
    ///
    /// # Errors
    /// [`CqError::EventQueue`] if the provider queue failed.
    #[doc(alias = "fi_eq_read")]
    pub fn next_event(&self) -> NextEqEvent<'m, T> {
        self.event(None)
    }

    fn event(&self, about: Option<(Fid, Moment)>) -> NextEqEvent<'m, T> {
        NextEqEvent { driver: self.clone(), about, waiter: Waiter::new() }
    }

    pub(super) fn store_waker(&self, waker: &Waker) {
        store(&self.body.idle, waker);
    }

    pub(super) fn failure(&self) -> Option<CqError> {
        self.body.failed.get()
    }
}

fn look<'m, T: Connected>(place: &Place<'m, T>, f: impl FnOnce(&mut KeptEqEvent<'m, T>) -> bool) -> bool {
    let mut kept = place.take();
    let result = kept.as_mut().is_some_and(f);
    place.set(kept);
    result
}

fn copy_of<T: Connected, B: Buffer, S>(endpoint: &MsgEndpoint<'_, T, B, S>, data: &[u8]) -> Result<CmData, OpenError> {
    CmData::new(data).ok_or_else(|| {
        let limit = endpoint.cm_data_size().map_or(CmData::MAX_LEN, |limit| limit.min(CmData::MAX_LEN));
        OpenError::DataTooLong { limit }
    })
}

fn object_of<T: Connected>(event: &EqEvent<'_, T>) -> Option<Fid> {
    match event {
        EqEvent::Connected(event) => Some(event.endpoint()),
        EqEvent::Shutdown(event) => Some(event.endpoint),
        EqEvent::Failed(failure) => Some(failure.fault.object),
        EqEvent::Joined(event) => Some(event.group()),
        _ => None,
    }
}

impl<'m, T: Connected> EqDriverInner<'m, T> {
    /// Checked cells are restored before other code runs.
    fn take(&self, is_meant: impl Fn(&KeptEqEvent<'m, T>) -> bool) -> Option<EqEvent<'m, T>> {
        let len = self.len.get();
        let held = self.events.get(..len)?;
        let at = held.iter().position(|place| look(place, |kept| is_meant(kept)))?;
        let KeptEqEvent { event, .. } = held.get(at)?.take()?;
        for (place, after) in held.iter().zip(held.iter().skip(1)).skip(at) {
            place.set(after.take());
        }
        self.len.set(len - 1);
        self.goes_on();
        Some(event)
    }

    fn goes_on(&self) {
        if self.failed.get() == Some(CqError::Unread) {
            self.failed.set(None);
            self.is_wanted();
        }
    }

    fn is_wanted(&self) {
        if let Some(waker) = self.idle.take() {
            waker.wake();
        }
    }

    fn is_awaited(&self, kept: &KeptEqEvent<'m, T>) -> bool {
        kept.about.is_some_and(|object| self.about.has(object.0))
    }

    fn count(&self, holds: impl Fn(&KeptEqEvent<'m, T>) -> bool) -> usize {
        self.events.iter().filter(|place| look(place, |kept| holds(kept))).count()
    }

    fn room(&self) -> usize {
        self.events.len() - self.len.get()
    }

    fn leave_to_others(&self, object: Fid, is_earlier: impl Fn(Moment) -> bool) {
        for place in self.events.iter() {
            look(place, |kept| {
                kept.about = kept.about.filter(|about| *about != object || !is_earlier(kept.seen));
                true
            });
        }
    }

    fn cannot_go_on(&self, error: CqError) {
        self.failed.set(Some(error));
        for_each([&self.about, &self.others].into_iter(), WaitList::notify_all);
    }
}

impl<T: Connected> Drive for EqDriver<'_, T> {
    fn turn(&self, budget: usize) -> usize {
        let inner = &*self.body;
        let mut count = 0;
        while count < budget && !matches!(inner.failed.get(), Some(CqError::EventQueue(_) | CqError::OtherProcess)) {
            let Some(place) = inner.events.get(inner.len.get()) else {
                if inner.others.is_empty() && inner.count(|kept| !inner.is_awaited(kept)) > 0 {
                    inner.cannot_go_on(CqError::Unread);
                }
                inner.others.notify_one();
                break;
            };
            match inner.eq.poll() {
                Ok(Some(event)) => {
                    let about = object_of(&event);
                    place.set(Some(KeptEqEvent { seen: inner.eq.moment(), about, event }));
                    inner.len.set(inner.len.get() + 1);
                    match about.filter(|object| inner.about.has(object.0)) {
                        Some(object) => inner.about.notify_where(|goal| goal == object.0),
                        None => inner.others.notify_one(),
                    }
                }
                Ok(None) => break,
                Err(error) => inner.cannot_go_on(error),
            }
            count += 1;
        }
        count
    }
}

/// Future of [`EqDriver::next_event`]. Dropping it loses no event.
///
/// ```
/// use loom_core::{CqError, EqEvent, MsgEndpoint, driver::EqDriver, transport::Connected};
///
/// /// Waits for the end of a connection. Drops all other events, which rejects requests.
/// async fn ended<T: Connected>(driver: &EqDriver<'_, T>, of: &MsgEndpoint<'_, T, Vec<u8>>) -> Result<(), CqError> {
///     loop {
///         match driver.next_event().await? {
///             EqEvent::Shutdown(event) if event.is_of(of) => return Ok(()),
///             _ => {}
///         }
///     }
/// }
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct NextEqEvent<'m, T: Connected> {
    driver: EqDriver<'m, T>,
    about: Option<(Fid, Moment)>,
    waiter: Waiter,
}

impl<'m, T: Connected> Future for NextEqEvent<'m, T> {
    type Output = Result<EqEvent<'m, T>, CqError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the waiter, the only pinned field, is not moved.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: the waiter is a field of the pinned future.
        let waiter = unsafe { Pin::new_unchecked(&this.waiter) };
        let inner = &*this.driver.body;
        let (list, goal) = match this.about {
            Some((object, since)) => {
                inner.leave_to_others(object, |seen| !seen.is_since(since));
                (&inner.about, object.0)
            }
            None => (&inner.others, 0),
        };
        let is_meant = |kept: &KeptEqEvent<'m, T>| match this.about {
            Some((object, _)) => kept.about == Some(object),
            None => !inner.is_awaited(kept),
        };
        // Beginning to wait runs user code that may deliver the event.
        for waits in [false, true] {
            if let Some(event) = inner.take(is_meant) {
                waiter.leave();
                return Poll::Ready(Ok(event));
            }
            let failed = inner.failed.get();
            if let Some(error) = failed.filter(|error| this.about.is_some() || *error != CqError::Unread) {
                waiter.leave();
                return Poll::Ready(Err(error));
            }
            if !waits {
                // SAFETY: the future's handle keeps the driver's block with the list.
                unsafe { waiter.wait_in(list, goal, cx.waker()) };
            }
        }
        Poll::Pending
    }
}

impl<T: Connected> Drop for NextEqEvent<'_, T> {
    fn drop(&mut self) {
        let was_notified = self.waiter.leave();
        let inner = &*self.driver.body;
        let left = match self.about {
            Some((object, _)) => inner.count(|kept| kept.about == Some(object) && !inner.is_awaited(kept)),
            None => was_notified.into(),
        };
        // Wakers are user code, so no borrow is held.
        for _ in 0..left {
            inner.others.notify_one();
        }
    }
}

impl<T: Connected> Object for EqDriverInner<'_, T> {
    const ONE_THREAD: bool = true;
}

clone_struct!([T: Connected] EqDriver['_, T], body);

debug_struct!([T: Connected] EqDriver['_, T], |it| events: it.body.len.get());

debug_struct!([T: Connected] NextEqEvent['_, T], |it| driver: it.driver);
