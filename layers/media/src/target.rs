//! [`Target`]: receives flows into its rings.

use core::fmt;

use allocator_api2::alloc::Allocator;
use loom_core::error::PostError;
use loom_core::{Access, Buffer, Domain, Error, Transport};
use loom_transfer::{Block, Ending, Engine, Event, MemoryKey, NotificationKey, PeerKey};

use crate::attr::MediaAttr;
use crate::flow::{FlowKey, Flows, Grain, Samples};
use crate::inflow::{Inflow, Report};
use crate::layout::FlowLayout;
use crate::message::{MAX_LEN, Message, Refusal};
use crate::record::TargetRecord;

/// Release of grains and samples, whose room the initiator may write to again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// [`Target::poll`] releases all but so many of the newest grains or samples.
    Keep(u64),
    /// [`Target::release`] releases them: an initiator without room passes over this target.
    Explicit,
}

/// Event of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "each event is reported once"]
pub enum TargetEvent {
    /// An initiator has begun with the flow.
    Attached {
        /// Flow.
        flow: FlowKey,
    },
    /// The initiator has ended, or has failed with this error. Another one may begin.
    Detached {
        /// Flow.
        flow: FlowKey,
        /// Failure of the initiator.
        error: Option<Error>,
    },
    /// More slices of a grain are valid: the first `valid` of each plane.
    Slices {
        /// Flow.
        flow: FlowKey,
        /// Index of the grain.
        index: u64,
        /// Number of valid slices. Never decreases.
        valid: u16,
    },
    /// All slices of a grain have arrived.
    Complete {
        /// Flow.
        flow: FlowKey,
        /// Index of the grain.
        index: u64,
    },
    /// The initiator has marked the grain as invalid. Its header has arrived.
    Invalid {
        /// Flow.
        flow: FlowKey,
        /// Index of the grain.
        index: u64,
    },
    /// A block of samples has arrived. Blocks may overtake each other.
    Samples {
        /// Flow.
        flow: FlowKey,
        /// Number of the first sample.
        start: u64,
        /// Number of samples of each channel.
        count: u32,
    },
    /// A transfer of the initiator has failed.
    Failed {
        /// Flow.
        flow: FlowKey,
        /// Index of the grain, or number of the first sample.
        start: u64,
        /// Error of the initiator.
        error: Error,
    },
    /// Grains or samples that will not complete: the initiator has passed over them, because this target
    /// had no room, or their transfers failed.
    Lapped {
        /// Flow.
        flow: FlowKey,
        /// The first.
        from: u64,
        /// End, which does not belong to them.
        to: u64,
    },
    /// The initiator has no room for the next grains or samples, and waits for
    /// [`Target::release`].
    NoRoom {
        /// Flow.
        flow: FlowKey,
    },
    /// A peer sent a message that does not belong to a flow. It has no effect.
    Rejected {
        /// The peer.
        peer: PeerKey,
    },
}

const UNKNOWN: Error = Error::Invalid("there is no such flow");

struct Flow<A: Allocator> {
    memory: MemoryKey,
    inflow: Inflow<A>,
}

/// Receiver of media flows, each written by one initiator at a time into a ring of registered memory.
///
/// The initiator writes only where this side has granted room, so that a grain stays as it is until it
/// is released ([`Release`]).
///
/// Belongs to one thread, and makes progress in [`poll`](Self::poll).
pub struct Target<'m, T: Transport, M: Buffer + Send, A: Allocator + Send> {
    engine: Engine<'m, T, M, Block, A>,
    flows: Flows<Flow<A>, A>,
    /// Refusals to send.
    refusals: heapless::Vec<(PeerKey, u32, Refusal), 16>,
    /// Notifications of failed transfers whose writes may still arrive.
    late: heapless::Vec<(NotificationKey, FlowKey), 16>,
    alloc: A,
}

