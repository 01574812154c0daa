use core::fmt;
use core::ops::Range;
use std::boxed::Box;
use std::rc::Rc;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use loom_core::error::OpenError;
use loom_core::exposed::Window;
use loom_core::transport::Connected;
use loom_core::vocabulary::{AddressFormat, EndpointType};
use loom_core::{Access, Buffer, Cq, CqAttr, CqError, Domain, EndpointAddr, Error, Mr, Transport};

use super::super::files::Files;
use super::super::memory::Ring;
use super::super::{FlowReader, MxlError, TargetInfo};
use super::connectionless::Endpoints;
use super::connections::Connections;
use super::links::{Link, Sending};
use super::posting::block_len;
use super::{FabricsAttr, Outgoing, Part, Source, has_connections, orders_writes, provider, register};
use crate::backlog::{self, Backlog};
use crate::flow::Samples;
use crate::layout::FlowLayout;
use crate::link::{TargetKey, TargetStatus};
use crate::{Fanout, InitiatorEvent};

/// Sender of one flow to MXL's targets, or [`FabricsTarget`](super::FabricsTarget)s.
///
/// A target that fails is connected again ([`FabricsAttr::retry`]). If the provider does not order
/// writes ([`MsgOrder::RMA_WAW`](loom_core::vocabulary::MsgOrder::RMA_WAW)), each transfer waits
/// for the previous one, and its last write for the others.
///
/// ```
/// use core::time::Duration;
/// use loom_core::{Domain, transport::Connected};
/// use loom_media::InitiatorEvent;
/// use loom_media::mxl::{FabricsAttr, FabricsInitiator, FlowReader, MxlError, TargetInfo};
///
/// // Sends each grain of 1080 lines that a writer of this host commits.
/// // An invalid one is sent by `send_invalid`.
/// # fn send<T: Connected + 'static>(
/// #     domain: &Domain<'static, T>, flow: FlowReader, info: &str,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let mut next = flow.head();
/// let mut initiator = FabricsInitiator::open_flow(domain, &flow, next, FabricsAttr::default())?;
/// initiator.add_target(TargetInfo::parse(info)?)?;
/// loop {
///     if let Some(InitiatorEvent::Target { result, .. }) = initiator.poll(0)? { result?; }
///     match flow.read_grain(next, 1080, &mut [], Duration::from_millis(1)) {
/// #       Ok(header) if header.is_invalid => _ = initiator.send_invalid(next)?,
///         Ok(_) => _ = initiator.send_grain(next, 0..1080)?,
///         Err(MxlError::TooEarly) => continue,
///         Err(MxlError::TooLate) => next = flow.head() - 1,
/// #       Err(error) => return Err(error.into()),
///     }
///     next += 1;
/// }
/// # }
/// ```
#[doc(alias = "mxlFabricsInitiator")]
pub struct FabricsInitiator<'m, T: Transport, M: Buffer + Send> {
    pub(super) links: Vec<(TargetKey, Option<Link>)>,
    pub(super) sendings: Vec<Option<Sending>>,
    pub(super) outgoing: Box<dyn Outgoing<'m, T, M> + 'm>,
    pub(super) cq: Cq<'m, T, Part<'m, T, M>>,
    /// Memory of writes: the ring of grains, or a block of samples for each transfer.
    pub(super) from: Source<'m, T, M>,
    pub(super) memory: Rc<Mr<'m, T, M>>,
    pub(super) scratch: Vec<u8>,
    pub(super) domain: Domain<'m, T>,
    pub(super) layout: FlowLayout,
    pub(super) attr: FabricsAttr,
    pub(super) piece: u64,
    /// Flow in shared memory. Its writer does not wait.
    pub(super) source: Option<Arc<Files>>,
    pub(super) is_ordered: bool,
    next: u64,
    next_slice: u16,
    pub(super) has_failed: bool,
}

