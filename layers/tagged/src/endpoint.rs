use core::alloc::Layout;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use allocator_api2::alloc::Allocator;
use loom_core::buffer::Buffer;
use loom_core::cq::CqError;
use loom_core::deadline::Deadline;
use loom_core::engine::op_table::{OpError, Transfer};
use loom_core::engine::tag_matcher::TagMatcher;
use loom_core::error::OpenError;
use loom_core::storage::Array;
use loom_core::vocabulary::Errno;

use crate::attr::TaggedAttr;
use crate::carrier::Carrier;
use crate::error::LinkError;
use crate::link::{Link, taken};
use crate::operation::{Message, Op, State, TaggedDone, TaggedEvent, TaggedKey, failed, sent};
use crate::packet::{LinkId, Owner, Packet, copy_out};
use crate::slab::{Key, List, Ring, Slab, array};
use crate::wire::Body;

/// Maximum packets of a pass.
const BATCH: usize = 64;

/// Tagged messages over links that carry plain messages. See the [crate documentation](crate).
///
/// `C` [carries](Carrier) the packets. `B` is the buffer type of the messages, of any lifetime: the
/// carrier never borrows these buffers.
///
/// ```
/// use loom_tagged::{Packet, Source, TaggedAttr, TaggedEndpoint, TaggedEvent, WithPeer};
/// use loom_core::{Tag, TagMatch};
///
/// # use loom_core::soft::{Network, NetworkAttr, Soft};
/// # use loom_core::{Av, Cq, Domain};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let av = Av::open(&domain, 2)?;
/// # let [alice, bob] = [Cq::<Soft<'_>, Packet<Vec<u8>>>::open(&domain, 128)?, Cq::open(&domain, 128)?];
/// # let (at_alice, at_bob) = (alice.endpoint(&av)?, bob.endpoint(&av)?);
/// # let (to_alice, to_bob) = (av.insert(&at_alice.address()?)?, av.insert(&at_bob.address()?)?);
/// # let attr = TaggedAttr::DEFAULT;
/// # let packets = || (0..attr.packets_per_link()).map(|_| vec![0; attr.packet_size as usize]);
/// # let (mut a, mut b) = (TaggedEndpoint::open(alice, attr)?, TaggedEndpoint::open(bob, attr)?);
/// # let link = a.add_link(WithPeer::new(&at_alice, to_bob), packets())?;
/// # let back = b.add_link(WithPeer::new(&at_bob, to_alice), packets())?;
/// # while !a.is_up(link) || !b.is_up(back) {
/// #     assert_eq!(a.link_error(link), None, "as where receives cannot be directed");
/// #     a.progress()?;
/// #     b.progress()?;
/// # }
/// // The link from `a` to `b` is up. The program drives both ends.
/// b.tagged_recv(Source::Any, TagMatch::ANY, vec![0; 5])?;
/// a.tagged_send(link, Tag(7), b"hello".to_vec())?;
/// let done = loop {
///     a.progress()?;
///     if let Some(TaggedEvent::Op(done)) = b.poll()? {
///         break done;
///     }
/// };
/// assert_eq!((done.link(), done.result()?.tag), (Some(back), Some(Tag(7))));
/// // The send is not polled: `close` returns its buffer.
/// a.close(|done| assert_eq!(done.into_buf(), b"hello"));
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct TaggedEndpoint<C: Carrier, B, A: Allocator> {
    pub(crate) queue: C::Queue,
    attr: TaggedAttr,
    pub(crate) links: Array<Link<C, A>, A>,
    added: u16,
    pub(crate) matcher: TagMatcher<A>,
    /// Keys by number in the matcher.
    pub(crate) receives: Array<Key, A>,
    /// Messages that wait or are claimed.
    pub(crate) messages: Slab<Message<C::Buf>, A>,
    pub(crate) waiting: Array<Key, A>,
    pub(crate) ops: Slab<Op<B>, A>,
    done: List,
    /// Links with something to send or to post.
    pending: Ring<LinkId, A>,
    /// Not reported yet.
    failed: Ring<LinkId, A>,
}

