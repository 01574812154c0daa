use core::fmt;

use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Buffer, SourceBuffer, TargetBuffer};
use loom_core::cq::CqError;
use loom_core::endpoint::Source;
use loom_core::error::{PostError, Rejected};
use loom_core::vocabulary::{Access, ImmediateData, MemoryKey, RemoteAddr};
use loom_core::{Deadline, RemoteRegion, Spins, Tag, Transport};

use crate::group::Queue;
use crate::operation::{self, Verb, What};
use crate::request_slot::{Outcome, Place, Post, Waiting};
use crate::routes::To;
use crate::{Group, PeerIndex, PeerRegion};

const LOOKS: u64 = 10_000;

const BUSY: u32 = 256;

pub(crate) const NOWHERE: RemoteRegion =
    RemoteRegion { base: RemoteAddr(0), len: 0, key: MemoryKey(0), access: Access::empty() };

/// Index of a request's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request(pub usize);

/// Outcome counts of an operation on many peers.
///
/// ```
/// use loom_core::{Domain, Forever};
/// use loom_group::{PeerIndex, Place, Prepared};
///
/// # fixture::domain!(network, domain);
/// # let prepared = Prepared::open(&domain, 2, 16)?;
/// # let itself = prepared.address()?;
/// // Both members are this side.
/// let group = prepared.connect([&itself; 2])?;
/// assert!(group.remove(PeerIndex(1)));
/// group.recv_any(vec![0; 5])?;
/// let mut places = [Place::EMPTY; 2];
/// let summary = group.scope(&mut places, |scope| {
///     for peer in [0, 1].map(PeerIndex) {
///         scope.send(peer, b"hello".to_vec())?;
///     }
///     Ok::<_, loom_core::Error>(scope.finish(Forever)?)
/// })?;
/// assert_eq!((summary.done, summary.not_posted, summary.is_complete()), (1, 1, false));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Summary {
    /// Requests [`Done`](Outcome::Done).
    pub done: usize,
    /// Requests that [`Failed`](Outcome::Failed).
    pub failed: usize,
    /// Requests [`NotPosted`](Outcome::NotPosted).
    pub not_posted: usize,
    /// Requests [`InFlight`](Outcome::InFlight).
    pub in_flight: usize,
}

impl Summary {
    /// Number of requests.
    #[must_use]
    pub const fn requests(&self) -> usize {
        self.done + self.failed + self.not_posted + self.in_flight
    }

    /// Returns `true` if all requests are done.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.done == self.requests()
    }
}

/// Requests to many peers, in places of the caller.
///
/// The end of a scope, also by a panic, gives up waiting requests, and cancels those in flight.
/// Those that the provider does not cancel stay [`InFlight`](Outcome::InFlight): the group's queue
/// returns their buffers later.
///
/// ```
/// use loom_core::{Domain, Error, Forever};
/// use loom_group::{Place, Prepared};
///
/// # fixture::domain!(network, domain);
/// # let prepared = Prepared::open(&domain, 2, 16)?;
/// # let itself = prepared.address()?;
/// // Both members are this side.
/// let group = prepared.connect([&itself; 2])?;
/// # let received = [group.recv_any(vec![0; 5])?, group.recv_any(vec![0; 5])?];
/// let mut places = [Place::EMPTY; 2];
/// group.scope(&mut places, |scope| {
///     for peer in group.peers() {
///         scope.send(peer, b"hello".to_vec())?;
///     }
///     while !scope.turn()? {
///         // The program computes between turns.
///     }
///     Ok::<_, Error>(())
/// })?;
/// # for key in received {
/// #     assert_eq!(group.cq().finish(key, Forever)?.into_buf(), b"hello");
/// # }
/// # Ok::<_, Error>(())
/// ```
pub struct Scope<'s, 'm, T: Transport, B: Buffer, A: Allocator> {
    group: &'s Group<'m, T, B, A>,
    places: &'s mut [Place<'m, T, B>],
    used: usize,
    first: usize,
    waiting: usize,
}

