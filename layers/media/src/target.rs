use core::fmt;

use allocator_api2::alloc::Allocator;
use loom_core::error::PostError;
use loom_core::{Access, Buffer, Domain, Errno, Error, Transport};
use loom_transfer::{Block, Ending, Engine, Event, MemoryKey, NotificationKey, PeerKey};

use crate::attr::MediaAttr;
use crate::flow::{FlowKey, Flows, Grain, Samples, register};
use crate::inflow::{Attachment, Inflow, News, Report, Written};
use crate::layout::FlowLayout;
use crate::message::{MAX_LEN, Message, Refusal};
use crate::peer_cache::Known;
use crate::record::TargetRecord;

/// Release of grains and samples: the initiator may write to their room again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// [`Target::poll`] releases all but so many of the newest grains or samples.
    Keep(u64),
    /// [`Target::release`] releases them. An initiator without room defers its transfers.
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
        /// Number of valid slices. Never decreases, unless another initiator begins with the grain.
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
    /// Grains or samples that will not complete: this target had no room, or their transfers
    /// failed.
    Lapped {
        /// Flow.
        flow: FlowKey,
        /// First.
        from: u64,
        /// Exclusive end.
        to: u64,
    },
    /// The initiator has no room for the next grains or samples, and waits for
    /// [`Target::release`].
    NoRoom {
        /// Flow.
        flow: FlowKey,
    },
    /// Ignored message of a peer that belongs to no flow.
    Rejected {
        /// Peer.
        peer: PeerKey,
    },
}

const UNKNOWN: Error = Error::Invalid("there is no such flow: use the key of `add_flow`, until its removal");

struct Flow<A: Allocator> {
    memory: MemoryKey,
    inflow: Inflow<A>,
}

/// Receiver of media flows, each from one initiator at a time into a registered ring.
///
/// Belongs to one thread, and makes progress in [`poll`](Self::poll).
///
/// A grain stays as it is until it is released ([`Release`]). Two kinds of writes may change a
/// later grain: those of failed or lapped transfers that arrive afterwards, as over a broken
/// connection or several rails, and those posted by an initiator before its process was stopped for
/// longer than [`MediaAttr::silence`].
pub struct Target<'m, T: Transport, M: Buffer + Send, A: Allocator + Send> {
    engine: Engine<'m, T, M, Block, A>,
    flows: Flows<Flow<A>, A>,
    known: Known<A>,
    refusals: heapless::Vec<(Attachment, Refusal), 16>,
    /// Polls since the last event.
    idle: u32,
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
        let (flows, known) = (Flows::new(attr.flows, alloc.clone())?, Known::new(attr.peers, alloc.clone())?);
        Ok(Target { engine, flows, known, refusals: heapless::Vec::new(), idle: 0, alloc })
    }

    /// Registers memory as the ring of a flow. Allocates.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Invalid`] for an empty layout, short memory, or [`Release::Keep`]
    /// of the whole ring, and those of [`Engine::register`].
    pub fn add_flow(&mut self, memory: M, layout: FlowLayout, release: Release) -> Result<FlowKey, Error> {
        if matches!(release, Release::Keep(keep) if keep >= layout.ring()) {
            return Err(Error::Invalid(
                "`Release::Keep` keeps the whole ring: leave room for at least one grain or sample",
            ));
        }
        let full = Error::Full("MediaAttr::flows");
        if !self.flows.has_room() {
            return Err(full);
        }
        let memory = register(&mut self.engine, memory, &layout, Access::REMOTE_WRITE)?;
        match Inflow::new(layout, release, self.alloc.clone()) {
            Ok(inflow) => self.flows.insert(Flow { memory, inflow }).ok_or(full),
            Err(error) => {
                self.engine.deregister(memory)?;
                Err(error.into())
            }
        }
    }
}