impl<'m, T: Connected + 'm, M: Buffer + Send + 'm> FabricsInitiator<'m, T, M> {
    /// Registers memory as the ring of a flow. `first` is the first grain or sample to send.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a layout without header, or short memory, and those of [`Mr::open`].
    pub fn open(
        domain: &Domain<'m, T>,
        memory: M,
        layout: FlowLayout,
        first: u64,
        attr: FabricsAttr,
    ) -> Result<Self, Error> {
        if !has_connections(domain) {
            return Self::open_connectionless(domain, memory, layout, first, attr);
        }
        let open = |cq: &_| Ok(Box::new(Connections::open(domain, cq, attr.targets)?) as Box<dyn Outgoing<'m, T, M>>);
        Self::open_over(domain, memory, layout, first, attr, open)
    }
}

impl<'m, T: Transport + 'm, M: Buffer + Send + 'm> FabricsInitiator<'m, T, M> {
    /// [`open`](Self::open) for transports without connections.
    pub fn open_connectionless(
        domain: &Domain<'m, T>,
        memory: M,
        layout: FlowLayout,
        first: u64,
        attr: FabricsAttr,
    ) -> Result<Self, Error> {
        let kind = domain.info().attributes().endpoint.kind;
        if kind != EndpointType::RDM {
            return Err(OpenError::EndpointType(kind).into());
        }
        let open = |cq: &_| Ok(Box::new(Endpoints::new(domain, cq, attr.targets)) as Box<dyn Outgoing<'m, T, M>>);
        Self::open_over(domain, memory, layout, first, attr, open)
    }

    fn open_over(
        domain: &Domain<'m, T>,
        memory: M,
        layout: FlowLayout,
        first: u64,
        attr: FabricsAttr,
        outgoing: impl FnOnce(&Cq<'m, T, Part<'m, T, M>>) -> Result<Box<dyn Outgoing<'m, T, M> + 'm>, Error>,
    ) -> Result<Self, Error> {
        let memory = Rc::new(register(domain, memory, &layout, Access::WRITE, &attr)?);
        let attributes = domain.info().attributes();
        let granted = attributes.tx.msg_order.intersection(attributes.rx.msg_order);
        let piece = attributes.endpoint.max_msg_size as u64;
        // As many may wait for their reports.
        let sendings = 2 * usize::from(attr.targets) * usize::from(attr.transfers);
        let (blocks, scratch) = match layout {
            FlowLayout::Grains(..) => (None, 0),
            FlowLayout::Samples(samples) => {
                let len = usize::try_from(block_len(&samples, attr.batch)).ok();
                let len = len.and_then(|block| block.checked_mul(sendings)).ok_or(OpenError::Size)?;
                let blocks = Mr::open(domain, vec![0; len], Access::WRITE)?;
                (Some(blocks), usize::from(samples.word) * attr.batch as usize)
            }
        };
        let ordered = attributes.endpoint.max_order_waw_size as u64;
        let cq = Cq::open(domain, CqAttr { endpoints: attr.targets.max(1), ..CqAttr::new(attr.depth) })?;
        Ok(FabricsInitiator {
            links: (0..attr.targets.into()).map(|index| (TargetKey::new(index), None)).collect(),
            sendings: vec![None; sendings],
            outgoing: outgoing(&cq)?,
            cq,
            from: blocks.map_or(Source::Ring(memory.clone()), |blocks| Source::Blocks(Rc::new(blocks))),
            memory,
            scratch: vec![0; scratch],
            domain: domain.clone(),
            layout,
            attr,
            piece,
            source: None,
            is_ordered: orders_writes(granted, ordered, piece.min(layout.bytes())),
            next: first,
            next_slice: 0,
            has_failed: false,
        })
    }
}

impl<'m, T: Connected + 'm> FabricsInitiator<'m, T, Ring> {
    /// [`open`](Self::open) with the ring of a flow in shared memory, which is read. What its
    /// writer overwrites is passed over, or ends with an error.
    pub fn open_flow(domain: &Domain<'m, T>, flow: &FlowReader, first: u64, attr: FabricsAttr) -> Result<Self, Error> {
        let source = Some(flow.files.clone());
        let initiator = Self::open(domain, Ring(flow.files.clone()), flow.layout(), first, attr)?;
        Ok(FabricsInitiator { source, ..initiator })
    }
}

const UNKNOWN: Error = Error::Invalid("there is no such target: use the key of `add_target`, until its removal");

impl<T: Transport, M: Buffer + Send> FabricsInitiator<'_, T, M> {
    /// Adds a target, which is connected in [`poll`](Self::poll).
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Invalid`] for another flow, provider or address format, or a target
    /// that was added.
    #[doc(alias = "mxlFabricsInitiatorAddTarget")]
    pub fn add_target(&mut self, info: TargetInfo) -> Result<TargetKey, Error> {
        info.fits(&self.layout).map_err(|error| match error {
            MxlError::TargetInfo("regions") => {
                Error::Invalid("the target has slots of another length: use the same format on both sides")
            }
            _ => Error::Invalid("the target has another kind of flow: use the same format on both sides"),
        })?;
        if info.provider != provider(&self.domain) {
            return Err(Error::Invalid(
                "the target has another provider than the domain: open the domain over that of its info",
            ));
        }
        let format = AddressFormat::from_raw(info.address_format);
        if format != self.domain.info().attributes().addr_format {
            return Err(Error::Invalid(
                "the target has another address format than the domain: query the domain with that of its info",
            ));
        }
        let address = EndpointAddr::new(format, &info.fabric_address)?;
        if self.links.iter().flat_map(|(_, link)| link).any(|link| link.info.id == info.id) {
            return Err(Error::Invalid("the target has been added: remove it first"));
        }
        // Writes in flight of a removed target have its index.
        let free = (0..self.links.len()).find(|index| self.links[*index].1.is_none() && self.is_quiet(*index));
        let free = free.and_then(|index| self.links.get_mut(index));
        let (key, link) = free.ok_or(Error::Full("FabricsAttr::targets"))?;
        *link = Some(Link {
            info,
            address,
            is_open: false,
            status: TargetStatus::Connecting,
            report: None,
            retry_at: 0,
            due: None,
            leaves: false,
            backlog: Backlog::default(),
            posting: None,
            entry: 0,
            position: None,
        });
        Ok(*key)
    }

    /// Removes a target after its transfers in flight ([`lap`](Self::lap) ends those of a target
    /// that hangs). [`InitiatorEvent::Removed`] follows.
    #[doc(alias = "mxlFabricsInitiatorRemoveTarget")]
    pub fn remove_target(&mut self, target: TargetKey) -> Result<(), Error> {
        let found = self.links.iter_mut().find(|(key, _)| *key == target);
        let link = found.and_then(|(_, link)| link.as_mut()).ok_or(UNKNOWN)?;
        link.leaves = true;
        link.backlog.pass_all();
        Ok(())
    }

    /// State of a target. `None` for an unknown key.
    #[must_use]
    pub fn status(&self, target: TargetKey) -> Option<TargetStatus> {
        self.links.iter().find(|(key, _)| *key == target)?.1.as_ref().map(|link| link.status)
    }

    /// Slot of a grain, as [`Initiator::grain`](crate::Initiator::grain) returns it: header and
    /// planes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a flow of samples, or a grain that has been sent.
    pub fn grain(&mut self, index: u64) -> Result<Option<Window<'_>>, Error> {
        let FlowLayout::Grains(layout, slots) = self.layout else { return Err(NO_GRAINS) };
        if index < self.next || index == u64::MAX {
            return Err(GONE);
        }
        if !self.free(index + 1) {
            return Ok(None);
        }
        let to_usize = |value| usize::try_from(value).map_err(|_| OpenError::Size);
        let (at, len) = (to_usize(index % u64::from(slots) * layout.stride())?, to_usize(layout.len())?);
        Ok(Some(self.memory.window().slice(at, len)?))
    }

    /// Ring of samples, to write those that follow. Blocks to slow targets are passed over.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a flow of grains, more samples than the ring, or some that were sent.
    pub fn samples(&mut self, start: u64, count: u32) -> Result<Samples<'_>, Error> {
        let FlowLayout::Samples(layout) = self.layout else { return Err(NO_SAMPLES) };
        let end = start.checked_add(count.into()).filter(|_| count <= layout.len && start >= self.next);
        // Blocks in flight are copies.
        self.free(end.ok_or(GONE)?);
        Ok(Samples { window: self.memory.window(), layout })
    }

    fn is_in_place(&self, sending: &Sending, end: u64) -> bool {
        sending.start.saturating_add(self.layout.ring()) < end
    }

    fn free(&mut self, end: u64) -> bool {
        let below = end.saturating_sub(self.layout.ring());
        for link in self.links.iter_mut().filter_map(|(_, link)| link.as_mut()) {
            link.backlog.pass_below(below);
        }
        !self.sendings.iter().flatten().any(|sending| !sending.has_ended() && self.is_in_place(sending, end))
    }

    /// Disconnects targets whose transfers keep grains below `end` from their slots, or have
    /// samples that the ring no longer has, and connects them again later. Over untested versions
    /// of providers, and `shm` in one process, operations keep their slots until they complete.
    pub fn lap(&mut self, end: u64) -> Result<(), Error> {
        for index in 0..self.links.len() {
            let is_late = |sending: &&Sending| {
                sending.target == index && sending.is_in_progress() && self.is_in_place(sending, end)
            };
            if self.sendings.iter().flatten().any(|sending| is_late(&sending)) {
                self.fail(index, CqError::TimedOut.into(), None);
            }
        }
        self.complete()
    }

    /// Sends slices of a grain to all targets, like
    /// [`Initiator::send_grain`](crate::Initiator::send_grain).
    ///
    /// # Errors
    /// [`Error::Invalid`] for a flow of samples, an earlier index, or slices that the layout does not
    /// have or that do not follow the last ones.
    #[doc(alias = "mxlFabricsInitiatorTransferGrain")]
    pub fn send_grain(&mut self, index: u64, slices: Range<u16>) -> Result<Fanout, Error> {
        self.send_slices(index, slices, false)
    }

    /// Sends the header of a grain, in which the program has set MXL's mark of invalid grains.
    pub fn send_invalid(&mut self, index: u64) -> Result<Fanout, Error> {
        self.send_slices(index, 0..0, true)
    }

    fn send_slices(&mut self, index: u64, Range { start, end }: Range<u16>, invalid: bool) -> Result<Fanout, Error> {
        let FlowLayout::Grains(layout, _) = self.layout else { return Err(NO_GRAINS) };
        if start > end || end > layout.slices || start == end && start > 0 {
            return Err(Error::Invalid(
                "the grain does not have these slices: send at most those of `GrainLayout::slices`",
            ));
        }
        if index < self.next || index == u64::MAX {
            return Err(GONE);
        }
        let next_slice = if index == self.next { self.next_slice } else { 0 };
        if !invalid && start != next_slice {
            return Err(Error::Invalid("the slices do not follow the last ones of the grain: send them without gaps"));
        }
        self.free(index + 1);
        (self.next, self.next_slice) = (index, end);
        if invalid || end == layout.slices {
            (self.next, self.next_slice) = (index + 1, 0);
        }
        self.send(backlog::Part::Slices { index, start, end, invalid })
    }

    /// Sends samples in blocks of at most [`FabricsAttr::batch`].
    ///
    /// # Errors
    /// [`Error::Invalid`] for a flow of grains, no sample, or those that `samples` refuses.
    #[doc(alias = "mxlFabricsInitiatorTransferSamples")]
    pub fn send_samples(&mut self, start: u64, count: u32) -> Result<Fanout, Error> {
        let FlowLayout::Samples(layout) = self.layout else { return Err(NO_SAMPLES) };
        let end = start.checked_add(count.into());
        let end = end.filter(|_| count > 0 && count <= layout.len && start >= self.next);
        self.next = end.ok_or(GONE)?;
        self.free(self.next);
        self.send(backlog::Part::Samples { start, count })
    }

    fn send(&mut self, part: backlog::Part) -> Result<Fanout, Error> {
        let mut fanout = Fanout::default();
        for index in 0..self.links.len() {
            let Some((_, Some(link))) = self.links.get_mut(index) else { continue };
            match link.status {
                _ if link.leaves => continue,
                TargetStatus::Connecting => fanout.connecting += 1,
                TargetStatus::Failed(_) => fanout.failed += 1,
                TargetStatus::Ready => {
                    link.backlog.push(part);
                    let has_posted = self.post(index);
                    let Some((_, Some(link))) = self.links.get(index) else { continue };
                    match link.status {
                        TargetStatus::Failed(_) => fanout.deferred += 1,
                        _ if !has_posted || link.posting.is_some() || link.backlog.first().is_some() => {
                            fanout.deferred += 1;
                        }
                        _ => fanout.submitted += 1,
                    }
                }
            }
        }
        Ok(fanout)
    }

    /// Number of transfers that have not ended.
    #[must_use]
    pub fn in_progress(&self) -> usize {
        self.sendings.iter().flatten().filter(|sending| sending.is_in_progress()).count()
    }

    /// Makes progress, and returns the next event: call it until it returns `None`. `now` is the
    /// time in nanoseconds of any clock.
    ///
    /// # Errors
    /// Those of [`Cq::poll`] and [`EventQueue::poll`](loom_core::EventQueue::poll).
    #[doc(alias = "mxlFabricsInitiatorMakeProgressNonBlocking")]
    pub fn poll(&mut self, now: u64) -> Result<Option<InitiatorEvent>, Error> {
        while let Some((index, result)) = self.outgoing.next()? {
            match result {
                Ok(()) => self.reach(index),
                Err(errno) => self.fail(index, Error::Provider(errno), Some(now)),
            }
        }
        self.complete()?;
        for index in 0..self.links.len() {
            self.connect(index, now);
            self.post(index);
        }
        if core::mem::take(&mut self.has_failed) {
            self.complete()?;
        }
        Ok(self.report())
    }
}

const NO_GRAINS: Error = Error::Invalid("the flow has samples: use the functions for samples");
pub(super) const NO_SAMPLES: Error = Error::Invalid("the flow has grains: use the functions for grains");
const GONE: Error = Error::Invalid("the flow has gone beyond these, or its ring is shorter: go on with later ones");

impl<T: Transport, M: Buffer + Send> fmt::Debug for FabricsInitiator<'_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FabricsInitiator").field("in_progress", &self.in_progress()).finish_non_exhaustive()
    }
}
