//! A case: opens everything, warms up, and counts while the rounds run.

use std::alloc::Layout;
use std::fmt;
use std::hint::black_box;

use loom_core::allocator_api2::alloc::Allocator;
use loom_core::objects::av::Av;
use loom_core::objects::counter::{Counter, CounterAttr};
use loom_core::objects::cq::{CqAttr, scope_in};
use loom_core::objects::domain::Domain;
use loom_core::objects::info::Info;
use loom_core::objects::mr;
use loom_core::transport::Transport;
use loom_core::vocabulary::Access;

use crate::c_heap;
use crate::cases::{Case, Kind};
use crate::failure::Failure;
use crate::gate;
use crate::payload::Payload;
use crate::rig::{Buffers, Rig};
use crate::round::round;
use crate::seal::Seal;

const PAGE: usize = 4096;
const QUEUE: CqAttr<16> = CqAttr::new().endpoints(1);

/// What is done besides the operations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    Nothing,
    /// A `Box` in each round.
    Box,
    /// A call of the objects' allocator, once.
    Late,
}

/// What was counted while the rounds ran.
#[derive(Clone, Copy)]
pub struct Counts {
    rounds: u64,
    /// Calls of the Rust global allocator.
    rust: u64,
    /// Calls of the allocator that the objects were opened with.
    objects: u64,
    /// Calls of C's allocation functions, where they are counted.
    c: Option<u64>,
}

impl Counts {
    pub fn are_clean(self) -> bool {
        self.rounds > 0 && self.rust == 0 && self.objects == 0
    }

    pub fn has_caught(self, plant: Plant) -> bool {
        !self.are_clean()
            && match plant {
                Plant::Nothing => false,
                // One to take and one to free.
                Plant::Box => (self.rust, self.objects) == (self.rounds * 2, 0),
                Plant::Late => (self.rust, self.objects) == (0, 1),
            }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { rounds, rust, objects, c } = self;
        write!(f, "{rounds:>6} rounds: {rust} by Rust, {objects} by objects")?;
        match c {
            Some(c) => write!(f, ", {c:>6} by C"),
            None => Ok(()),
        }
    }
}

/// Runs so many rounds of a case over a transport.
pub fn run<T: Transport>(
    info: &Info<T>,
    seal: &Seal,
    case: &Case,
    rounds: u64,
    plant: Plant,
) -> Result<Counts, Failure> {
    let taken = seal.taken();
    let domain = Domain::open(info)?;
    let av = Av::open_in(&domain, 4, seal)?;
    let counter = Counter::open(&domain, CounterAttr::default())?;
    let room = || vec![0; case.size.max(1) + PAGE];
    let (mut out, mut into, mut exposed) = (room(), room(), room());
    let exposed = from_page(&mut exposed, case.size.max(1));
    let mut half = vec![0; case.size / 2];
    let mut buffers = Buffers {
        out: Some(from_page(&mut out, case.size)),
        into: Some(from_page(&mut into, case.size)),
        half: Some(&mut half),
        scratch: vec![0; case.size],
    };
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    mr::scope(&domain, exposed, access, |region| {
        scope_in(&domain, QUEUE, seal, |cq_a| {
            scope_in(&domain, QUEUE, seal, |cq_b| {
                let rig = Rig::open(cq_a, cq_b, &av, region, &counter)?;
                if seal.taken() - taken < 3 {
                    return Err(Failure::Wrong("objects have not used the allocator that they were given"));
                }
                steady(&rig, &mut buffers, seal, case.kind, rounds, plant)
            })
        })
    })???
}

/// So many bytes of `room`, from where a page begins. As malloc places long buffers, one may lie 16 bytes further into
/// its page than the other, and the kernel's copy for shm then takes five times as long.
fn from_page(room: &mut [u8], size: usize) -> &mut [u8] {
    let begin = room.as_ptr().align_offset(PAGE);
    &mut room[begin..begin + size]
}

/// Warms up, then counts.
fn steady<'b, T: Transport>(
    rig: &Rig<'_, '_, 'b, T>,
    buffers: &mut Buffers<'b>,
    seal: &Seal,
    kind: Kind,
    rounds: u64,
    plant: Plant,
) -> Result<Counts, Failure> {
    let begin = (rounds / 50).max(1);
    let end = begin + rounds;
    for number in 0..begin {
        round(rig, kind, Payload { round: number, whole: number == 0 }, buffers)?;
    }
    let c = c_heap::calls();
    let ((result, rust), objects) = seal.closed(|| {
        gate::watch(|| {
            for number in begin..end {
                let whole = number == begin || number + 1 == end;
                round(rig, kind, Payload { round: number, whole }, buffers)?;
                if plant == Plant::Box {
                    black_box(Box::new(black_box(number)));
                }
            }
            if plant == Plant::Late && seal.allocate(Layout::new::<u64>()).is_ok() {
                return Err(Failure::Wrong("the allocator is not sealed"));
            }
            Ok(())
        })
    });
    let c = c.zip(c_heap::calls()).map(|(before, after)| after - before);
    result?;
    if buffers.out.is_none() || buffers.into.is_none() || rig.a.cq.in_flight() + rig.b.cq.in_flight() != 0 {
        return Err(Failure::Wrong("something is still in flight"));
    }
    Ok(Counts { rounds, rust, objects, c })
}
