//! Reads and writes of peers' memory, compared with plain copies. They take effect before the post
//! returns.

use loom_core::completion::RemoteEvent;
use loom_core::domain::Domain;
use loom_core::endpoint::{ReadOptions, SendOptions};
use loom_core::engine::op_table::Direction;
use loom_core::error::PostError;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::soft::Soft;
use loom_core::vocabulary::{self, Errno, ImmediateData};

use super::late::Late;
use super::record::What;
use super::step::Access;
use super::world::World;
use super::{EAGER, ENDPOINTS, REGION, REGIONS};
use crate::memory::Memory;

struct Region {
    /// Number among all regions.
    number: usize,
    mr: Mr<'static, Soft<'static>, Box<[u8]>>,
    /// Expected content.
    copy: Vec<u8>,
}

pub struct Regions<'w> {
    domain: &'w Domain<'static, Soft<'static>>,
    open: [Option<Region>; REGIONS],
    /// All regions so far.
    told: Vec<RemoteRegion>,
    /// Completes writes and reads within their posts.
    at_once: bool,
}

/// News of a write: data, length, and the lives of writer and owner.
pub struct News {
    data: u64,
    len: usize,
    from: usize,
    to: usize,
    /// The write, if it did not complete within its post.
    access: Option<usize>,
    told: bool,
}

impl<'w> Regions<'w> {
    pub fn new(domain: &'w Domain<'static, Soft<'static>>, at_once: bool) -> Self {
        Regions { domain, open: [const { None }; REGIONS], told: Vec::new(), at_once }
    }

    pub fn open(&mut self, place: u8, late: &mut Late) {
        let place = &mut self.open[usize::from(place) % REGIONS];
        if place.is_none() {
            let copy: Vec<u8> = (0..REGION).map(|at| (at + self.told.len()) as u8).collect();
            let access = vocabulary::Access::REMOTE_READ | vocabulary::Access::REMOTE_WRITE;
            let mr = Mr::open(self.domain, copy.clone().into_boxed_slice(), access).expect("there is a place for each");
            assert!(self.told.iter().all(|told| told.key != mr.remote().key), "keys are not given out twice");
            let number = self.told.len();
            self.told.push(mr.remote());
            late.opened(&copy);
            *place = Some(Region { number, mr, copy });
        }
    }

    pub fn close(&mut self, place: u8, late: &mut Late) {
        if let Some(Region { number, mr, copy }) = self.open[usize::from(place) % REGIONS].take() {
            let memory = mr.close().expect("it closes at any time");
            if !self.at_once {
                return late.closed(number, &memory);
            }
            assert_eq!(*memory, copy);
        }
    }

    pub fn check(&self, late: &mut Late) {
        for Region { number, mr, copy } in self.open.iter().flatten() {
            let mut memory = [0; REGION];
            mr.window().copy_to(0, &mut memory).expect("it is as large");
            if self.at_once {
                assert_eq!(memory[..], copy[..]);
            } else {
                late.check(*number, &memory);
            }
        }
    }

    /// Expected content of a region, if it is open.
    fn copy_of(&mut self, told: RemoteRegion) -> Option<&mut Vec<u8>> {
        let open = self.open.iter_mut().flatten().find(|region| region.mr.remote().key == told.key);
        open.map(|region| &mut region.copy)
    }
}