impl<T: Transport, M: Buffer + Send, A: Allocator + Send> Target<'_, T, M, A> {
    /// Polls before a grant that is not urgent.
    const BUSY_POLLS: u32 = 64;

    /// Removes a flow, and drops its memory.
    ///
    /// # Errors
    /// [`PostError::Again`] while an initiator is attached, which is requested to end: call it
    /// again after [`TargetEvent::Detached`].
    pub fn remove_flow(&mut self, flow: FlowKey) -> Result<(), Error> {
        if let Some(attachment) = self.flows.get_mut(flow).ok_or(UNKNOWN)?.inflow.close() {
            self.refuse(attachment, Refusal::Closed);
            return Err(PostError::Again.into());
        }
        let removed = self.flows.remove(flow).ok_or(UNKNOWN)?;
        self.engine.deregister(removed.memory)
    }

    /// Writes the record of a flow for [`Initiator::add_target`](crate::Initiator::add_target), and
    /// returns its length.
    ///
    /// # Errors
    /// [`AddressError::BufferTooSmall`](loom_core::AddressError::BufferTooSmall).
    pub fn record(&self, flow: FlowKey, out: &mut [u8]) -> Result<usize, Error> {
        let Flow { memory, inflow } = self.flows.get(flow).ok_or(UNKNOWN)?;
        let memory = self.engine.remote(*memory)?;
        let rest = TargetRecord::head(flow.number(), inflow.layout(), &memory, out)
            .ok_or(loom_core::AddressError::BufferTooSmall)?;
        Ok(TargetRecord::HEAD + self.engine.address(rest)?)
    }

    /// Unreleased grain that has arrived in part or whole.
    #[must_use]
    pub fn grain(&self, flow: FlowKey, index: u64) -> Option<Grain<'_>> {
        let Flow { memory, inflow } = self.flows.get(flow)?;
        let FlowLayout::Grains(layout, slots) = *inflow.layout() else { return None };
        let (valid, is_invalid) = inflow.grain(index)?;
        let at = usize::try_from(index % u64::from(slots) * layout.stride()).ok()?;
        let window = self.engine.window(*memory)?.slice(at, usize::try_from(layout.len()).ok()?).ok()?;
        Some(Grain { index, valid, is_invalid, window })
    }

    /// Ring of a flow of samples, valid from arrival to release.
    #[must_use]
    pub fn samples(&self, flow: FlowKey) -> Option<Samples<'_>> {
        let Flow { memory, inflow } = self.flows.get(flow)?;
        let FlowLayout::Samples(layout) = *inflow.layout() else { return None };
        Some(Samples { window: self.engine.window(*memory)?, layout })
    }

    /// Releases all grains or samples below a number.
    pub fn release(&mut self, flow: FlowKey, below: u64) -> Result<(), Error> {
        self.flows.get_mut(flow).ok_or(UNKNOWN)?.inflow.release(below);
        Ok(())
    }

    /// Makes progress, and returns the next event. `now` is the time in nanoseconds of any clock.
    /// After an overrun ([`Errno::EOVERRUN`]), each call fails: open another target.
    ///
    /// # Errors
    /// Those of [`Engine::poll`].
    pub fn poll(&mut self, now: u64) -> Result<Option<TargetEvent>, Error> {
        for (_, flow) in self.flows.iter_mut() {
            flow.inflow.poll();
        }
        let mut event = self.report();
        if event.is_none() {
            match self.engine.poll(now)? {
                Some(Event::Notified(key)) => event = self.notified(key),
                Some(Event::Peer { peer, result: Ok(()) }) => {
                    let Target { flows, known, .. } = self;
                    let evicted = known.insert(peer, |known| flows.iter().any(|flow| flow.inflow.is_of(known)));
                    evicted.map(|peer| self.engine.remove_peer(peer));
                }
                Some(Event::Peer { peer, result: Err(error) }) => {
                    for (_, flow) in self.flows.iter_mut() {
                        flow.inflow.fail(peer, error);
                    }
                }
                _ => {}
            }
            event = event.or_else(|| self.report());
        }
        self.idle = if event.is_some() { 0 } else { self.idle.saturating_add(1) };
        self.send(self.idle > Self::BUSY_POLLS);
        Ok(event)
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
        let (peer, ending) = (notification.peer(), notification.ending());
        let mut bytes = [0; MAX_LEN];
        let message = notification.copy_to(&mut bytes).and_then(|bytes| Message::decode(bytes));
        drop(notification);
        let rejected = Some(TargetEvent::Rejected { peer });
        let Some(message) = message else { return rejected };
        let (number, token) = match message {
            Message::Attach { flow, token, .. }
            | Message::Slices { flow, token, .. }
            | Message::Samples { flow, token, .. }
            | Message::Detach { flow, token, .. } => (flow, token),
            Message::Granted { .. } | Message::Refused { .. } => return rejected,
        };
        let (flow, attachment) = (FlowKey::of_number(number), Attachment { peer, token });
        let inflow = self.flows.get_mut(flow).map(|flow| &mut flow.inflow);
        let written = match message {
            Message::Attach { is_first, layout, next, sequence, .. } => {
                let attached = inflow.map_or(Err(Refusal::Unknown), |inflow| {
                    inflow.attach(attachment, is_first, &layout, next, sequence)
                });
                if let Err(reason) = attached {
                    self.refuse(attachment, reason);
                }
                return None;
            }
            Message::Detach { sequence, .. } => {
                if let Some(inflow) = inflow.filter(|inflow| inflow.is_of_attachment(attachment)) {
                    inflow.detach(sequence);
                }
                return None;
            }
            Message::Slices { index, start, end, invalid, sequence, .. } => {
                (Written::Slices { index, start, end, invalid }, sequence)
            }
            Message::Samples { start, count, sequence, .. } => (Written::Samples { start, count }, sequence),
            Message::Granted { .. } | Message::Refused { .. } => return rejected,
        };
        // Those of a former attachment are late.
        let inflow = inflow.filter(|inflow| inflow.is_of_attachment(attachment))?;
        let error = match ending {
            Ending::Done => None,
            Ending::Failed(error) => Some(error),
            _ => Some(Error::Provider(Errno::ECANCELED)),
        };
        let (written, sequence) = written;
        let Some(news) = inflow.written(written, sequence, error.is_some()) else {
            inflow.fail(
                peer,
                Error::Invalid(
                    "the initiator does not keep to its flow or its room: use the same version of loom on both sides",
                ),
            );
            self.refuse(attachment, Refusal::Protocol);
            return rejected;
        };
        let (start, count) = match written {
            Written::Slices { index, .. } => (index, 0),
            Written::Samples { start, count } => (start, count),
        };
        if let Some(error) = error {
            return Some(TargetEvent::Failed { flow, start, error });
        }
        Some(match news {
            News::Old => return None,
            News::Slices(valid) => TargetEvent::Slices { flow, index: start, valid },
            News::Complete => TargetEvent::Complete { flow, index: start },
            News::Invalid => TargetEvent::Invalid { flow, index: start },
            News::Samples => TargetEvent::Samples { flow, start, count },
        })
    }

    fn refuse(&mut self, attachment: Attachment, reason: Refusal) {
        if !self.refusals.contains(&(attachment, reason)) {
            // Of more at a time, the initiators remain without an answer.
            let _ = self.refusals.push((attachment, reason));
        }
    }

    fn send(&mut self, is_idle: bool) {
        let Target { engine, flows, refusals, .. } = self;
        let mut is_sent = |peer, message: Message| {
            let (bytes, len) = message.encode();
            match engine.notify(peer, bytes.get(..len).unwrap_or(&[])) {
                Err(Error::Full(_)) => false,
                sent => sent != Err(PostError::Again.into()),
            }
        };
        refusals.retain(|&(to, reason)| !is_sent(to.peer, Message::Refused { token: to.token, reason }));
        for (_, flow) in flows.iter_mut() {
            let Some((peer, grant)) = flow.inflow.grant(is_idle) else { continue };
            if is_sent(peer, grant) {
                flow.inflow.granted();
            }
        }
    }
}

impl<T: Transport, M: Buffer + Send, A: Allocator + Send> fmt::Debug for Target<'_, T, M, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").finish_non_exhaustive()
    }
}
