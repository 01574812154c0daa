//! KV cache of a language model: pages of requests move from a prefill process to a decoder.
//!
//! A notification follows the pages of each request, and the decoder verifies them. With `--kill`
//! the decoder is killed in the middle, and another one takes over. `--provider shm` runs the
//! decoder in another process, and `--decoder COMMAND` on another host.

#[path = "common/child.rs"]
mod child;
mod common;

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use loom_fabric::loom_core::allocator_api2::alloc::Global;
use loom_fabric::{Access, Caps, Domain, Error, Hints, Info, Program, Transport};
use loom_transfer::{
    Ending, Engine, EngineAttr, Event, MemoryKey, NotificationKey, Pages, PeerKey, RemoteMemory, Request,
};

use common::Failure;

const REQUESTS: u32 = 32;
const LAYERS: u32 = 16;
/// Pages of a request in each layer, and their length in bytes.
const PAGES: u32 = 8;
const PAGE: usize = 4 << 10;
/// Factors by which both sides scatter pages.
const PREFILL: u32 = 101;
const DECODER: u32 = 37;

/// Numbers of a request's pages, layer by layer.
fn pages(request: u32, factor: u32) -> Vec<u32> {
    let page = |index| (request * PAGES + index % PAGES) * factor % (REQUESTS * PAGES);
    (0..LAYERS * PAGES).map(|index| index / PAGES * REQUESTS * PAGES + page(index)).collect()
}

fn content(request: u32, index: usize) -> [u8; PAGE] {
    std::array::from_fn(|at| (request as usize * 131 + index * 17 + at + at / 256).to_le_bytes()[0])
}

struct Side<T: Transport + 'static> {
    engine: Engine<'static, T, Vec<u8>, Pages<Vec<u32>>, Global>,
    cache: MemoryKey,
    begin: Instant,
    verified: [bool; REQUESTS as usize],
    /// Messages to send: numbers of verified requests, and [`REQUESTS`] after the last.
    outbox: VecDeque<(PeerKey, u32)>,
}

impl<T: Transport> Side<T> {
    /// Returns the side, and records of its addresses and its cache.
    fn open(info: &Info<T>) -> Result<(Self, Vec<u8>), Failure> {
        let attr = EngineAttr { message: 2048, silence: 2_000_000_000, ..EngineAttr::default() };
        let mut engine = Engine::open_in(&[Domain::open(info)?], attr, Global)?;
        let cache = vec![0; (LAYERS * REQUESTS * PAGES) as usize * PAGE];
        let (cache, mut address) = (engine.register(cache, Access::REMOTE_WRITE)?, [0; 2048]);
        let len = engine.address(&mut address)?;
        let records = [&address[..len], &engine.remote(cache)?.to_bytes()].concat();
        let (verified, outbox) = ([false; REQUESTS as usize], VecDeque::new());
        Ok((Side { engine, cache, begin: Instant::now(), verified, outbox }, records))
    }

    fn poll(&mut self) -> Result<Option<Event<Pages<Vec<u32>>>>, Failure> {
        let Side { engine, outbox, begin, .. } = self;
        // Later ones have no room yet, and the failure of a peer is an event.
        outbox.pop_front_if(|(peer, number)| engine.notify(*peer, &number.to_le_bytes()).is_ok());
        std::thread::yield_now();
        Ok(engine.poll(u64::try_from(begin.elapsed().as_nanos())?)?)
    }

    /// Sender and number of a notification. Returns `None` after a failed transfer.
    fn read(&mut self, key: NotificationKey) -> Option<(PeerKey, u32)> {
        let (notification, mut number) = (self.engine.notification(key)?, [0; 4]);
        notification.copy_to(&mut number)?;
        (notification.ending() == Ending::Done).then_some((notification.peer(), u32::from_le_bytes(number)))
    }

    /// Returns `true` after the last request.
    fn decode(&mut self) -> Result<bool, Failure> {
        let received = match self.poll()? {
            Some(Event::Notified(key)) => self.read(key),
            Some(Event::Peer { result: Err(error), .. }) => return Err(error.into()),
            _ => None,
        };
        let Some((peer, request)) = received.filter(|it| it.1 < REQUESTS) else { return Ok(received.is_some()) };
        let (cache, mut bytes) = (self.engine.window(self.cache).ok_or("no cache")?, [0; PAGE]);
        for (index, page) in pages(request, DECODER).into_iter().enumerate() {
            cache.copy_to(page as usize * PAGE, &mut bytes)?;
            if bytes != content(request, index) {
                return Err(format!("request {request} has other bytes in page {page}").into());
            }
        }
        self.outbox.push_back((peer, request));
        Ok(false)
    }

