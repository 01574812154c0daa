use core::fmt;
use core::sync::atomic::{Ordering, fence};
use std::boxed::Box;
use std::string::String;
use std::vec;
use std::vec::Vec;

use heapless::Deque;
use loom_core::error::OpenError;
use loom_core::exposed::Window;
use loom_core::transport::Connected;
use loom_core::vocabulary::RangeError;
use loom_core::{Access, Buffer, Completion, Cq, CqAttr, Domain, Error, Mr, Transport};

use super::super::memory::Ring;
use super::super::wire::take;
use super::super::{BounceBuffer, FlowWriter, GrainHeader, Immediate, Region, TargetInfo};
use super::arrivals::{Arrivals, Mark};
use super::connectionless::Receiver;
use super::connections::Listener;
use super::{
    Change, FabricsAttr, FabricsEvent, Incoming, has_connections, provider, random, register, with_random_key,
};
use crate::flow::{Grain, Samples};
use crate::layout::{FlowLayout, GrainLayout, SampleLayout};

#[derive(Clone, Copy, Default)]
struct Slot {
    index: Option<u64>,
    valid: u16,
    is_invalid: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Header {
    /// `is_stale` if the header is older than the connection.
    Grain { header: GrainHeader, is_stale: bool },
    /// First sample, and number of samples.
    Samples(u64, u32),
}

/// Maximum number of rejected writes that wait for their reports.
const REJECTED: usize = 16;
/// Offset in the padding of a header. Each connection begins with another value there.
const PADDING: usize = 8184;

/// Receiver of one flow from MXL's initiators or a [`FabricsInitiator`](super::FabricsInitiator).
///
/// Listens at one address. While an initiator is connected, others are rejected. Indices of grains,
/// and numbers of samples, increase on a connection.
///
/// Without connections, several initiators may write, within half a ring of each other. They are
/// not detected, and repeated grains are rejected.
///
/// MXL has no credit: the initiator writes into the ring at any time. A program copies a grain, and
/// requests it again: [`grain`](Self::grain) returns `None` if it was overwritten. If an initiator
/// skips as many indices as the ring has, and this side is late, the header of its next grain may
/// be taken for an earlier one.
///
/// ```
/// use loom_core::{Domain, transport::Connected};
/// use loom_media::mxl::{FabricsAttr, FabricsEvent, FabricsTarget, FlowWriter};
///
/// // Receives 1080 lines for each grain, for the readers of this host. The initiator reads the info.
/// # fn receive<T: Connected + 'static>(
/// #     domain: &Domain<'static, T>, mut flow: FlowWriter, publish: impl FnOnce(String),
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let mut target = FabricsTarget::open_flow(domain, &flow, FabricsAttr::default())?;
/// publish(target.info()?.to_string());
/// loop {
///     match target.poll()? {
///         // A later grain in the slot keeps its header.
///         Some(FabricsEvent::Complete { index }) if target.grain(index).is_some() => {
///             flow.commit_grain(index, 1080, false)?;
///         }
///         Some(FabricsEvent::Detached { error }) => return Ok(error.map_or(Ok(()), Err)?),
///         _ => {}
///     }
/// }
/// # }
/// ```
#[doc(alias = "mxlFabricsTarget")]
pub struct FabricsTarget<'m, T: Transport, M: Buffer + Send> {
    incoming: Box<dyn Incoming + 'm>,
    cq: Cq<'m, T, Vec<u8>>,
    memory: Mr<'m, T, M>,
    bounce: Option<(BounceBuffer, Mr<'m, T, Vec<u8>>)>,
    layout: FlowLayout,
    attr: FabricsAttr,
    provider: String,
    id: u64,
    ending: Option<Option<Error>>,
    slots: Vec<Slot>,
    /// The grains or samples below have been reported.
    next: Option<u64>,
    arrivals: Arrivals<Header>,
    rejected: Deque<u64, REJECTED>,
    /// Value of the padding.
    epoch: u64,
    /// Follows a report of lapped grains or samples.
    report: Option<FabricsEvent>,
}

impl<'m, T: Connected + 'm, M: Buffer + Send + 'm> FabricsTarget<'m, T, M> {
    /// Listens at the address of the domain's info, or opens a connectionless endpoint, and
    /// registers memory as the ring.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a layout without header, or short memory, and those of
    /// [`EventQueue::listen`](loom_core::EventQueue::listen), [`Cq::endpoint`] and [`Mr::open`].
    pub fn open(domain: &Domain<'m, T>, memory: M, layout: FlowLayout, attr: FabricsAttr) -> Result<Self, Error> {
        if !has_connections(domain) {
            return Self::open_connectionless(domain, memory, layout, attr);
        }
        let listen = |cq: &_, writes| Ok(Box::new(Listener::open(domain, cq, writes)?) as Box<dyn Incoming + 'm>);
        Self::open_over(domain, memory, layout, attr, listen)
    }
}

impl<'m, T: Transport + 'm, M: Buffer + Send + 'm> FabricsTarget<'m, T, M> {
    /// [`open`](Self::open) for transports without connections.
    pub fn open_connectionless(
        domain: &Domain<'m, T>,
        memory: M,
        layout: FlowLayout,
        attr: FabricsAttr,
    ) -> Result<Self, Error> {
        let open = |cq: &_, writes| Ok(Box::new(Receiver::open(domain, cq, writes)?) as Box<dyn Incoming + 'm>);
        Self::open_over(domain, memory, layout, attr, open)
    }

    fn open_over(
        domain: &Domain<'m, T>,
        memory: M,
        layout: FlowLayout,
        attr: FabricsAttr,
        incoming: impl FnOnce(&Cq<'m, T, Vec<u8>>, u16) -> Result<Box<dyn Incoming + 'm>, Error>,
    ) -> Result<Self, Error> {
        let (access, slots) = match layout {
            FlowLayout::Grains(_, slots) => (Access::REMOTE_WRITE, slots as usize),
            FlowLayout::Samples(_) => (Access::READ, 0),
        };
        if (1..3).contains(&slots) {
            return Err(Error::Invalid("the ring of a target has less than three slots: use a longer one"));
        }
        let memory = register(domain, memory, &layout, access, &attr)?;
        let bounce = match layout {
            FlowLayout::Grains(..) => None,
            FlowLayout::Samples(samples) => {
                let bounce = BounceBuffer::of(&samples, attr.batch);
                let len = bounce.entry_count.checked_mul(bounce.entry_size).and_then(|len| usize::try_from(len).ok());
                let entries = vec![0; len.ok_or(OpenError::Size)?];
                Some((bounce, Mr::open(domain, entries, with_random_key(domain, Access::REMOTE_WRITE))?))
            }
        };
        let cq = Cq::open(domain, CqAttr { endpoints: 4, ..CqAttr::new(attr.depth) })?;
        let places = bounce.as_ref().map_or(slots, |(bounce, _)| usize::try_from(bounce.entry_count).unwrap_or(0));
        let incoming = incoming(&cq, u16::try_from(attr.depth).unwrap_or(u16::MAX))?;
        let mut target = FabricsTarget {
            incoming,
            cq,
            memory,
            bounce,
            layout,
            attr,
            provider: provider(domain).into(),
            id: random(),
            ending: None,
            slots: vec![Slot::default(); slots],
            next: None,
            arrivals: Arrivals::new(places),
            rejected: Deque::new(),
            epoch: 0,
            report: None,
        };
        target.begin();
        Ok(target)
    }
}

impl<'m, T: Connected + 'm> FabricsTarget<'m, T, Ring> {
    /// [`open`](Self::open) with the ring of a flow in shared memory, and its batch. The program commits after each
    /// event.
    pub fn open_flow(domain: &Domain<'m, T>, flow: &FlowWriter, mut attr: FabricsAttr) -> Result<Self, Error> {
        // MXL's initiators send batches of the flow.
        if let FlowLayout::Samples(layout) = flow.layout() {
            attr.batch = flow.files.batches.1.min(layout.len / 3);
        }
        Self::open(domain, Ring(flow.files.clone()), flow.layout(), attr)
    }
}

impl<T: Transport, M: Buffer + Send> FabricsTarget<'_, T, M> {
    /// Description by which initiators reach this target.
    ///
    /// # Errors
    /// Those of [`Endpoint::address`](loom_core::Endpoint::address).
    #[doc(alias = "mxlFabricsTargetSetup")]
    pub fn info(&self) -> Result<TargetInfo, Error> {
        let address = self.incoming.address()?;
        let (remote, count, stride, len) = match (&self.layout, &self.bounce) {
            (FlowLayout::Grains(layout, slots), _) => {
                (self.memory.remote(), u64::from(*slots), layout.stride(), layout.len())
            }
            (_, Some((bounce, entries))) => {
                (entries.remote(), bounce.entry_count, bounce.entry_size, bounce.entry_size)
            }
            (_, None) => return Err(Error::Invalid("a flow of samples has entries: open the target again")),
        };
        let region = |at: u64| Region { addr: remote.base.0.wrapping_add(at * stride), len, rkey: remote.key.0 };
        Ok(TargetInfo {
            address_format: address.format().as_raw(),
            fabric_address: address.bytes().into(),
            id: self.id,
            provider: self.provider.clone(),
            regions: (0..count).map(region).collect(),
            bounce_buffer: self.bounce.as_ref().map(|(bounce, _)| *bounce),
        })
    }

