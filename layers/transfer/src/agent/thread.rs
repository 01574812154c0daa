//! [`Worker`]: the engine on its thread.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::collections::VecDeque;
use std::panic::catch_unwind;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;
use std::vec;
use std::vec::Vec;

use allocator_api2::alloc::Allocator;
use loom_core::engine::arrivals::ArrivalKey;
use loom_core::error::PostError;
use loom_core::{Buffer, Errno, Error, Rejected, Transport};

use super::counters::add;
use super::desk::Call;
use super::slots::{Content, Done, Ending as Result_, Mail, NIL, Work};
use super::{AgentAttr, ENDED, Message, Shared};
use crate::control::NotificationKey;
use crate::engine::Engine;
use crate::event::{Ending, Event, Outcome, TransferKey};
use crate::peers::PeerKey;
use crate::plan::Plan;
use crate::request::Request;

const EVENTS: usize = 64;
const EMPTY_POLLS: u32 = 32;
const CANCELLED: Error = Error::Provider(Errno::ECANCELED);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Starting,
    Backlog,
    Notice,
    Transfer(TransferKey),
    Wait,
    Receiving,
    Watching,
}

struct Stream<U> {
    unread: VecDeque<U>,
    waiting: VecDeque<u32>,
}

enum Unread {
    /// In the engine's buffers.
    Held(NotificationKey),
    Returned(Message),
}

pub(super) struct Worker<'m, T: Transport, M: Buffer + Send, P, A: Allocator + Send> {
    engine: Engine<'m, T, M, P, A>,
    shared: Arc<Shared<P>>,
    calls: mpsc::Receiver<Call<M>>,
    attr: AgentAttr,
    places: Vec<Place>,
    mail: u32,
    /// Being started, which may panic.
    starting: Option<u32>,
    transfers: Vec<Option<(TransferKey, u32)>>,
    in_flight: usize,
    waits: Vec<(ArrivalKey, u32)>,
    backlog: VecDeque<u32>,
    backlog_deadline: u64,
    full: Error,
    /// Notifications without room.
    notices: VecDeque<u32>,
    messages: Stream<Unread>,
    peers: Stream<(PeerKey, Result<(), Error>)>,
    fatal: Option<Error>,
}

