//! [`Hub`]: rank 0, to which the other ranks connect.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::vec::Vec;

use loom_core::deadline::Deadline;

use super::super::error::errno;
use super::super::{BootstrapError, Mismatch, Pause, place};
use super::frame::{Failure, Frame, HEADER_LEN, HELLO_LEN, Hello, Refusal};
use super::link::{Gone, Link};
use super::{TcpAttr, check_limit};

/// Maximum number of connections without introduction. One more closes the oldest, which is
/// retried.
const CALLERS: usize = 128;

pub(super) struct Hub {
    /// Ranks from 1 on.
    spokes: Vec<Link>,
    limit: u32,
    frame: Vec<u8>,
}

struct Meeting {
    seats: Vec<Seat>,
    /// Oldest first.
    callers: VecDeque<Link>,
    me: Hello,
    awaited: u32,
}

#[derive(Default)]
struct Seat {
    /// It may have left.
    came: bool,
    link: Option<Link>,
}

impl Hub {
    pub(super) fn meet(
        listener: &TcpListener,
        attr: &TcpAttr,
        until: &mut dyn Deadline,
    ) -> Result<Self, BootstrapError> {
        let limit = check_limit(attr)?;
        let me = Hello { job: attr.job, rank: 0, size: attr.size, limit };
        let mut seats = Vec::new();
        let others = place(attr.size).saturating_sub(1);
        seats.try_reserve_exact(others).map_err(|_| BootstrapError::OutOfMemory)?;
        seats.resize_with(others, Seat::default);
        listener
            .set_nonblocking(true)
            .map_err(|error| BootstrapError::System { call: "set_nonblocking", errno: errno(&error) })?;
        let mut meeting = Meeting { seats, callers: VecDeque::new(), me, awaited: 0 };
        let mut pause = Pause::default();
        loop {
            let moved = meeting.accept(listener) | meeting.hear();
            if meeting.missing().is_none() {
                meeting.look_after();
            }
            let Some(missing) = meeting.missing() else { break };
            if until.passed() {
                meeting.report(Frame::Failed(Failure::Missing(missing)));
                return Err(BootstrapError::Missing { rank: missing });
            }
            if moved {
                pause.reset();
                continue;
            }
            meeting.look_after();
            if meeting.awaited != missing {
                meeting.awaited = missing;
                meeting.report(Frame::Waiting(missing));
            }
            pause.wait();
        }
        let mut spokes: Vec<Link> = meeting.seats.into_iter().filter_map(|seat| seat.link).collect();
        let joined = Frame::Joined.to_bytes();
        spokes.iter_mut().for_each(|spoke| spoke.queue(&joined));
        let mut hub = Hub { spokes, limit, frame: Vec::new() };
        match hub.hand_out(until) {
            Ok(()) => Ok(hub),
            Err(Failure::Missing(rank) | Failure::OutOfStep(rank) | Failure::Malformed(rank)) => {
                Err(BootstrapError::Missing { rank })
            }
        }
    }

    pub(super) fn round(
        &mut self,
        (number, code): (u32, u32),
        mine: &[u8],
        visit: &mut dyn FnMut(u32, &[u8]),
        until: &mut dyn Deadline,
    ) -> Result<(), BootstrapError> {
        if let Err(failure) = self.gather(number, code, until) {
            // Keep the connections: closing them now would discard this frame where bytes are on
            // their way here.
            for spoke in &mut self.spokes {
                _ = spoke.report(Frame::Failed(failure));
            }
            return Err(failure.into());
        }
        let gifts = || core::iter::once(mine).chain(self.spokes.iter().map(gift));
        let frame = &mut self.frame;
        frame.clear();
        frame.resize(HEADER_LEN, 0);
        for bytes in gifts() {
            frame.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
            frame.extend_from_slice(bytes);
        }
        let len = u64::try_from(frame.len().saturating_sub(HEADER_LEN)).unwrap_or(u64::MAX);
        if let Some(header) = frame.first_chunk_mut() {
            *header = Frame::All { number, len }.to_bytes();
        }
        if let Err(failure) = self.hand_out(until) {
            // Frames may be incomplete: close the connections to notify the other ranks.
            self.spokes.clear();
            return Err(failure.into());
        }
        (0..)
            .zip(core::iter::once(mine).chain(self.spokes.iter().map(gift)))
            .for_each(|(rank, bytes)| visit(rank, bytes));
        self.spokes.iter_mut().for_each(|spoke| spoke.inbox.clear());
        Ok(())
    }

    fn gather(&mut self, number: u32, code: u32, until: &mut dyn Deadline) -> Result<(), Failure> {
        let (mut reported, mut pause) = (0, Pause::default());
        loop {
            let mut missing = None;
            let mut moved = false;
            for (rank, spoke) in (1..).zip(&mut self.spokes) {
                let complete = read_gift(spoke, number, code, self.limit).map_err(|failure| failure(rank))?;
                moved |= spoke.has_moved();
                if !complete {
                    missing.get_or_insert(rank);
                }
            }
            let Some(missing) = missing else { return Ok(()) };
            if until.passed() {
                return Err(Failure::Missing(missing));
            }
            if moved {
                pause.reset();
                continue;
            }
            for spoke in &mut self.spokes {
                if reported != missing {
                    spoke.queue(&Frame::Waiting(missing).to_bytes());
                }
                // Ignore errors: a rank that left after its bytes left because of the missing one.
                _ = spoke.flush();
            }
            reported = missing;
            pause.wait();
        }
    }