impl World<'_> {
    pub fn rma(&mut self, from: u8, to: u8, (region, offset, len): (u8, u8, u8), what: Access) {
        let to = self.record.some_life(to);
        let (peer, known) = self.peer(to);
        let Some((from, endpoint)) = &self.places[usize::from(from) % ENDPOINTS] else { return };
        let from = *from;
        let number = self.regions.told.len() - 1 - usize::from(region) % self.regions.told.len().min(4);
        let told = self.regions.told[number];
        // Sometimes beyond the region.
        let (offset, len) = (usize::from(offset) % (REGION + 2), usize::from(len) % (REGION + 2));
        let bytes: Vec<u8> = (0..len).map(|at| (self.record.ops.len() * 37 + at) as u8).collect();
        let fits = told.part(offset as u64, len).is_some();
        assert_eq!(fits, offset + len <= REGION);
        if !fits && matches!(what, Access::ReadParts(_) | Access::WriteParts(_)) {
            // The parts do not exist.
            return;
        }
        // The second part comes first.
        let cut = |cut: u8| usize::from(cut) % (len + 1);
        let parts = |cut: usize| -> [RemoteRegion; 2] {
            let part = |offset: usize, len| told.part(offset as u64, len).expect("it lies within");
            [part(offset + cut, len - cut), part(offset, cut)]
        };
        let reads = matches!(what, Access::Read | Access::ReadParts(_));
        let open = self.record.lives[to].is_there();
        // The whole region, in the order of the transfer.
        let ranges = match what {
            Access::ReadParts(at) | Access::WriteParts(at) => {
                [offset + cut(at)..offset + len, offset..offset + cut(at)]
            }
            _ => [offset..offset + len, 0..0],
        };
        let data = match what {
            Access::WriteData(data) | Access::InjectData(data) => Some(data),
            _ => None,
        };

        let offset_there = offset as u64;
        let buffer = match what {
            Access::Inject | Access::InjectData(_) => None,
            Access::ReadParts(_) | Access::WriteParts(_) if reads => Some(Memory::in_two(&vec![0xee; len], len / 3)),
            Access::WriteParts(_) => Some(Memory::in_two(&bytes, len / 3)),
            _ if reads => Some(Memory::new(&vec![0xee; len])),
            _ => Some(Memory::new(&bytes)),
        };
        let id = buffer.as_ref().map(|buffer| buffer.id);
        let posted = match (what, buffer) {
            (Access::Inject, _) => endpoint.inject_write(peer, &told, offset_there, &bytes).map(|()| None),
            (Access::InjectData(data), _) => {
                endpoint.inject_write_data(peer, &told, offset_there, ImmediateData(data), &bytes).map(|()| None)
            }
            (what, Some(buf)) => match what {
                Access::Read => endpoint.read(peer, &told, offset_there, buf),
                Access::Write => endpoint.write(peer, &told, offset_there, buf),
                Access::WriteData(data) => endpoint.write_data(peer, &told, offset_there, ImmediateData(data), buf),
                Access::ReadParts(at) => endpoint.read_with(peer, &parts(cut(at)), ReadOptions::default(), buf),
                _ => {
                    let Access::WriteParts(at) = what else { unreachable!("all others are above") };
                    endpoint.write_with(peer, &parts(cut(at)), SendOptions::default(), buf)
                }
            }
            .map(Some)
            .map_err(|rejected| {
                assert_eq!(Some(rejected.value.id), id);
                rejected.error
            }),
            (what, None) => unreachable!("{what:?} has a buffer"),
        };
        let at_once = self.regions.at_once;
        let copy = self.regions.copy_of(told);
        let ended = match (open, &copy) {
            (false, _) => Err(Errno::EHOSTUNREACH),
            (true, None) => Err(Errno::ENOKEY),
            (true, Some(_)) => Ok(()),
        };
        let key = match posted {
            Ok(key) => key,
            Err(PostError::UnknownPeer) => return assert!(!known),
            Err(PostError::OutOfBounds) => return assert!(!fits),
            Err(PostError::TooLong { limit }) => return assert!(id.is_none() && limit == EAGER && len > EAGER),
            Err(PostError::Errno(errno @ (Errno::EHOSTUNREACH | Errno::ENOKEY))) => {
                return assert!(id.is_none() && ended == Err(errno));
            }
            Err(error) => return self.record.assert_refused(error, from, Direction::Transmit, 0),
        };
        assert!(known && fits);
        let what = if !at_once {
            let places = ranges.into_iter().flatten();
            let bytes = places.zip(&bytes).map(|(at, byte)| (at, *byte)).collect();
            let access = self.record.late.posted(number, reads, bytes, id.is_none());
            What::Late { access, to }
        } else if reads {
            What::Read(ended.map(|()| {
                let copy = copy.expect("it is open");
                ranges.into_iter().flat_map(|range| copy[range].to_vec()).collect()
            }))
        } else {
            if let (Ok(()), Some(copy)) = (ended, copy) {
                let mut rest = &bytes[..];
                for range in ranges {
                    let (written, more) = rest.split_at(range.len());
                    copy[range].copy_from_slice(written);
                    rest = more;
                }
            }
            What::Write(ended)
        };
        if let (Ok(()), Some(data)) = (ended, data) {
            self.record.untold.push((from, to));
            let access = if let What::Late { access, .. } = what { Some(access) } else { None };
            self.news.push(News { data, len, from, to, access, told: false });
        }
        match (key, id) {
            (Some(key), id) => self.posted(from, key, id, what),
            (None, _) => {
                assert_eq!(ended, Ok(()), "an injected write is over");
                self.record.count(from, 3);
            }
        }
        self.regions.check(&mut self.record.late);
    }

    /// Checks the news of a peer's write, which comes once, after earlier news between the two.
    pub fn written(&mut self, queue: usize, event: RemoteEvent) {
        let is_it = |news: &News| {
            let told = (!self.record.hides_sources(news.to)).then_some(self.record.lives[news.from].addr);
            !news.told
                && self.record.lives[news.to].queue == queue
                && (Some(news.data), news.len) == (event.data().map(|data| data.0), event.len)
                && event.source() == told
        };
        // Equal writes to a closed region may be lost.
        let of_open = |news: &News| is_it(news) && self.record.lives[news.to].open;
        let at = self.news.iter().position(of_open).or_else(|| self.news.iter().position(is_it));
        let at = at.expect("somebody has written");
        self.news[at].told = true;
        self.mark_reported(at);
    }

    /// Checks that a failed write causes no news.
    pub fn not_written(&mut self, access: usize) {
        let Some(at) = self.news.iter().position(|news| news.access == Some(access)) else { return };
        if !self.news[at].told {
            self.mark_reported(at);
        } else {
            // Equal news of another write was taken for it.
            let News { data, len, from, to, .. } = self.news[at];
            let queue = |life: usize| self.record.lives[life].queue;
            let is_alike = |news: &News| {
                let from_alike = news.from == from || self.record.hides_sources(to);
                !news.told && (news.data, news.len) == (data, len) && queue(news.to) == queue(to) && from_alike
            };
            let other = self.news.iter().position(is_alike).expect("somebody was told, and it was not done");
            self.news[other].told = true;
            self.mark_reported(other);
        }
        self.news.remove(at);
    }

    fn mark_reported(&mut self, at: usize) {
        let News { from, to, .. } = self.news[at];
        let at = self.record.untold.iter().position(|pair| *pair == (from, to));
        self.record.untold.remove(at.expect("it was not told yet"));
    }
}