impl<'m, T, M, A> Target<'m, T, M, A>
where
    T: Transport + 'm,
    M: Buffer + Send + 'm,
    A: Allocator + Clone + Send + 'm,
{
    /// Opens a target with a rail for each domain.
    ///
    /// # Errors
    /// Those of [`Engine::open_in`].
    pub fn open_in(domains: &[Domain<'m, T>], attr: MediaAttr, alloc: A) -> Result<Self, Error> {
        let engine = Engine::open_in(domains, attr.engine(), alloc.clone())?;
        let flows = Flows::new(attr.flows, alloc.clone())?;
        Ok(Target { engine, flows, refusals: heapless::Vec::new(), late: heapless::Vec::new(), alloc })
    }

    /// Registers memory as the ring of a flow. Allocates.
    ///
    /// # Errors
    /// [`Error::Full`] beyond [`MediaAttr::flows`], [`Error::Invalid`] for an empty layout, memory that
    /// is shorter, or [`Release::Keep`] of the whole ring, and those of [`Engine::register`].
    pub fn add_flow(&mut self, memory: M, layout: FlowLayout, release: Release) -> Result<FlowKey, Error> {
        let full = Error::Full("MediaAttr::flows");
        if !layout.is_valid() {
            return Err(Error::Invalid("a flow has at least one plane, slice and slot, or whole periods of samples"));
        }
        if matches!(release, Release::Keep(keep) if keep >= layout.ring()) {
            return Err(Error::Invalid("`Release::Keep` leaves room for at least one grain or sample of the ring"));
        }
        if !self.flows.has_room() {
            return Err(full);
        }
        let memory = self.engine.register(memory, Access::REMOTE_WRITE)?;
        let inflow = Inflow::new(layout, release, self.alloc.clone());
        let is_long = self.engine.window(memory).is_some_and(|window| window.len() as u64 >= layout.bytes());
        match inflow {
            Ok(inflow) if is_long => self.flows.insert(Flow { memory, inflow }).ok_or(full),
            other => {
                self.engine.deregister(memory)?;
                Err(other.err().map_or(Error::Invalid("the memory is shorter than the ring of the flow"), Error::from))
            }
        }
    }
}

impl<T: Transport, M: Buffer + Send, A: Allocator + Send> Target<'_, T, M, A> {
    /// Removes a flow, whose memory is dropped.
    ///
    /// # Errors
    /// [`PostError::Again`] while an initiator is attached, which is requested to end: call it again after
    /// [`TargetEvent::Detached`]. [`Error::Invalid`] for an unknown key.
    pub fn remove_flow(&mut self, flow: FlowKey) -> Result<(), Error> {
        let initiator = self.flows.get(flow).ok_or(UNKNOWN)?.inflow.initiator();
        if let Some(peer) = initiator {
            self.refuse(peer, flow.number(), Refusal::Closed);
            return Err(PostError::Again.into());
        }
        let removed = self.flows.remove(flow).ok_or(UNKNOWN)?;
        self.engine.deregister(removed.memory)
    }

    /// Writes the record of a flow for [`Initiator::add_target`](crate::Initiator::add_target), and returns its length.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown key, and
    /// [`AddressError::BufferTooSmall`](loom_core::AddressError::BufferTooSmall).
    pub fn record(&self, flow: FlowKey, out: &mut [u8]) -> Result<usize, Error> {
        let Flow { memory, inflow } = self.flows.get(flow).ok_or(UNKNOWN)?;
        let memory = self.engine.remote(*memory)?;
        let needed = TargetRecord::HEAD;
        let rest = TargetRecord::head(flow.number(), inflow.layout(), &memory, out)
            .ok_or(loom_core::AddressError::BufferTooSmall)?;
        Ok(needed + self.engine.address(rest)?)
    }

    /// Grain of a flow that has arrived in part or whole, and has not been released.
    #[must_use]
    pub fn grain(&self, flow: FlowKey, index: u64) -> Option<Grain<'_>> {
        let Flow { memory, inflow } = self.flows.get(flow)?;
        let FlowLayout::Grains(layout, slots) = *inflow.layout() else { return None };
        let (valid, is_invalid) = inflow.grain(index)?;
        let (len, slot) = (usize::try_from(layout.len()).ok()?, usize::try_from(index % u64::from(slots)).ok()?);
        let window = self.engine.window(*memory)?.slice(slot * len, len).ok()?;
        Some(Grain { index, valid, is_invalid, window })
    }

    /// Ring of a flow of samples. Those that have arrived and have not been released are valid.
    #[must_use]
    pub fn samples(&self, flow: FlowKey) -> Option<Samples<'_>> {
        let Flow { memory, inflow } = self.flows.get(flow)?;
        let FlowLayout::Samples(layout) = *inflow.layout() else { return None };
        Some(Samples { window: self.engine.window(*memory)?, layout })
    }

    /// Releases all grains or samples below a number.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown key.
    pub fn release(&mut self, flow: FlowKey, below: u64) -> Result<(), Error> {
        let flow = self.flows.get_mut(flow).ok_or(UNKNOWN)?;
        flow.inflow.release(below);
        Ok(())
    }

    /// Receives, grants room, and returns the next event. `now` is the time in nanoseconds of any clock.
    ///
    /// # Errors
    /// Those of [`Engine::poll`].
    pub fn poll(&mut self, now: u64) -> Result<Option<TargetEvent>, Error> {
        let mut event = None;
        match self.engine.poll(now)? {
            Some(Event::Notified(key)) => event = self.notified(key),
            Some(Event::Peer { peer, result: Err(error) }) => {
                for (_, flow) in self.flows.iter_mut() {
                    flow.inflow.fail(peer, error);
                }
            }
            _ => {}
        }
        self.look_at_late_writes();
        self.send(event.is_none());
        Ok(event.or_else(|| self.report()))
    }

    fn report(&mut self) -> Option<TargetEvent> {
        self.flows.iter_mut().find_map(|(key, flow)| {
            Some(match flow.inflow.report()? {
                Report::Attached => TargetEvent::Attached { flow: key },
                Report::Detached(error) => TargetEvent::Detached { flow: key, error },
                Report::Lapped(from, to) => TargetEvent::Lapped { flow: key, from, to },
                Report::NoRoom => TargetEvent::NoRoom { flow: key },
            })
        })
    }

    fn notified(&mut self, key: NotificationKey) -> Option<TargetEvent> {
        let notification = self.engine.notification(key)?;
        let (peer, ending, late) = (notification.peer(), notification.ending(), notification.late_writes());
        let mut bytes = [0; MAX_LEN];
        let message = notification.copy_to(&mut bytes).and_then(|bytes| Message::decode(bytes));
        if late > 0 {
            notification.keep();
        } else {
            drop(notification);
        }
        let rejected = Some(TargetEvent::Rejected { peer });
        let Some(message) = message else { return rejected };
        let number = match message {
            Message::Attach { flow, .. }
            | Message::Slices { flow, .. }
            | Message::Samples { flow, .. }
            | Message::Detach { flow, .. } => flow,
            Message::Granted { .. } | Message::Refused { .. } => return rejected,
        };
        let flow = FlowKey::of_number(number);
        let Some(Flow { inflow, .. }) = self.flows.get_mut(flow) else {
            if let Message::Attach { .. } = message {
                self.refuse(peer, number, Refusal::Unknown);
            }
            return rejected;
        };
        if let Message::Attach { layout, next, sequence, is_first, .. } = message {
            if let Err(reason) = inflow.attach(peer, &layout, next, sequence, is_first) {
                self.refuse(peer, number, reason);
            }
            return None;
        }
        if inflow.initiator() != Some(peer) {
            return rejected;
        }
        if late > 0 && self.late.push((key, flow)).is_ok() {
            inflow.hold(true);
        }
        let error = match ending {
            Ending::Done => None,
            Ending::Failed(error) => Some(error),
            _ => Some(Error::Provider(loom_core::Errno::ECANCELED)),
        };
        let event = match message {
            Message::Slices { index, start, end, invalid, sequence, .. } => {
                let valid = inflow.slices(index, start, end, invalid, sequence, error.is_some());
                valid.map(|valid| match (error, valid) {
                    (Some(error), _) => Some(TargetEvent::Failed { flow, start: index, error }),
                    (None, Some(_)) if invalid => Some(TargetEvent::Invalid { flow, index }),
                    (None, Some(_)) if inflow.is_complete(index) => Some(TargetEvent::Complete { flow, index }),
                    (None, Some(valid)) => Some(TargetEvent::Slices { flow, index, valid }),
                    (None, None) => None,
                })
            }
            Message::Samples { start, count, sequence, .. } => {
                let new = inflow.samples(start, count, sequence, error.is_some());
                new.map(|is_news| match error {
                    Some(error) => Some(TargetEvent::Failed { flow, start, error }),
                    None => is_news.then_some(TargetEvent::Samples { flow, start, count }),
                })
            }
            Message::Detach { sequence, .. } => {
                inflow.detach(sequence);
                Some(None)
            }
            _ => None,
        };
        let Some(event) = event else {
            inflow.fail(peer, Error::Invalid("the initiator does not keep to its flow or its room"));
            self.refuse(peer, number, Refusal::Protocol);
            return rejected;
        };
        event
    }

    fn refuse(&mut self, peer: PeerKey, flow: u32, reason: Refusal) {
        // An initiator that is not answered attaches again.
        let _ = self.refusals.push((peer, flow, reason));
    }

    /// Releases kept notifications whose writes have arrived, and the flows that waited for them.
    fn look_at_late_writes(&mut self) {
        let Target { engine, late, flows, .. } = self;
        if late.is_empty() {
            return;
        }
        late.retain(|&(key, _)| match engine.notification(key) {
            Some(notification) if notification.late_writes() > 0 => {
                notification.keep();
                true
            }
            _ => false,
        });
        for (key, flow) in flows.iter_mut() {
            flow.inflow.hold(late.iter().any(|entry| entry.1 == key));
        }
    }

    fn send(&mut self, is_idle: bool) {
        let Target { engine, flows, refusals, .. } = self;
        let mut send = |peer, message: Message| {
            let (bytes, len) = message.encode();
            let again = |error| matches!(error, Error::Full(_)) || error == Error::from(PostError::Again);
            // A peer that has failed is reported as an event.
            engine.notify(peer, bytes.get(..len).unwrap_or(&[])).err().is_some_and(again)
        };
        refusals.retain(|&(peer, flow, reason)| send(peer, Message::Refused { flow, reason }));
        for (key, flow) in flows.iter_mut() {
            let Some((peer, limit, attached)) = flow.inflow.grant(is_idle) else { continue };
            if !send(peer, Message::Granted { flow: key.number(), limit, attached }) {
                flow.inflow.granted(limit);
            }
        }
    }
}

impl<T: Transport, M: Buffer + Send, A: Allocator + Send> fmt::Debug for Target<'_, T, M, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}