    fn hand_out(&mut self, until: &mut dyn Deadline) -> Result<(), Failure> {
        let mut sent = std::vec![0; self.spokes.len()];
        let mut pause = Pause::default();
        loop {
            let mut missing = None;
            let mut moved = false;
            for ((rank, spoke), sent) in (1..).zip(&mut self.spokes).zip(&mut sent) {
                let complete = spoke.send(&self.frame, sent).map_err(|Gone| Failure::Missing(rank))?;
                moved |= spoke.has_moved();
                if !complete {
                    missing.get_or_insert(rank);
                }
            }
            match missing {
                None => return Ok(()),
                Some(missing) if until.passed() => return Err(Failure::Missing(missing)),
                Some(_) if moved => pause.reset(),
                Some(_) => pause.wait(),
            }
        }
    }
}

fn gift(spoke: &Link) -> &[u8] {
    spoke.inbox.get(HEADER_LEN..).unwrap_or_default()
}

fn read_gift(spoke: &mut Link, number: u32, code: u32, limit: u32) -> Result<bool, fn(u32) -> Failure> {
    if !spoke.fill(HEADER_LEN).map_err(|Gone| Failure::Missing as fn(u32) -> _)? {
        return Ok(false);
    }
    match Frame::read(&spoke.inbox) {
        Some(Frame::Gift { number: theirs, code: kind, .. }) if (theirs, kind) != (number, code) => {
            Err(Failure::OutOfStep)
        }
        Some(Frame::Gift { len, .. }) if len <= limit => {
            let want = usize::try_from(len).unwrap_or(usize::MAX).saturating_add(HEADER_LEN);
            spoke.fill(want).map_err(|Gone| Failure::Missing as fn(u32) -> _)
        }
        _ => Err(Failure::Malformed),
    }
}

impl Meeting {
    /// Lowest rank that has not come, else that has left: ranks may leave because one is absent.
    fn missing(&self) -> Option<u32> {
        let lowest = |absent: fn(&Seat) -> bool| (1..).zip(&self.seats).find(|(_, seat)| absent(seat));
        lowest(|seat| !seat.came).or_else(|| lowest(|seat| seat.link.is_none())).map(|(rank, _)| rank)
    }

    /// Ignores failures.
    fn accept(&mut self, listener: &TcpListener) -> bool {
        let mut any = false;
        for _ in 0..CALLERS / 2 {
            let Ok((stream, _)) = listener.accept() else { break };
            any = true;
            if let Ok(caller) = Link::new(stream) {
                self.callers.push_back(caller);
            }
            if self.callers.len() > CALLERS {
                self.callers.pop_front();
            }
        }
        any
    }

    fn hear(&mut self) -> bool {
        let before = self.callers.len();
        for _ in 0..before {
            let Some(mut caller) = self.callers.pop_front() else { break };
            match caller.fill(HELLO_LEN) {
                Ok(true) => self.seat(caller),
                Ok(false) => self.callers.push_back(caller),
                Err(Gone) => {}
            }
        }
        self.callers.len() != before
    }

    fn seat(&mut self, mut caller: Link) {
        let me = self.me;
        let refusal = match Hello::read(&caller.inbox) {
            None => return,
            Some(Err(what)) => Refusal::Mismatch(what),
            Some(Ok(hello)) if hello.job != me.job => Refusal::Mismatch(Mismatch::Job),
            Some(Ok(hello)) if hello.size != me.size => Refusal::Mismatch(Mismatch::Size),
            Some(Ok(hello)) if hello.limit != me.limit => Refusal::Mismatch(Mismatch::Limit),
            Some(Ok(hello)) => {
                let seat = hello.rank.checked_sub(1).and_then(|seat| self.seats.get_mut(place(seat)));
                let Some(seat) = seat else { return };
                // The rank may have left and come again.
                if seat.link.as_mut().is_none_or(has_left) {
                    seat.came = true;
                    caller.inbox.clear();
                    let link = seat.link.insert(caller);
                    _ = link.report(Frame::Waiting(self.awaited));
                    return;
                }
                Refusal::Taken
            }
        };
        _ = caller.report(Frame::Refused(refusal));
    }

    fn look_after(&mut self) {
        for seat in &mut self.seats {
            if seat.link.as_mut().is_some_and(|spoke| has_left(spoke) || spoke.flush().is_err()) {
                seat.link = None;
            }
        }
    }

    fn report(&mut self, frame: Frame) {
        for seat in &mut self.seats {
            if seat.link.as_mut().is_some_and(|spoke| spoke.report(frame).is_err()) {
                seat.link = None;
            }
        }
    }
}

fn has_left(spoke: &mut Link) -> bool {
    spoke.fill(1) != Ok(false)
}