impl<'m, T: Transport, B: Buffer, A: Allocator> Group<'m, T, B, A> {
    /// Runs `requests` with a scope over `places`, which are emptied first. On return, all posted
    /// requests were awaited or cancelled.
    ///
    /// ```
    /// use loom_core::{Domain, Forever};
    /// use loom_group::{PeerIndex, Place, Prepared};
    ///
    /// # fixture::domain!(network, domain);
    /// # let prepared = Prepared::open(&domain, 2, 16)?;
    /// # let itself = prepared.address()?;
    /// // Both members are this side.
    /// let group = prepared.connect([&itself; 2])?;
    /// # let received = group.recv_any(vec![0; 5])?;
    /// let mut places = [Place::EMPTY];
    /// let summary = group.scope(&mut places, |scope| {
    ///     scope.send(PeerIndex(1), b"hello".to_vec())?;
    ///     // Without this, the end of the scope cancels requests in flight.
    ///     Ok::<_, loom_core::Error>(scope.finish(Forever)?)
    /// })?;
    /// assert!(summary.is_complete());
    /// assert_eq!(places[0].take_buf(), Some(b"hello".to_vec()));
    /// # assert_eq!(group.cq().finish(received, Forever)?.into_buf(), b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn scope<R>(
        &self,
        places: &mut [Place<'m, T, B>],
        requests: impl FnOnce(&mut Scope<'_, 'm, T, B, A>) -> R,
    ) -> R {
        requests(&mut self.open_scope(places))
    }

    pub(crate) fn open_scope<'s>(&'s self, places: &'s mut [Place<'m, T, B>]) -> Scope<'s, 'm, T, B, A> {
        places.iter_mut().for_each(Place::clear);
        Scope { group: self, places, used: 0, first: 0, waiting: 0 }
    }
}