    /// Grain that has arrived in part or whole. `None` once a later grain is in its slot.
    #[must_use]
    pub fn grain(&self, index: u64) -> Option<Grain<'_>> {
        // After copies of the program.
        fence(Ordering::Acquire);
        let FlowLayout::Grains(layout, slots) = self.layout else { return None };
        let place = usize::try_from(index.checked_rem(slots.into())?).ok()?;
        let slot = self.slots.get(place).filter(|slot| slot.index == Some(index))?;
        let window = self.slot(&layout, place).ok()?;
        let is_current = header(window).is_some_and(|header| header.index == index);
        is_current.then_some(Grain { index, valid: slot.valid, is_invalid: slot.is_invalid, window })
    }

    /// Ring of samples.
    #[must_use]
    pub fn samples(&self) -> Option<Samples<'_>> {
        let FlowLayout::Samples(layout) = self.layout else { return None };
        Some(Samples { window: self.memory.window(), layout })
    }

    /// Accepts initiators, and returns the next event. After an overrun
    /// ([`EOVERRUN`](loom_core::Errno::EOVERRUN)), each call fails: open another target.
    ///
    /// # Errors
    /// Those of [`Cq::poll`] and [`EventQueue::poll`](loom_core::EventQueue::poll).
    #[doc(alias = "mxlFabricsTargetReadGrainNonBlocking")]
    #[doc(alias = "mxlFabricsTargetReadSamplesNonBlocking")]
    pub fn poll(&mut self) -> Result<Option<FabricsEvent>, Error> {
        loop {
            let rejected = |data| FabricsEvent::Rejected { data };
            if let Some(event) = self.report.take().or_else(|| self.rejected.pop_front().map(rejected)) {
                return Ok(Some(event));
            }
            if let Some((mark, header)) = self.arrivals.next() {
                if let Some(event) = self.arrived(mark, header) {
                    return Ok(Some(event));
                }
                continue;
            }
            let is_open = self.incoming.is_open() || self.ending.is_some();
            if is_open && self.gather()? {
                continue;
            }
            // All that had arrived before has been reported.
            if let Some(error) = self.ending.take_if(|_| self.arrivals.is_empty()) {
                self.incoming.close();
                return Ok(Some(FabricsEvent::Detached { error }));
            }
            match self.incoming.next()? {
                Some(Change::Requested) => {
                    self.begin();
                    if let Err(error) = self.incoming.accept() {
                        return Ok(Some(FabricsEvent::Unconnected { error }));
                    }
                }
                Some(Change::Attached) => return Ok(Some(FabricsEvent::Attached)),
                Some(Change::Unconnected(error)) => return Ok(Some(FabricsEvent::Unconnected { error })),
                Some(Change::Ended(error)) => self.ending = Some(error),
                None => return Ok(None),
            }
        }
    }

