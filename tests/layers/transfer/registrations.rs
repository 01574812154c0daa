//! Memory that is registered several times, and one that is written to several peers.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use loom_core::allocator_api2::alloc::Global;
use loom_core::buffer::{Buffer, Lent};
use loom_core::error::PostError;
use loom_core::{Access, Error, Info, Transport};
use loom_fabric::loom_core;
use loom_transfer::{Ending, Engine, Event, PeerKey, RemoteMemory, Request};
use support::posting::{LIMIT, pattern};

use super::sides::{AnyPlan, LEN, Side, Sides, address, block, network, network_of, rails, small};

/// Memory of this process that several regions expose.
struct Part(&'static [AtomicU8]);

// SAFETY: the bytes are never freed, and are used as atomics alone.
unsafe impl Buffer for Part {
    fn lend(&mut self) -> Lent {
        Lent::both(NonNull::from(self.0).cast(), self.0.len())
    }
}

struct World<T: Transport + 'static> {
    sides: Sides<T>,
    owner: Engine<'static, T, Part, AnyPlan, Global>,
    peer: PeerKey,
}

impl<T: Transport + 'static> World<T> {
    /// Writes bytes from the start of the initiator's memory to a place of the owner's.
    fn write(&mut self, remote: &RemoteMemory, to: u64, len: u64) -> Result<u64, Error> {
        let initiator = &mut self.sides.initiator;
        let request = Request::write(self.peer, self.sides.local, remote, block(0, to, len));
        initiator.submit(request).map_err(|rejected| rejected.error)?;
        let until = Instant::now() + LIMIT;
        loop {
            if let Some(Event::Ended(outcome)) = initiator.poll(0).unwrap() {
                break outcome.result();
            }
            assert!(self.owner.poll(0).unwrap().is_none());
            assert!(Instant::now() < until, "ended within {LIMIT:?}");
        }
    }

    /// Polls until the written bytes are in the owner's memory.
    fn wait_for(&mut self, bytes: &[AtomicU8]) {
        let (expected, until) = (pattern(LEN, 1), Instant::now() + LIMIT);
        while bytes.iter().zip(&expected).any(|(byte, expected)| byte.load(Ordering::Relaxed) != *expected) {
            assert!(self.owner.poll(0).unwrap().is_none() && self.sides.initiator.poll(0).unwrap().is_none());
            assert!(Instant::now() < until, "arrived within {LIMIT:?}");
        }
    }
}

/// Registers a half of some memory, and the whole with further access while the half is registered
/// and after it is not.
fn check<T: Transport + 'static>(info: &Info<T>) {
    let bytes: &'static [AtomicU8] = Box::leak((0..8192).map(|_| AtomicU8::new(0)).collect::<Box<_>>());
    let mut sides = Sides::open(&rails(info, 2), &rails(info, 2), small());
    let mut owner = Engine::<_, Part, AnyPlan, _>::open_in(&rails(info, 2), small(), Global).unwrap();
    let mut record = [0; 4096];
    let len = owner.address(&mut record).unwrap();
    let peer = sides.initiator.insert_peer(&record[..len]).unwrap();
    let half = owner.register(Part(&bytes[..4096]), Access::REMOTE_READ).unwrap();
    let half_remote = owner.remote(half).unwrap();
    let mut world = World { sides, owner, peer };
    let refused = Err(PostError::RemoteAccess(Access::REMOTE_WRITE).into());
    for round in 0..2 {
        assert_eq!(world.write(&half_remote, 0, 8), refused);
        let whole = world.owner.register(Part(bytes), Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
        let remote = world.owner.remote(whole).unwrap();
        assert_eq!((half_remote.len(), remote.len()), (4096, 8192));
        let to = 4090 + 100 * round;
        assert_eq!(world.write(&remote, to, 100), Ok(100));
        assert_eq!(world.write(&remote, 8100, 93), Err(PostError::OutOfBounds.into()));
        world.wait_for(&bytes[to as usize..][..100]);
        if round == 0 {
            world.owner.deregister(half).unwrap();
            assert_eq!(world.write(&remote, 0, 16), Ok(16));
            world.wait_for(&bytes[..16]);
        }
        world.owner.deregister(whole).unwrap();
    }
}

#[test]
fn memory_that_is_registered_again_has_its_new_length_and_access() {
    check(&network().info());
}

#[cfg(feature = "libfabric")]
#[test]
fn memory_that_is_registered_again_has_its_new_length_and_access_over_providers_of_libfabric() {
    use loom_core::Caps;
    use loom_core::vocabulary::EndpointType;

    for provider in ["shm", "tcp;ofi_rxm"] {
        check(&crate::protocols::libfabric::info(provider, EndpointType::RDM, Caps::MSG | Caps::RMA));
    }
}

#[test]
fn a_scatter_reaches_its_peers_and_fails_for_the_removed_one_alone() {
    const PEERS: usize = 6;
    const SHARE: u64 = 10_000;
    let info = network_of(4 * PEERS as u16).info();
    let attr = loom_transfer::EngineAttr { peers: PEERS, piece: 999, ..small() };
    let mut source = Side::open_in(&rails(&info, 2), attr, Global).unwrap();
    let bytes = pattern(LEN, 5);
    let local = source.register(bytes.clone(), Access::empty()).unwrap();
    let mut targets: Vec<_> = (0..PEERS)
        .map(|_| {
            let mut side = Side::open_in(&rails(&info, 2), attr, Global).unwrap();
            let memory = side.register(vec![0; LEN], Access::REMOTE_WRITE).unwrap();
            (source.insert_peer(&address(&side)).unwrap(), side, memory)
        })
        .collect();
    // Nothing is submitted before all requests are valid.
    let requests: Vec<_> = (0..)
        .zip(&targets)
        .map(|(number, (peer, side, memory))| {
            let plan = block(number * SHARE, number * 7, SHARE);
            source.prepare(Request::write(*peer, local, &side.remote(*memory).unwrap(), plan).data(number)).unwrap()
        })
        .collect();
    let keys: Vec<_> = requests.into_iter().map(|request| source.submit(request).unwrap()).collect();
    assert!(source.remove_peer(targets[2].0));
    let (mut ended, until) = (0, Instant::now() + LIMIT);
    while ended < PEERS {
        if let Some(Event::Ended(outcome)) = source.poll(0).unwrap() {
            let number = keys.iter().position(|key| *key == outcome.key).expect("a transfer of the scatter");
            let expected = if number == 2 { Ending::Failed(PostError::UnknownPeer.into()) } else { Ending::Done };
            assert_eq!(outcome.ending, expected);
            ended += 1;
        }
        for (_, side, _) in &mut targets {
            assert!(side.poll(0).unwrap().is_none());
        }
        assert!(Instant::now() < until, "ended within {LIMIT:?}");
    }
    for (number, (_, side, memory)) in targets.iter().enumerate().filter(|(number, _)| *number != 2) {
        let (from, to) = (number * SHARE as usize, number * 7);
        let arrived = Sides::bytes(side, *memory);
        assert!(arrived[to..to + SHARE as usize] == bytes[from..from + SHARE as usize], "peer {number}");
        assert_eq!(side.arrived(number as u64), SHARE.div_ceil(999));
    }
}