    /// Returns the decoder's failure before all requests are verified.
    fn prefill(&mut self, records: &[u8], mut step: child::Step, kill: bool) -> Result<Option<Error>, Failure> {
        let (address, cache) = records.split_last_chunk::<{ RemoteMemory::WIRE_LEN }>().ok_or("no records")?;
        let (peer, cache) = (self.engine.insert_peer(address)?, RemoteMemory::from_bytes(cache)?);
        let mut transfers = Vec::new();
        for request in (0..REQUESTS).filter(|request| !self.verified[*request as usize]) {
            let plan = Pages::new(pages(request, PREFILL), pages(request, DECODER), PAGE as u64);
            let write = Request::write(peer, self.cache, &cache, plan.ok_or("other numbers of pages")?);
            transfers.push(self.engine.submit_and_notify(write, &request.to_le_bytes()).map_err(|it| it.error)?);
        }
        while !step()? {
            let failed = match self.poll()? {
                Some(Event::Ended(outcome)) if transfers.contains(&outcome.key) => outcome.result().err(),
                Some(Event::Peer { peer: of, result }) if of == peer => result.err(),
                Some(Event::Notified(key)) => {
                    let Some((_, request)) = self.read(key) else { continue };
                    *self.verified.get_mut(request as usize).ok_or("no such request")? = true;
                    match self.verified.iter().filter(|it| !**it).count() {
                        0 => self.outbox.push_back((peer, REQUESTS)),
                        20 if kill => step = Box::new(|| Ok(false)),
                        _ => {}
                    }
                    continue;
                }
                _ => continue,
            };
            if failed.is_some() && self.verified.contains(&false) {
                self.engine.remove_peer(peer);
                return Ok(failed);
            }
        }
        Ok(None)
    }
}

struct Role {
    decodes: bool,
    kill: bool,
    /// Command of the decoder. Without one, it runs in this thread.
    command: Option<String>,
}

impl Program for Role {
    type Output = Result<String, Failure>;

    fn run<T: Transport + 'static>(self, info: &Info<T>) -> Self::Output {
        let (mut side, records) = Side::open(info)?;
        if self.decodes {
            child::print(&records)?;
            while !side.decode()? {}
            return Ok(String::new());
        }
        let cache = side.engine.window(side.cache).ok_or("no cache")?;
        for request in 0..REQUESTS {
            for (index, page) in pages(request, PREFILL).into_iter().enumerate() {
                cache.copy_from(page as usize * PAGE, &content(request, index))?;
            }
        }
        for decoders in 1..=9 {
            let (step, records) = match &self.command {
                Some(command) => child::start(command)?,
                None => {
                    let (mut decoder, records) = Side::open(info)?;
                    (Box::new(move || decoder.decode()) as child::Step, records)
                }
            };
            match side.prefill(&records, step, self.kill && decoders == 1)? {
                Some(error) => eprintln!("decoder {decoders} has failed: {error:#}"),
                None => return Ok(format!("{REQUESTS} requests verified by {decoders} decoders\n")),
            }
        }
        Err("too many decoders have failed".into())
    }
}

fn main() -> ExitCode {
    common::exit("kv_cache", run())
}

fn run() -> Result<String, Failure> {
    use lexopt::prelude::*;

    child::exit_after(Duration::from_secs(60));
    let (mut provider, mut node) = ("soft".to_owned(), "127.0.0.1".to_owned());
    let (mut parser, mut role) = (lexopt::Parser::from_env(), Role { decodes: false, kill: false, command: None });
    while let Some(argument) = parser.next()? {
        match argument {
            Long("provider") => provider = parser.value()?.string()?,
            Long("node") => node = parser.value()?.string()?,
            Long("decoder") => role.command = Some(parser.value()?.string()?),
            Long("kill") => role.kill = true,
            Value(word) if word == "decode" => role.decodes = true,
            _ => return Err("kv_cache [decode] [--provider NAME] [--node ADDRESS] [--decoder COMMAND] [--kill]".into()),
        }
    }
    let here = format!("'{}' decode --provider '{provider}' --node {node}", std::env::current_exe()?.display());
    role.command = role.command.or((provider != "soft").then_some(here));
    common::over(&Hints { caps: Caps::MSG | Caps::RMA, ..Hints::at(&provider, &node) }, role)
}

#[cfg(test)]
#[path = "../tests/examples/kv_cache.rs"]
mod tests;