impl<C: Carrier, B: Buffer, A: Allocator + Clone> TaggedEndpoint<C, B, A> {
    /// Bytes that an endpoint allocates, in several blocks, without alignment gaps between them.
    ///
    /// # Errors
    /// [`OpenError::Size`], as [`open_in`](Self::open_in).
    pub fn footprint(attr: &TaggedAttr) -> Result<usize, OpenError> {
        attr.check()?;
        let messages = attr.all_messages()?;
        let links = usize::from(attr.links);
        let blocks = [
            array::<Link<C, A>>(links)?,
            attr.matcher()?.layout()?,
            array::<Key>(attr.operations as usize)?,
            Slab::<Message<C::Buf>, A>::layout(messages)?,
            array::<Key>(messages as usize)?,
            Slab::<Op<B>, A>::layout(attr.operations)?,
            Ring::<LinkId, A>::layout(links)?,
            Ring::<LinkId, A>::layout(links)?,
        ];
        let sum = |blocks: &[Layout]| blocks.iter().try_fold(0, |sum: usize, block| sum.checked_add(block.size()));
        let of_links = sum(&Link::<C, A>::layouts(attr)?).and_then(|each| each.checked_mul(links));
        sum(&blocks).zip(of_links).and_then(|(own, links)| own.checked_add(links)).ok_or(OpenError::Size)
    }

    /// Opens an endpoint without links, with memory of `alloc`. Only its packets complete on
    /// `queue`.
    ///
    /// # Errors
    /// [`OpenError::Size`] if a number is out of range, [`OpenError::OutOfMemory`].
    pub fn open_in(queue: C::Queue, attr: TaggedAttr, alloc: A) -> Result<Self, OpenError> {
        attr.check()?;
        let (receives, messages) = (attr.operations, attr.all_messages()?);
        let matcher = attr.matcher()?;
        Ok(TaggedEndpoint {
            queue,
            attr,
            links: Array::try_new_in(attr.links.into(), alloc.clone(), |_| Link::new_in(&attr, &alloc))?,
            added: 0,
            matcher: TagMatcher::new_in(matcher, alloc.clone())?,
            receives: Array::new_in(receives as usize, alloc.clone(), |_| Key::NONE)?,
            messages: Slab::new_in(messages, alloc.clone())?,
            waiting: Array::new_in(messages as usize, alloc.clone(), |_| Key::NONE)?,
            ops: Slab::new_in(attr.operations, alloc.clone())?,
            done: List::new(),
            pending: Ring::new_in(attr.links.into(), alloc.clone())?,
            failed: Ring::new_in(attr.links.into(), alloc)?,
        })
    }
}

#[cfg(feature = "std")]
impl<C: Carrier, B: Buffer> TaggedEndpoint<C, B, allocator_api2::alloc::Global> {
    /// [`open_in`](TaggedEndpoint::open_in) with the global allocator.
    pub fn open(queue: C::Queue, attr: TaggedAttr) -> Result<Self, OpenError> {
        Self::open_in(queue, attr, allocator_api2::alloc::Global)
    }
}

impl<C: Carrier, B: Buffer, A: Allocator> TaggedEndpoint<C, B, A> {
    /// Adds a link to a peer that does so, too, with
    /// [`packets_per_link`](TaggedAttr::packets_per_link) buffers of at least
    /// [`packet_size`](TaggedAttr::packet_size) bytes. Sends are accepted once the peer [has
    /// answered](Self::is_up). Later failures are [events](TaggedEvent::LinkFailed).
    ///
    /// # Errors
    /// [`LinkError::TooMany`], [`LinkError::OtherQueue`], [`LinkError::TooFewPackets`],
    /// [`LinkError::Packet`], or [`LinkError::Post`] if the carrier refuses a packet. Carrier,
    /// connection and packets are dropped.
    pub fn add_link(&mut self, carrier: C, packets: impl IntoIterator<Item = C::Buf>) -> Result<LinkId, LinkError> {
        /// Next link: a queue also returns packets of ended links and of other endpoints.
        static IDENTITIES: AtomicU64 = AtomicU64::new(1);

        if *carrier.queue() != self.queue {
            return Err(LinkError::OtherQueue);
        }
        let id = LinkId(self.added);
        let link = self.links.get_mut(id.index()).ok_or(LinkError::TooMany)?;
        let identity = IDENTITIES.fetch_add(1, Ordering::Relaxed);
        let owner = Owner { link: id, identity };
        let needed = self.attr.packets_per_link();
        // Drops packets left by an iterator that panicked. Their completions are ignored, because
        // their link was never added.
        link.clear();
        let mut packets = packets.into_iter();
        for _ in 0..needed {
            let stored = match packets.next().map(|buf| Packet::new(buf, self.attr.packet_size as usize, owner)) {
                Some(Ok(packet)) => {
                    link.store(packet);
                    continue;
                }
                Some(Err(_)) => LinkError::Packet,
                None => LinkError::TooFewPackets { needed },
            };
            link.clear();
            return Err(stored);
        }
        (link.carrier, link.identity) = (Some(carrier), identity);
        let flushed = self.flush_link(id);
        match (flushed, self.links.get_mut(id.index())) {
            (Err(error), Some(link)) => {
                link.clear();
                link.identity = 0;
                return Err(error);
            }
            (Ok(true), _) => self.look_after(id),
            _ => {}
        }
        self.added += 1;
        Ok(id)
    }