impl<'m, T, M, P, A> Worker<'m, T, M, P, A>
where
    T: Transport + 'm,
    M: Buffer + Send + 'm,
    P: Plan,
    A: Allocator + Clone + Send + 'm,
{
    pub(super) fn new(
        engine: Engine<'m, T, M, P, A>,
        shared: Arc<Shared<P>>,
        calls: mpsc::Receiver<Call<M>>,
        attr: AgentAttr,
    ) -> Self {
        let slots = shared.slots.len();
        let mail = shared.slots.take_mail(false);
        Worker {
            engine,
            shared,
            calls,
            attr,
            places: vec![Place::Outside; slots],
            mail,
            starting: None,
            transfers: Vec::with_capacity(slots),
            in_flight: 0,
            waits: Vec::with_capacity(slots),
            backlog: VecDeque::with_capacity(slots),
            backlog_deadline: u64::MAX,
            full: ENDED,
            notices: VecDeque::with_capacity(slots),
            messages: Stream { unread: VecDeque::with_capacity(slots), waiting: VecDeque::with_capacity(slots) },
            peers: Stream { unread: VecDeque::with_capacity(slots), waiting: VecDeque::with_capacity(slots) },
            fatal: None,
        }
    }

    pub(super) fn run(mut self) {
        let reason = self.turns();
        let Worker { engine, shared, calls, mut places, mail, .. } = self;
        let slots = &shared.slots;
        for mut first in [mail, slots.take_mail(true)] {
            while let Some((slot, mail)) = slots.next(&mut first) {
                match (places[slot as usize], mail) {
                    (Place::Outside, Mail::Submitted | Mail::Abandoned) => places[slot as usize] = Place::Starting,
                    (_, Mail::Returned) => drop(slots.take_returned(slot)),
                    _ => {}
                }
            }
        }
        // Memory, plans and wakers may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(engine)));
        let _ = catch_unwind(AssertUnwindSafe(|| drop(calls)));
        for (slot, place) in (0..).zip(places) {
            if place != Place::Outside {
                let _ = catch_unwind(AssertUnwindSafe(|| drop(slots.complete(slot, Err(reason)))));
            }
        }
    }

    fn turns(&mut self) -> Error {
        let (mut busy_at, mut empty, mut panics) = (Instant::now(), 0_u32, 0);
        loop {
            if self.shared.is_closing() {
                return ENDED;
            }
            match catch_unwind(AssertUnwindSafe(|| self.turn())) {
                Ok(Ok(true)) => (busy_at, empty, panics) = (Instant::now(), 0, 0),
                Ok(Ok(false)) => {
                    empty += 1;
                    if empty == EMPTY_POLLS {
                        empty = if self.idle(busy_at.elapsed()) { EMPTY_POLLS - 1 } else { 0 };
                    }
                }
                Ok(Err(error)) => return error,
                Err(_) => {
                    panics += 1;
                    if let Some(slot) = self.starting.take().filter(|slot| self.at(*slot) == Place::Starting) {
                        self.end(slot, Err(Error::Invalid("the plan panicked: correct `Plan::block`")));
                    }
                    // One for each plan, otherwise the engine's.
                    if panics > self.places.len() {
                        return Error::Invalid("the engine panicked: report a defect of loom");
                    }
                }
            }
        }
    }

    /// Returns `true` after a pause.
    fn idle(&mut self, time: Duration) -> bool {
        if self.in_flight == 0 && time >= self.attr.spin {
            if let Some(slot) = self.backlog.pop_front() {
                self.refuse(slot, Ending::Failed(self.full));
            } else if !self.attr.pause.is_zero() {
                thread::park_timeout(self.attr.pause);
                return true;
            }
        }
        thread::yield_now();
        false
    }

    fn turn(&mut self) -> Result<bool, Error> {
        let mut busy = self.read_mail();
        for call in self.calls.try_iter().take(EVENTS) {
            busy = true;
            call(&mut self.engine);
        }
        busy |= self.retry();
        for _ in 0..EVENTS {
            match self.engine.poll(self.shared.now()) {
                Ok(None) => {
                    if let Some(error) = self.fatal {
                        return Err(error);
                    }
                    break;
                }
                Ok(Some(event)) => self.handle(event),
                Err(error) => {
                    self.fatal = self.engine.is_failed().then_some(error);
                }
            }
            busy = true;
        }
        self.deliver();
        Ok(busy)
    }

    fn at(&self, slot: u32) -> Place {
        self.places[slot as usize]
    }

    fn put(&mut self, slot: u32, place: Place) {
        self.places[slot as usize] = place;
    }

    fn end(&mut self, slot: u32, ending: Result_<P>) {
        self.put(slot, Place::Outside);
        if let Some(Ok(unread)) = self.shared.slots.complete(slot, ending) {
            self.take_back(unread);
        }
    }

    fn take_back(&mut self, unread: Done<P>) {
        match unread {
            Done::Received(message) => self.messages.unread.push_front(Unread::Returned(message)),
            Done::Changed(peer, result) => self.peers.unread.push_front((peer, result)),
            Done::Ended(_) | Done::Completed => {}
        }
    }

    fn read_mail(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut busy = false;
        if self.mail == NIL {
            self.mail = shared.slots.take_mail(false);
        }
        // A panic keeps the rest.
        while let Some((slot, mail)) = shared.slots.next(&mut self.mail) {
            busy = true;
            match (self.at(slot), mail) {
                (Place::Outside, Mail::Submitted | Mail::Abandoned) => {
                    self.begin(slot, matches!(mail, Mail::Abandoned));
                }
                (Place::Outside, Mail::Returned) => {
                    if let Some(Ok(unread)) = shared.slots.take_returned(slot) {
                        self.take_back(unread);
                    }
                }
                (Place::Outside, Mail::Stale) => {}
                _ if shared.slots.is_cancelled(slot) => self.cancel(slot),
                (Place::Wait | Place::Receiving | Place::Watching, Mail::Abandoned) => self.cancel(slot),
                _ => {}
            }
        }
        busy
    }

    fn cancel(&mut self, slot: u32) {
        match self.at(slot) {
            Place::Transfer(key) => {
                self.engine.cancel(key);
            }
            Place::Backlog => {
                self.backlog.retain(|other| *other != slot);
                self.refuse(slot, Ending::Cancelled);
            }
            Place::Notice => {
                self.notices.retain(|other| *other != slot);
                self.end(slot, Err(CANCELLED));
            }
            Place::Wait => {
                if let Some(at) = self.waits.iter().position(|wait| wait.1 == slot) {
                    self.engine.end_wait(self.waits.swap_remove(at).0);
                }
                self.end(slot, Err(CANCELLED));
            }
            Place::Receiving | Place::Watching => {
                self.messages.waiting.retain(|other| *other != slot);
                self.peers.waiting.retain(|other| *other != slot);
                self.end(slot, Err(CANCELLED));
            }
            Place::Outside | Place::Starting => {}
        }
    }

    fn begin(&mut self, slot: u32, is_abandoned: bool) {
        match self.take_work(slot) {
            Some(Work::Transfer { request, notifies }) => {
                add(&self.shared.counts.submitted, 1);
                let refused = if self.backlog.is_empty() {
                    self.start_transfer(slot, request, notifies)
                } else {
                    Some(Work::Transfer { request, notifies })
                };
                if let Some(work) = refused {
                    add(&self.shared.counts.retries, 1);
                    if let Work::Transfer { request, .. } = &work {
                        self.backlog_deadline = self.backlog_deadline.min(request.deadline);
                    }
                    self.put_work(slot, work, Place::Backlog);
                    self.backlog.push_back(slot);
                }
            }
            Some(Work::Notify(peer)) => {
                if let Some(work) = self.start_notice(slot, peer) {
                    add(&self.shared.counts.retries, 1);
                    self.put_work(slot, work, Place::Notice);
                    self.notices.push_back(slot);
                }
            }
            Some(_) if is_abandoned => self.end(slot, Err(CANCELLED)),
            Some(Work::Wait(wait)) => match self.engine.wait(wait) {
                Ok(key) => {
                    self.put(slot, Place::Wait);
                    self.waits.push((key, slot));
                }
                Err(error) => self.end(slot, Err(error)),
            },
            Some(Work::Receive) => {
                self.put(slot, Place::Receiving);
                self.messages.waiting.push_back(slot);
            }
            Some(Work::Watch) => {
                self.put(slot, Place::Watching);
                self.peers.waiting.push_back(slot);
            }
            None => {}
        }
        if self.shared.slots.is_cancelled(slot) && self.at(slot) != Place::Outside {
            self.cancel(slot);
        }
    }

    fn take_work(&mut self, slot: u32) -> Option<Work<P>> {
        let mut cell = self.shared.slots.cell(slot);
        match core::mem::replace(&mut cell.content, Content::Empty) {
            Content::Work(work) => Some(work),
            other => {
                cell.content = other;
                None
            }
        }
    }

    fn put_work(&mut self, slot: u32, work: Work<P>, place: Place) {
        self.shared.slots.cell(slot).content = Content::Work(work);
        self.put(slot, place);
    }

    fn start_transfer(&mut self, slot: u32, request: Request<P>, notifies: bool) -> Option<Work<P>> {
        self.put(slot, Place::Starting);
        self.starting = Some(slot);
        let submitted = match self.engine.prepare(request) {
            Ok(request) if notifies => {
                let cell = self.shared.slots.cell(slot);
                self.engine.submit_and_notify(request, &cell.bytes)
            }
            Ok(request) => self.engine.submit(request),
            Err(rejected) => Err(rejected),
        };
        self.starting = None;
        match submitted {
            Ok(key) => {
                let index = key.index as usize;
                if index >= self.transfers.len() {
                    self.transfers.resize(index + 1, None);
                }
                self.transfers[index] = Some((key, slot));
                self.in_flight += 1;
                self.put(slot, Place::Transfer(key));
            }
            Err(Rejected { value: request, error: error @ Error::Full(_) }) => {
                self.full = error;
                return Some(Work::Transfer { request, notifies });
            }
            Err(Rejected { value: request, error }) => self.end_unposted(slot, request, Ending::Failed(error)),
        }
        None
    }

    fn refuse(&mut self, slot: u32, ending: Ending) {
        if let Some(Work::Transfer { request, .. }) = self.take_work(slot) {
            self.end_unposted(slot, request, ending);
        }
    }

    fn end_unposted(&mut self, slot: u32, request: Request<P>, ending: Ending) {
        let key = TransferKey { index: u32::MAX, generation: 0 };
        let outcome = Outcome { key, request, ending, operations: 0, bytes: 0, in_flight: 0 };
        add(&self.shared.counts.failed, 1);
        self.end(slot, Ok(Done::Ended(outcome)));
    }

    fn start_notice(&mut self, slot: u32, peer: PeerKey) -> Option<Work<P>> {
        let cell = self.shared.slots.cell(slot);
        let sent = self.engine.notify(peer, &cell.bytes);
        drop(cell);
        if let Err(Error::Full(_) | Error::Post(PostError::Again)) = sent {
            return Some(Work::Notify(peer));
        }
        self.end(slot, sent.map(|()| Done::Completed));
        None
    }

    fn retry(&mut self) -> bool {
        let mut busy = false;
        if self.shared.now() >= self.backlog_deadline && !self.backlog.is_empty() {
            self.expire();
            busy = true;
        }
        while let Some(slot) = self.backlog.pop_front() {
            let Some(Work::Transfer { request, notifies }) = self.take_work(slot) else { continue };
            if let Some(work) = self.start_transfer(slot, request, notifies) {
                self.put_work(slot, work, Place::Backlog);
                self.backlog.push_front(slot);
                break;
            }
            busy = true;
        }
        for _ in 0..self.notices.len() {
            let Some(slot) = self.notices.pop_front() else { break };
            let Some(Work::Notify(peer)) = self.take_work(slot) else { continue };
            if let Some(work) = self.start_notice(slot, peer) {
                self.put_work(slot, work, Place::Notice);
                self.notices.push_back(slot);
            } else {
                busy = true;
            }
        }
        busy
    }

    fn expire(&mut self) {
        let now = self.shared.now();
        self.backlog_deadline = u64::MAX;
        for _ in 0..self.backlog.len() {
            let Some(slot) = self.backlog.pop_front() else { break };
            let deadline = match &self.shared.slots.cell(slot).content {
                Content::Work(Work::Transfer { request, .. }) => request.deadline,
                _ => u64::MAX,
            };
            if deadline <= now {
                self.refuse(slot, Ending::Deadline);
            } else {
                self.backlog_deadline = self.backlog_deadline.min(deadline);
                self.backlog.push_back(slot);
            }
        }
    }

    fn handle(&mut self, event: Event<P>) {
        match event {
            Event::Ended(outcome) => self.ended(outcome),
            Event::Arrived(arrived) => self.end_wait(arrived.key, Ok(Done::Completed)),
            Event::WaitFailed { wait, error, .. } => self.end_wait(wait, Err(error)),
            Event::Notified(key) => self.messages.unread.push_back(Unread::Held(key)),
            Event::Peer { peer, result } => {
                self.peers.unread.retain(|unread| unread.0 != peer);
                if self.peers.unread.len() >= self.places.len() {
                    self.peers.unread.pop_front();
                }
                self.peers.unread.push_back((peer, result));
            }
        }
    }

    fn ended(&mut self, outcome: Outcome<P>) {
        let found = self.transfers.get_mut(outcome.key.index as usize).and_then(Option::take);
        let Some((_, slot)) = found.filter(|(key, _)| *key == outcome.key) else { return };
        self.in_flight -= 1;
        let counts = &self.shared.counts;
        add(if outcome.ending == Ending::Done { &counts.done } else { &counts.failed }, 1);
        add(&counts.operations, outcome.operations);
        add(&counts.bytes, outcome.bytes);
        if self.attr.histogram {
            let since = self.shared.slots.cell(slot).since;
            counts.record(self.shared.now().saturating_sub(since));
        }
        self.end(slot, Ok(Done::Ended(outcome)));
    }

    fn end_wait(&mut self, key: ArrivalKey, ending: Result_<P>) {
        if let Some(at) = self.waits.iter().position(|wait| wait.0 == key) {
            let (_, slot) = self.waits.swap_remove(at);
            self.end(slot, ending);
        }
    }

    fn deliver(&mut self) {
        while !self.messages.waiting.is_empty()
            && let Some(unread) = self.messages.unread.pop_front()
        {
            let Some(slot) = self.messages.waiting.pop_front() else { break };
            let message = match unread {
                Unread::Returned(message) => Some(message),
                Unread::Held(key) => {
                    let bytes = core::mem::take(&mut self.shared.slots.cell(slot).bytes);
                    self.read(key, bytes)
                }
            };
            match message {
                Some(message) => self.end(slot, Ok(Done::Received(message))),
                None => self.messages.waiting.push_front(slot),
            }
        }
        while !self.peers.waiting.is_empty()
            && let Some((peer, result)) = self.peers.unread.pop_front()
        {
            let Some(slot) = self.peers.waiting.pop_front() else { break };
            self.end(slot, Ok(Done::Changed(peer, result)));
        }
    }

    fn read(&mut self, key: NotificationKey, mut bytes: Vec<u8>) -> Option<Message> {
        let notification = self.engine.notification(key)?;
        bytes.clear();
        for chunk in notification.chunks() {
            bytes.extend_from_slice(chunk);
        }
        let (peer, ending, late_writes) = (notification.peer(), notification.ending(), notification.late_writes());
        Some(Message { bytes, peer, ending, late_writes })
    }
}