impl<'m, T: Transport, B: Buffer, A: Allocator> Scope<'_, 'm, T, B, A> {
    /// Number of free places.
    #[must_use]
    pub fn room(&self) -> usize {
        self.places.len() - self.used
    }

    /// Sends a message to a peer.
    ///
    /// # Errors
    /// [`PostError::Full`], with the buffer, if no place is free, as for each request. Other
    /// refusals are its outcome.
    pub fn send(&mut self, peer: PeerIndex, buf: B) -> Result<Request, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.request::<operation::Send>(peer, &NOWHERE, 0, buf)
    }

    /// Sends a message with immediate data to a peer.
    pub fn send_data(&mut self, peer: PeerIndex, data: ImmediateData, buf: B) -> Result<Request, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.request::<operation::SendData>(peer, &NOWHERE, data.0, buf)
    }

    /// Receives a message from a peer.
    pub fn recv(&mut self, peer: PeerIndex, buf: B) -> Result<Request, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.request::<operation::Recv>(peer, &NOWHERE, 0, buf)
    }

    /// Sends a tagged message to a peer.
    pub fn tagged_send(&mut self, peer: PeerIndex, tag: Tag, buf: B) -> Result<Request, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.request::<operation::TaggedSend>(peer, &NOWHERE, tag.0, buf)
    }

    /// Receives a tagged message from a peer.
    pub fn tagged_recv(&mut self, peer: PeerIndex, tag: Tag, buf: B) -> Result<Request, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.request::<operation::TaggedRecv>(peer, &NOWHERE, tag.0, buf)
    }

    /// Reads from the start of a peer's region.
    pub fn read(&mut self, from: &PeerRegion, buf: B) -> Result<Request, Rejected<B>>
    where
        B: TargetBuffer,
    {
        self.request::<operation::Read>(from.peer(), from.region(), 0, buf)
    }

    /// Writes to the start of a peer's region.
    pub fn write(&mut self, to: &PeerRegion, buf: B) -> Result<Request, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.request::<operation::Write>(to.peer(), to.region(), 0, buf)
    }

    /// Writes to the start of a peer's region, and notifies the peer.
    pub fn write_data(&mut self, to: &PeerRegion, data: ImmediateData, buf: B) -> Result<Request, Rejected<B>>
    where
        B: SourceBuffer,
    {
        self.request::<operation::WriteData>(to.peer(), to.region(), data.0, buf)
    }

    #[inline]
    fn request<V: Verb<T, B>>(
        &mut self,
        index: PeerIndex,
        region: &RemoteRegion,
        word: u64,
        buf: B,
    ) -> Result<Request, Rejected<B>> {
        let number = self.used;
        let Some(place) = self.places.get_mut(number) else {
            return Err(Rejected { value: buf, error: PostError::Full });
        };
        place.peer = index;
        // As fast as a direct post.
        if let Some((endpoint, peer)) = self.group.links.shared(index)
            && self.group.waiting.get() == 0
        {
            match V::post(endpoint, peer, Source::Peer(peer), What { region, word }, buf) {
                Ok(key) => place.set(Outcome::InFlight(key)),
                Err(rejected) => self.refused::<V>(To::Peer(peer), region, word, rejected),
            }
        } else {
            self.request_to::<V>(self.group.links.to(index), region, word, buf);
        }
        // If lending the buffer panics, the request does not count.
        self.used += 1;
        Ok(Request(number))
    }

    #[inline(never)]
    fn request_to<V: Verb<T, B>>(&mut self, to: Option<To>, region: &RemoteRegion, word: u64, buf: B) {
        let queue = to.and_then(|to| Some((to, self.group.queue(to, V::RECEIVES)?)));
        let posted = match queue {
            None => Err(Rejected { value: buf, error: PostError::UnknownPeer }),
            Some((_, queue)) if queue.waiting.get() > 0 => Err(Rejected { value: buf, error: PostError::Again }),
            Some((to, _)) => self.group.post::<V>(to, What { region, word }, buf),
        };
        match (posted, to, self.places.get_mut(self.used)) {
            (Ok(key), _, Some(place)) => place.set(Outcome::InFlight(key)),
            (Err(rejected), Some(to), _) => self.refused::<V>(to, region, word, rejected),
            (Err(Rejected { value: buf, error }), None, Some(place)) => place.set(Outcome::NotPosted { buf, error }),
            (_, _, None) => {}
        }
    }

    /// The request waits if the error is transient.
    #[cold]
    fn refused<V: Verb<T, B>>(&mut self, to: To, region: &RemoteRegion, word: u64, rejected: Rejected<B>) {
        let (post, receives) = (Post::of::<V>(), V::RECEIVES);
        let waiting = Waiting { post, to, region: *region, receives, word };
        match (self.places.get_mut(self.used), self.group.queue(to, receives)) {
            (Some(place), Some(queue)) => {
                self.waiting += usize::from(self.group.refuse(place, queue, waiting, rejected));
            }
            (Some(place), None) => place.set(Outcome::NotPosted { buf: rejected.value, error: rejected.error }),
            (None, _) => {}
        }
    }

    /// Outcome so far, without driving the queue.
    #[must_use]
    pub fn outcome(&self, request: Request) -> Option<&Outcome<B>> {
        self.places.get(..self.used)?.get(request.0).map(Place::outcome)
    }

    /// Returns `true` if the request waits for room.
    #[must_use]
    pub fn waits(&self, request: Request) -> bool {
        self.places.get(request.0).is_some_and(|place| place.waiting.is_some())
    }

    /// Returns `true` if all requests have completed or [`finish`](Self::finish) left them
    /// [`InFlight`](Outcome::InFlight).
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.places
            .get(self.first..self.used)
            .unwrap_or_default()
            .iter()
            .all(|place| place.waiting.is_none() && !matches!(place.outcome, Outcome::InFlight(_)))
    }

    /// Drives the queue, takes completions, and posts waiting requests. Returns `true` on progress.
    ///
    /// # Errors
    /// See [`Cq::progress`](loom_core::Cq::progress). [`CqError::Driven`] under a driver.
    /// [`CqError::UnknownKey`] if the program took a completion of the scope: the others go on.
    pub fn turn(&mut self) -> Result<bool, CqError> {
        self.group.is_not_driven()?;
        let busy = self.group.cq().progress()?;
        let taken = self.take_all();
        let posted = self.post_waiting();
        Ok(taken? || posted || busy)
    }

    /// Waits for all requests until the deadline, then gives up the rest. The [`Scope`] stays
    /// usable.
    ///
    /// # Errors
    /// See [`turn`](Self::turn). The places keep their requests.
    #[inline]
    pub fn finish(&mut self, mut until: impl Deadline) -> Result<Summary, CqError> {
        if self.waiting == 0 || self.post_all(&mut until)? {
            // No request waits for room, so their order does not matter.
            let cq = self.group.cq();
            let (mut done, mut is_over) = (0, true);
            for place in self.places.get_mut(self.first..self.used).unwrap_or_default() {
                if let Outcome::InFlight(key) = place.outcome {
                    let Some(over) = cq.wait(key, &mut until)? else {
                        is_over = false;
                        break;
                    };
                    match over.into_parts() {
                        (buf, Ok(transfer)) => {
                            place.set(Outcome::Done { buf, transfer });
                            done += 1;
                        }
                        (buf, Err(error)) => place.set(Outcome::Failed { buf, error }),
                    }
                } else {
                    done += usize::from(place.outcome.is_done());
                }
            }
            if is_over {
                self.first = self.used;
                if done == self.used {
                    return Ok(Summary { done, ..Summary::default() });
                }
            }
        }
        self.end();
        Ok(self.summary())
    }

    /// Returns `false` if the deadline passes first.
    #[cold]
    fn post_all(&mut self, mut until: impl Deadline) -> Result<bool, CqError> {
        let mut turns = 0_u32;
        while self.waiting > 0 {
            turns = turns.wrapping_add(1);
            if (!self.turn()? || turns.is_multiple_of(BUSY)) && until.passed() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Outcomes so far.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for place in self.places.get(..self.used).unwrap_or_default() {
            match place.outcome {
                Outcome::Done { .. } => summary.done += 1,
                Outcome::Failed { .. } => summary.failed += 1,
                Outcome::NotPosted { .. } => summary.not_posted += 1,
                Outcome::InFlight(_) => summary.in_flight += 1,
                // Lending the buffer again panicked: it is lost.
                Outcome::Empty => summary.not_posted += 1,
            }
        }
        summary
    }

    fn take_all(&mut self) -> Result<bool, CqError> {
        let (mut taken, mut failed) = (false, Ok(()));
        let begin = self.first;
        for (number, place) in (begin..).zip(self.places.get_mut(begin..self.used).unwrap_or_default()) {
            if let Outcome::InFlight(key) = place.outcome {
                match self.group.cq().take(key) {
                    Ok(None) => {}
                    Ok(Some(done)) => {
                        place.set(Outcome::of(done));
                        taken = true;
                    }
                    Err(error) => failed = Err(error),
                }
            }
            let is_over = place.waiting.is_none() && !matches!(place.outcome, Outcome::InFlight(_));
            if is_over && number == self.first {
                self.first += 1;
            }
        }
        failed.map(|()| taken)
    }

    fn post_waiting(&mut self) -> bool {
        if self.waiting == 0 {
            return false;
        }
        let round = self.group.next_round();
        let mut posted = false;
        for place in self.places.get_mut(self.first..self.used).unwrap_or_default() {
            let Some(waiting) = &place.waiting else { continue };
            let queue = self.group.queue(waiting.to, waiting.receives);
            // Skip queues refused in this round, or in a later one of a nested scope.
            let Some(queue) = queue.filter(|queue| queue.refused_in.get() < round) else { continue };
            let (Some(waiting), Outcome::NotPosted { buf, .. }) = (place.waiting.take(), place.take()) else {
                continue;
            };
            // User code, which may panic, runs after this.
            self.group.waits_no_more(queue);
            self.waiting = self.waiting.saturating_sub(1);
            match self.group.post_waiting(&waiting, buf) {
                Ok(key) => {
                    place.set(Outcome::InFlight(key));
                    posted = true;
                }
                Err(rejected) => {
                    let error = rejected.error;
                    if self.group.refuse(place, queue, waiting, rejected) {
                        self.waiting += 1;
                        queue.refused_in.set(round);
                    }
                    if matches!(error, PostError::Full | PostError::Kept) {
                        break;
                    }
                }
            }
        }
        posted
    }

    #[inline]
    fn end(&mut self) {
        if self.first < self.used {
            self.cancel();
        }
    }

    #[cold]
    fn cancel(&mut self) {
        let places = self.places.get_mut(self.first..self.used).unwrap_or_default();
        for place in &mut *places {
            if let Some(waiting) = place.waiting.take() {
                if let Some(queue) = self.group.queue(waiting.to, waiting.receives) {
                    self.group.waits_no_more(queue);
                }
                self.waiting = self.waiting.saturating_sub(1);
            }
            if let Outcome::InFlight(key) = place.outcome {
                let _ = self.group.cancel(place.peer, key);
            }
        }
        let mut looks = Spins(LOOKS);
        for place in places {
            if let Outcome::InFlight(key) = place.outcome
                && let Ok(Some(done)) = self.group.cq().wait(key, &mut looks)
            {
                place.outcome = Outcome::of(done);
            }
        }
        self.first = self.used;
    }
}

impl<'m, T: Transport, B: Buffer, A: Allocator> Group<'m, T, B, A> {
    /// Returns `true` if the request waits.
    #[cold]
    fn refuse(
        &self,
        place: &mut Place<'m, T, B>,
        queue: &Queue,
        waiting: Waiting<'m, T, B>,
        Rejected { value: buf, error }: Rejected<B>,
    ) -> bool {
        place.set(Outcome::NotPosted { buf, error });
        let waits = error.is_transient();
        if waits {
            place.waiting = Some(waiting);
            queue.waiting.set(queue.waiting.get() + 1);
            self.waiting.set(self.waiting.get() + 1);
        }
        waits
    }

    fn waits_no_more(&self, queue: &Queue) {
        queue.waiting.set(queue.waiting.get().saturating_sub(1));
        self.waiting.set(self.waiting.get().saturating_sub(1));
    }
}

impl<T: Transport, B: Buffer, A: Allocator> Drop for Scope<'_, '_, T, B, A> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<T: Transport, B: Buffer, A: Allocator> fmt::Debug for Scope<'_, '_, T, B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("summary", &self.summary())
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}
