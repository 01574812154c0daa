//! [`Spoke`]: a rank that connects to rank 0.

use core::time::Duration;
use std::net::TcpStream;

use loom_core::deadline::Deadline;

use super::super::{BootstrapError, Pause};
use super::frame::{Failure, Frame, HEADER_LEN, Hello};
use super::link::{Gone, Link};
use super::{TcpAttr, check_limit};

const CONNECT: Duration = Duration::from_millis(500);

pub(super) struct Spoke {
    /// `None` after a failed round, which closes the connection.
    link: Option<Link>,
    size: u32,
    limit: u32,
}

impl Spoke {
    pub(super) fn open(attr: &TcpAttr, rank: u32, until: &mut dyn Deadline) -> Result<Self, BootstrapError> {
        let (size, limit) = (attr.size, check_limit(attr)?);
        let hello = Hello { job: attr.job, rank, size, limit };
        let mut pause = Pause::default();
        loop {
            if let Some(mut link) = connect(attr) {
                link.queue(&hello.to_bytes());
                // A broken connection or a stranger is not final: rank 0 may start later.
                if introduce(&mut link, rank, until)? {
                    return Ok(Spoke { link: Some(link), size, limit });
                }
            }
            if until.passed() {
                return Err(BootstrapError::Missing { rank: 0 });
            }
            pause.wait();
        }
    }

    pub(super) fn round(
        &mut self,
        (number, code): (u32, u32),
        mine: &[u8],
        visit: &mut dyn FnMut(u32, &[u8]),
        until: &mut dyn Deadline,
    ) -> Result<(), BootstrapError> {
        let mut link = self.link.take().ok_or(BootstrapError::Ended)?;
        let len = u32::try_from(mine.len()).unwrap_or(u32::MAX);
        link.queue(&Frame::Gift { number, code, len }.to_bytes());
        link.queue(mine);
        self.receive(&mut link, number, until)?;
        let all = link.inbox.get(HEADER_LEN..).unwrap_or_default();
        let parts = || Parts { rest: all, limit: self.limit };
        let mut shape = parts();
        let complete = (0..self.size).all(|_| shape.next().is_some());
        if !complete || !shape.rest.is_empty() {
            return Err(BootstrapError::Malformed { rank: 0 });
        }
        (0..).zip(parts().take(super::super::place(self.size))).for_each(|(rank, bytes)| visit(rank, bytes));
        link.inbox.clear();
        self.link = Some(link);
        Ok(())
    }

    fn receive(&self, link: &mut Link, number: u32, until: &mut dyn Deadline) -> Result<(), BootstrapError> {
        let most = u64::from(self.size) * (4 + u64::from(self.limit));
        let mut awaited = 0;
        let mut pause = Pause::default();
        loop {
            // Rank 0 may have failed the round before: read its frame first.
            let written = link.flush();
            let mut complete = link.fill(HEADER_LEN);
            if complete == Ok(true) {
                match Frame::read(&link.inbox).ok_or(BootstrapError::Malformed { rank: 0 })? {
                    Frame::Waiting(rank) => {
                        awaited = rank;
                        link.inbox.clear();
                        complete = Ok(false);
                    }
                    Frame::Failed(failure) => return Err(failure.into()),
                    Frame::All { number: theirs, .. } if theirs != number => {
                        return Err(BootstrapError::OutOfStep { rank: 0 });
                    }
                    Frame::All { len, .. } if len <= most => {
                        let len = usize::try_from(len).map_err(|_| BootstrapError::Malformed { rank: 0 })?;
                        complete = link.fill(HEADER_LEN.saturating_add(len));
                    }
                    _ => return Err(BootstrapError::Malformed { rank: 0 }),
                }
            }
            let moved = link.has_moved();
            match (complete, written) {
                (Ok(true), _) => return Ok(()),
                (Err(Gone), _) | (_, Err(Gone)) if !moved => return Err(BootstrapError::Missing { rank: awaited }),
                _ if until.passed() => return Err(BootstrapError::Missing { rank: awaited }),
                _ if moved => pause.reset(),
                _ => pause.wait(),
            }
        }
    }
}

fn connect(attr: &TcpAttr) -> Option<Link> {
    let stream = TcpStream::connect_timeout(&attr.rendezvous, CONNECT).ok()?;
    // Without a listener on a local port, the system may pick it for this connection, which then
    // reaches itself and would take the port from rank 0.
    if stream.local_addr().ok()? == stream.peer_addr().ok()? {
        return None;
    }
    Link::new(stream).ok()
}

/// Returns `false` if the peer is not rank 0, or has left.
fn introduce(link: &mut Link, rank: u32, until: &mut dyn Deadline) -> Result<bool, BootstrapError> {
    let mut awaited = 0;
    let mut pause = Pause::default();
    loop {
        let (Ok(_), Ok(complete)) = (link.flush(), link.fill(HEADER_LEN)) else { return Ok(false) };
        if complete {
            match Frame::read(&link.inbox) {
                Some(Frame::Joined) => {
                    link.inbox.clear();
                    return Ok(true);
                }
                Some(Frame::Refused(refusal)) => return Err(refusal.error(rank)),
                Some(Frame::Failed(Failure::Missing(rank))) => return Err(BootstrapError::Missing { rank }),
                Some(Frame::Waiting(rank)) => awaited = rank,
                _ => return Ok(false),
            }
            link.inbox.clear();
        }
        if until.passed() {
            return Err(BootstrapError::Missing { rank: awaited });
        }
        if link.has_moved() { pause.reset() } else { pause.wait() }
    }
}

/// Ends early if a length exceeds the limit or the bytes.
struct Parts<'b> {
    rest: &'b [u8],
    limit: u32,
}

impl<'b> Iterator for Parts<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        let (len, rest) = self.rest.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len);
        let (part, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        (len <= self.limit).then_some(part)
    }
}