    /// Disconnects the initiator, for example if its host is silent. [`FabricsEvent::Detached`]
    /// follows. The next one may begin with earlier numbers.
    pub fn disconnect(&mut self) {
        if self.incoming.close() {
            self.ending.get_or_insert(None);
        }
    }

    /// Returns `true` if an event may follow.
    fn gather(&mut self) -> Result<bool, Error> {
        let was_quiet = self.drain()?;
        if !self.rejected.is_empty() {
            return Ok(true);
        }
        if self.arrivals.is_empty() {
            return Ok(false);
        }
        let mut arrivals = core::mem::replace(&mut self.arrivals, Arrivals::new(0));
        arrivals.read(was_quiet, |mark| self.header(mark));
        self.arrivals = arrivals;
        // The headers are read before the queue.
        fence(Ordering::Acquire);
        let is_quiet = self.drain()?;
        self.arrivals.accept(is_quiet);
        Ok(true)
    }

    /// Returns `true` if the queue is empty.
    fn drain(&mut self) -> Result<bool, Error> {
        for _ in 0..self.attr.depth {
            if self.rejected.is_full() {
                return Ok(false);
            }
            match self.cq.poll()? {
                Some(Completion::Remote(event)) => {
                    let Some(data) = event.data() else { continue };
                    match self.mark(data.0) {
                        Some(mark) => self.arrivals.note(mark),
                        None => _ = self.rejected.push_back(data.0),
                    }
                }
                // Failures of a connection that ends.
                Some(_) => {}
                None => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Before an initiator: its grains have headers of their own.
    fn begin(&mut self) {
        (self.next, self.epoch) = (None, random());
        self.slots.fill(Slot::default());
        let FlowLayout::Grains(layout, _) = self.layout else { return };
        for place in 0..self.slots.len() {
            let slot = self.slot(&layout, place);
            // It has a header.
            let _ = slot.and_then(|slot| slot.copy_from(PADDING, &self.epoch.to_ne_bytes()));
        }
    }

    fn slot(&self, layout: &GrainLayout, place: usize) -> Result<Window<'_>, RangeError> {
        let to_usize = |value| usize::try_from(value).map_err(|_| RangeError::OutOfWindow);
        self.memory.window().slice(to_usize(place as u64 * layout.stride())?, to_usize(layout.len())?)
    }

    fn entry(&self, place: u64) -> Option<(Window<'_>, &BounceBuffer)> {
        let (bounce, entries) = self.bounce.as_ref().filter(|(bounce, _)| place < bounce.entry_count)?;
        let (at, len) = (usize::try_from(place * bounce.entry_size).ok()?, usize::try_from(bounce.entry_size).ok()?);
        Some((entries.window().slice(at, len).ok()?, bounce))
    }

    #[expect(clippy::cast_possible_truncation, reason = "MXL's immediate data has 32 bits")]
    fn mark(&self, data: u64) -> Option<Mark> {
        let bits = data as u32;
        match self.layout {
            FlowLayout::Grains(layout, slots) => {
                let Immediate { slot, end } = Immediate::from_bits(bits);
                let is_known = u32::from(slot) < slots && end <= layout.slices;
                is_known.then_some(Mark { place: slot.into(), end })
            }
            FlowLayout::Samples(_) => self.entry(bits.into()).map(|_| Mark { place: bits as usize, end: 0 }),
        }
    }

    /// Header of a slot or an entry as it is now, and its index or first sample.
    fn header(&self, mark: &Mark) -> Option<(u64, Header)> {
        match self.layout {
            FlowLayout::Grains(layout, slots) => {
                let slot = self.slot(&layout, mark.place).ok()?;
                let mut epoch = [0; 8];
                slot.copy_to(PADDING, &mut epoch).ok()?;
                let header = header(slot)?;
                let is_stale = u64::from_ne_bytes(epoch) == self.epoch;
                let is_of = header.index % u64::from(slots) == mark.place as u64 && header.index < u64::MAX;
                is_of.then_some((header.index, Header::Grain { header, is_stale }))
            }
            FlowLayout::Samples(_) => {
                let (head, count) = entry_header(self.entry(mark.place as u64)?.0)?;
                let count = u32::try_from(count).ok().filter(|count| (1..=self.attr.batch).contains(count))?;
                let start = head.checked_sub(count.into())?;
                Some((start, Header::Samples(start, count)))
            }
        }
    }

    fn arrived(&mut self, mark: Mark, header: Option<Header>) -> Option<FabricsEvent> {
        let bits = mark.place as u64 | u64::from(mark.end) << 16;
        let rejected = Some(FabricsEvent::Rejected { data: bits });
        let is_late = |number| self.next.is_some_and(|next| number < next);
        match (header, self.layout) {
            (Some(Header::Samples(start, _) | Header::Grain { header: GrainHeader { index: start, .. }, .. }), _)
                if is_late(start) =>
            {
                rejected
            }
            (Some(Header::Samples(start, count)), FlowLayout::Samples(layout)) => {
                let is_whole = self.unpack(&layout, mark.place, start, count);
                let event = FabricsEvent::Samples { start, count };
                is_whole.then(|| self.pass(start, start + u64::from(count), event))
            }
            (Some(Header::Grain { header, is_stale }), FlowLayout::Grains(layout, _)) => {
                let slot = self.slots.get_mut(mark.place)?;
                let (index, before) = (header.index, *slot);
                let is_known = before.index == Some(index);
                // Slices of another grain. Its header has not been sent.
                let is_complete = is_known && (before.valid == layout.slices || before.is_invalid);
                if is_complete || !is_known && is_stale {
                    return rejected;
                }
                // A header alone follows slices if the grain is invalid. The program may have
                // written its own since.
                let is_marked = header.is_invalid && (mark.end == 0 || mark.end == layout.slices);
                let is_invalid = is_marked || is_known && mark.end == 0 && before.valid > 0;
                let valid = if is_known { before.valid.max(mark.end) } else { mark.end };
                *slot = Slot { index: Some(index), valid, is_invalid };
                let end = if is_invalid || valid == layout.slices { index + 1 } else { index };
                let event = match valid {
                    _ if is_invalid => FabricsEvent::Invalid { index },
                    valid if valid == layout.slices => FabricsEvent::Complete { index },
                    valid if is_known && valid == before.valid => return None,
                    valid => FabricsEvent::Slices { index, valid },
                };
                Some(self.pass(index, end, event))
            }
            _ => rejected,
        }
    }

    /// Goes on to `end`, and returns the event, after that of a gap.
    fn pass(&mut self, start: u64, end: u64, event: FabricsEvent) -> FabricsEvent {
        let next = self.next.replace(self.next.map_or(end, |next| next.max(end)));
        let Some(from) = next.filter(|next| *next < start) else { return event };
        self.report = Some(event);
        FabricsEvent::Lapped { from, to: start }
    }

    /// Returns `false` if the entry was overwritten meanwhile.
    fn unpack(&self, layout: &SampleLayout, place: usize, start: u64, count: u32) -> bool {
        let Some((entry, _)) = self.entry(place as u64) else { return false };
        let is_current = || entry_header(entry) == Some((start + u64::from(count), count.into()));
        if !is_current() {
            return false;
        }
        let samples = Samples { window: self.memory.window(), layout: *layout };
        let (word, count) = (usize::from(layout.word), count as usize);
        let mut part = [0; 4096];
        let step = (part.len() / word).max(1);
        for channel in 0..layout.channels {
            for first in (0..count).step_by(step) {
                let len = step.min(count - first) * word;
                let Some(part) = part.get_mut(..len) else { return false };
                let at = BounceBuffer::HEADER_LEN + ((usize::from(channel) * count + first) * word) as u64;
                let copied = usize::try_from(at).map_err(|_| RangeError::OutOfWindow);
                let copied = copied.and_then(|at| entry.copy_to(at, part));
                if copied.and_then(|()| samples.copy_from(channel, start + first as u64, part)).is_err() {
                    return false;
                }
            }
        }
        // The header is written first: after the copy, it is still that of the samples.
        fence(Ordering::Acquire);
        is_current()
    }
}

fn header(slot: Window<'_>) -> Option<GrainHeader> {
    let mut bytes = [0; GrainHeader::LEN];
    slot.copy_to(0, &mut bytes).ok()?;
    GrainHeader::from_bytes(&bytes)
}

/// End and number of the samples of an entry.
fn entry_header(entry: Window<'_>) -> Option<(u64, u64)> {
    let mut bytes = [0; 16];
    entry.copy_to(0, &mut bytes).ok()?;
    Some((u64::from_ne_bytes(take(&bytes, 0)), u64::from_ne_bytes(take(&bytes, 8))))
}

impl<T: Transport, M: Buffer + Send> fmt::Debug for FabricsTarget<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_open = self.incoming.is_open();
        f.debug_struct("FabricsTarget").field("layout", &self.layout).field("is_open", &is_open).finish()
    }
}