    /// Attributes of the endpoint.
    #[must_use]
    pub fn attr(&self) -> &TaggedAttr {
        &self.attr
    }

    /// Returns `true` if both sides have greeted each other and the link has not failed.
    #[must_use]
    pub fn is_up(&self, link: LinkId) -> bool {
        self.links.get(link.index()).is_some_and(Link::is_up)
    }

    /// Error of a failed or closed link.
    #[must_use]
    pub fn link_error(&self, link: LinkId) -> Option<LinkError> {
        self.links.get(link.index())?.error
    }

    /// Maximum bytes of an eager message to this peer, or zero before its answer.
    #[must_use]
    pub fn eager_size(&self, link: LinkId) -> usize {
        self.links.get(link.index()).map_or(0, |link| link.payload)
    }

    /// Number of operations, until their completions are taken.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.ops.len()
    }

    /// Number of messages that wait for a receive.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.matcher.waiting()
    }

    /// Drives progress, and returns the next event.
    ///
    /// # Errors
    /// [`CqError::Queue`].
    #[doc(alias = "fi_cq_read")]
    pub fn poll(&mut self) -> Result<Option<TaggedEvent<B>>, CqError> {
        if self.done.is_empty() && self.failed.len() == 0 {
            self.progress()?;
        }
        Ok(self.next_event())
    }

    /// Waits for one operation, and keeps other events for [`poll`](Self::poll). `Ok(None)`: the
    /// deadline has passed with the operation in flight.
    ///
    /// # Errors
    /// [`CqError::UnknownKey`], [`CqError::Queue`].
    pub fn wait(&mut self, key: TaggedKey, mut until: impl Deadline) -> Result<Option<TaggedDone<B>>, CqError> {
        /// Batches of packets between two checks of the clock.
        const BUSY: u32 = 8;
        let mut busy = 0;
        loop {
            if let Some(done) = self.take(key.0) {
                return Ok(Some(done));
            }
            if self.ops.get(key.0).is_none() {
                return Err(CqError::UnknownKey);
            }
            busy = if self.progress()? { busy + 1 } else { 0 };
            if busy % BUSY == 0 && until.passed() {
                return Ok(self.take(key.0));
            }
        }
    }

    /// Drives progress and keeps completions. Returns `true` if the queue had a packet.
    ///
    /// # Errors
    /// [`CqError::Queue`].
    pub fn progress(&mut self) -> Result<bool, CqError> {
        let mut busy = false;
        for _ in 0..BATCH {
            let Some(ended) = C::poll(&self.queue)? else { break };
            self.ended(ended);
            busy = true;
        }
        self.flush();
        Ok(busy)
    }

    /// Closes a link: drops the carrier and completes the link's operations with `ECANCELED`, for
    /// the end of a connection, where not every provider completes the receives. Messages that have
    /// arrived whole can still be received.
    #[doc(alias = "fi_shutdown")]
    pub fn close_link(&mut self, link: LinkId) {
        if link.0 < self.added {
            self.fail(link, LinkError::Closed);
            self.flush();
        }
    }

    /// Closes the endpoint: drops the carriers and returns each buffer with the result of its
    /// operation, `ECANCELED` if it is in flight. Dropping the endpoint drops the buffers.
    #[doc(alias = "fi_close")]
    pub fn close(mut self, mut back: impl FnMut(TaggedDone<B>)) {
        for link in self.links.iter_mut() {
            link.carrier = None;
        }
        while let Some(key) = self.done.first(&self.ops) {
            self.take(key).into_iter().for_each(&mut back);
        }
        for index in 0..self.ops.capacity() {
            let Some((key, _)) = self.ops.at(index) else { continue };
            if let Some(Op { buf, link, state, .. }) = self.ops.remove(key) {
                let result = Err(failed(&state, Errno::ECANCELED));
                back(TaggedDone { key: TaggedKey(key), buf, link, result });
            }
        }
    }

    fn next_event(&mut self) -> Option<TaggedEvent<B>> {
        if let Some(link) = self.failed.pop()
            && let Some(error) = self.link_error(link)
        {
            return Some(TaggedEvent::LinkFailed { link, error });
        }
        let key = self.done.first(&self.ops)?;
        self.take(key).map(TaggedEvent::Op)
    }

    fn take(&mut self, key: Key) -> Option<TaggedDone<B>> {
        let State::Done(result) = self.ops.get(key)?.state else { return None };
        self.done.remove(&mut self.ops, key);
        let Op { buf, link, .. } = self.ops.remove(key)?;
        Some(TaggedDone { key: TaggedKey(key), buf, link, result })
    }

    /// The operation is in no list.
    pub(crate) fn finish(&mut self, key: Key, result: Result<Transfer, OpError>) {
        if let Some(op) = self.ops.get_mut(key) {
            op.state = State::Done(result);
            self.done.append(&mut self.ops, key);
        }
    }

    pub(crate) fn look_after(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(id.index()).filter(|link| !link.pending) {
            link.pending = true;
            // The ring has room for each link once.
            let _ = self.pending.push(id);
        }
    }

    pub(crate) fn flush(&mut self) {
        for _ in 0..self.pending.len() {
            let Some(id) = self.pending.pop() else { return };
            let flushed = self.flush_link(id);
            if let Some(link) = self.links.get_mut(id.index()) {
                link.pending = false;
            }
            match flushed {
                Ok(true) => self.look_after(id),
                Ok(false) => {}
                Err(error) => self.fail(id, error),
            }
        }
    }

    /// Returns `true` if more remains.
    fn flush_link(&mut self, id: LinkId) -> Result<bool, LinkError> {
        let Some(link) = self.links.get_mut(id.index()).filter(|link| link.error.is_none()) else { return Ok(false) };
        link.flush()?;
        while let Some(key) = link.streams.first(&self.ops) {
            let Some(op) = self.ops.get_mut(key) else { break };
            let (next, more) = match op.state {
                State::Streaming { receiver, at, end, len } => {
                    let segment = link.payload.min(end - at);
                    let buf = &mut op.buf;
                    let body = Body::Segment { receiver };
                    if !taken(link.send(key, body, segment, |bytes| copy_out(buf, at, bytes)))? {
                        break;
                    }
                    op.packets += 1;
                    let at = at + segment;
                    match at < end {
                        true => (State::Streaming { receiver, at, end, len }, true),
                        false => (State::Leaving { len }, false),
                    }
                }
                State::Withdrawing { len, announced: false } => {
                    if !link.send_control(Body::Withdraw { sender: key.to_word() })? {
                        break;
                    }
                    (State::Withdrawing { len, announced: true }, false)
                }
                other => (other, false),
            };
            op.state = next;
            // Round robin.
            link.streams.remove(&mut self.ops, key);
            if more {
                link.streams.append(&mut self.ops, key);
            }
        }
        link.flush_credit()?;
        Ok(link.is_busy())
    }

    pub(crate) fn fail(&mut self, id: LinkId, error: LinkError) {
        let Some(link) = self.links.get_mut(id.index()).filter(|link| link.error.is_none()) else { return };
        link.error = Some(error);
        link.clear();
        // Announced messages: their bytes will not arrive.
        while let Some(key) = link.requests.first(&self.messages) {
            link.requests.remove(&mut self.messages, key);
            if let Some(waiting) = self.messages.remove(key).and_then(|message| message.id) {
                self.matcher.remove_message(waiting);
            }
        }
        for index in 0..self.ops.capacity() {
            if let Some((key, op)) = self.ops.at(index)
                && op.link == Some(id)
                && !matches!(op.state, State::Done(_))
            {
                if let State::Posted(receive) = op.state {
                    self.matcher.remove_receive(receive);
                }
                let result = failed(&op.state, error.errno());
                self.finish(key, Err(result));
            }
        }
        let _ = self.failed.push(id);
    }

    pub(crate) fn packet_sent(&mut self, key: Key) {
        if let Some(op) = self.ops.get_mut(key) {
            op.packets = op.packets.saturating_sub(1);
            if let State::Leaving { len } = op.state
                && op.packets == 0
            {
                self.finish(key, Ok(sent(len)));
            }
        }
    }
}

impl<C: Carrier, B, A: Allocator> fmt::Debug for TaggedEndpoint<C, B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaggedEndpoint")
            .field("attr", &self.attr)
            .field("links", &self.added)
            .field("operations", &self.ops.len())
            .field("matcher", &self.matcher)
            .finish_non_exhaustive()
    }
}
