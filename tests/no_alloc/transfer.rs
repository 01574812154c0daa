//! Transfers: each round has a counted write of pages, one with a notification, a cancelled one,
//! and a read.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

use std::time::{Duration, Instant};

use loom_core::info::Info;
use loom_core::transport::Transport;
use loom_core::{Access, Error, scope};
use loom_transfer::{Block, Ending, Engine, EngineAttr, Event, Pages, Plan, Request, Wait};

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

const LIMIT: Duration = Duration::from_secs(60);
const PAGE: usize = 64;
const PAGES: usize = 16;

/// Opens everything, warms up, and counts.
pub fn run<T: Transport + 'static>(info: &Info<T>, seal: &Seal, rounds: u64, plant: Plant) -> Result<Counts, Failure> {
    let wrong = |error: Error| match error {
        Error::Open(error) => Failure::Open(error),
        Error::Post(error) => Failure::Post(error),
        Error::Operation(error) => Failure::Operation(error),
        Error::Queue(error) => Failure::Queue(error),
        Error::Address(error) => Failure::Insert(error),
        _ => Failure::Wrong("a transfer"),
    };
    let attr = EngineAttr {
        peers: 2,
        piece: 48,
        depth: 16,
        peer_depth: 16,
        transfers: 4,
        values: 4,
        waits: 4,
        message: 1024,
        messages: 4,
        ..EngineAttr::default()
    };
    scope(|s| {
        let domains = [s.open(info)?, s.open(info)?];
        let mut engine = Engine::open_in(&domains, attr, seal).map_err(wrong)?;
        let mut owner = Engine::<_, _, Pages<[u32; 8]>, _>::open_in(&domains, attr, seal).map_err(wrong)?;
        let source: Vec<u8> = (0..PAGES * PAGE).map(|at| (at % 251) as u8).collect();
        let source = engine.register(source, Access::empty()).map_err(wrong)?;
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let target = owner.register(vec![0; PAGES * PAGE], access).map_err(wrong)?;
        let room = engine.register(vec![0; PAGES * PAGE], Access::empty()).map_err(wrong)?;
        let mut record = [0; 2048];
        let len = owner.address(&mut record).map_err(wrong)?;
        let peer = engine.insert_peer(&record[..len]).map_err(wrong)?;
        let remote = owner.remote(target).map_err(wrong)?;
        let pages = Pages::new([3, 0, 9, 15, 7, 1, 12, 4], [0, 1, 2, 3, 4, 5, 6, 7], PAGE as u64)
            .ok_or(Failure::Wrong("pages"))?;
        let operations = pages.operations(engine.piece());
        let mut arrived = 0;
        let mut round = |number: u64| {
            let deadline = Instant::now() + LIMIT;
            arrived += operations;
            owner.wait(Wait { deadline: 1, ..Wait::new(1, arrived) }).map_err(wrong)?;
            let write = Request::write(peer, source, &remote, pages);
            engine.submit(write.data(1)).map_err(|rejected| wrong(rejected.error))?;
            let message = [number as u8; 1500];
            engine.submit_and_notify(write, &message).map_err(|rejected| wrong(rejected.error))?;
            let (mut ended, mut counted, mut notified) = (0, false, false);
            while ended < 2 || !counted || !notified {
                match engine.poll(0).map_err(wrong)? {
                    Some(Event::Ended(outcome)) => ended += u32::from(outcome.result() == Ok((8 * PAGE) as u64)),
                    _ if Instant::now() >= deadline => return Err(Failure::Late("a transfer")),
                    _ => {}
                }
                match owner.poll(0).map_err(wrong)? {
                    Some(Event::Arrived(_)) => counted = true,
                    Some(Event::Notified(key)) => {
                        let mut bytes = [0; 1500];
                        let notification = owner.notification(key).ok_or(Failure::Wrong("a notification"))?;
                        notified = notification.copy_to(&mut bytes).is_some() && bytes == message;
                    }
                    _ => {}
                }
            }
            let cancelled = engine.submit(write).map_err(|rejected| wrong(rejected.error))?;
            engine.cancel(cancelled);
            engine.submit(Request::read(peer, room, &remote, pages)).map_err(|rejected| wrong(rejected.error))?;
            for expected in [Ending::Cancelled, Ending::Done] {
                let outcome = loop {
                    let _ = owner.poll(0).map_err(wrong)?;
                    match engine.poll(0).map_err(wrong)? {
                        Some(Event::Ended(outcome)) => break outcome,
                        _ if Instant::now() >= deadline => return Err(Failure::Late("a transfer")),
                        _ => {}
                    }
                };
                if outcome.ending != expected {
                    return Err(Failure::Wrong("the end of a transfer"));
                }
            }
            for index in 0..pages.blocks() {
                let Block { local, len, .. } = pages.block(index);
                let (mut bytes, mut expected) = ([0; PAGE], [0; PAGE]);
                for (memory, bytes) in [(room, &mut bytes), (source, &mut expected)] {
                    let window = engine.window(memory).ok_or(Failure::Wrong("a window"))?;
                    window.copy_to(local as usize, &mut bytes[..len as usize]).map_err(|_| Failure::Wrong("a page"))?;
                }
                if bytes != expected {
                    return Err(Failure::Wrong("the bytes of a page"));
                }
            }
            Ok(())
        };
        let begin = (rounds / 50).max(1);
        (0..begin).try_for_each(&mut round)?;
        self::counted(seal, plant, begin..begin + rounds, round)
    })
}
