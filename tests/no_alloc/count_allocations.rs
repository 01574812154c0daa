//! A case opens its objects, warms up, and counts during the rounds.

use std::alloc::Layout;
use std::fmt;
use std::hint::black_box;
use std::ops::Range;

use loom_core::allocator_api2::alloc::Allocator;
use loom_core::av::Av;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::error::OpenError;
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::scope;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, Caps, Errno};

use crate::allocators::Seal;
use crate::allocators::{c_heap, gate};
use crate::cases::Case;
use crate::failure::Failure;
use crate::payload::Payload;
use crate::rig::{Buffer, Buffers, Region, Rig, addressed};
use crate::round::round;
use crate::verbs::Verbs;

const PAGE: usize = 4096;
const QUEUE: CqAttr = CqAttr { endpoints: 1, ..CqAttr::new(16) };

/// Allocation that is added to the operations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    Nothing,
    /// Allocates a `Box` in each round.
    Box,
    /// Calls the objects' allocator once.
    Late,
}

/// Counts of the rounds.
#[derive(Clone, Copy)]
pub struct Counts {
    pub rounds: u64,
    /// Number of calls of the Rust global allocator.
    pub rust: u64,
    /// Number of calls of the objects' allocator.
    pub objects: u64,
    /// Number of calls of C's allocation functions, if they are counted.
    pub c: Option<u64>,
}

impl Counts {
    pub fn are_clean(self) -> bool {
        self.rounds > 0 && self.rust == 0 && self.objects == 0
    }

    pub fn has_caught(self, plant: Plant) -> bool {
        !self.are_clean()
            && match plant {
                Plant::Nothing => false,
                // One call allocates, and one frees.
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

/// Case, and its number of rounds.
#[derive(Clone, Copy)]
pub struct Measure<'m> {
    /// Allocator of loom's objects.
    pub seal: &'m Seal,
    pub case: &'m Case,
    pub rounds: u64,
    pub plant: Plant,
}

/// Memory for the buffers of a case.
pub struct Memory {
    size: usize,
    rooms: [Vec<u8>; 3],
    half: Vec<u8>,
}

impl Memory {
    pub fn of(case: &Case) -> Self {
        let size = case.size.max(1);
        Memory { size: case.size, rooms: [(); 3].map(|()| vec![0; size + PAGE]), half: vec![0; case.size / 2] }
    }

    /// Returns the memory to expose, and the buffers.
    pub fn parts(&mut self) -> (&mut [u8], Buffers<'_>) {
        let Memory { size, rooms: [out, into, exposed], half } = self;
        let buffers = Buffers {
            out: Some(from_page(out, *size)),
            into: Some(from_page(into, *size)),
            half: Some(half),
            scratch: vec![0; *size],
        };
        (from_page(exposed, (*size).max(1)), buffers)
    }
}

/// Opens a counter, if the transport has counters.
pub fn counter<'d, T: Transport + 'static>(domain: &Domain<'d, T>) -> Result<Option<Counter<'d, T>>, Failure> {
    match Counter::open(domain, CounterAttr::default()) {
        Err(OpenError::Errno(Errno::ENOSYS)) => Ok(None),
        counter => Ok(Some(counter?)),
    }
}

/// Opens both queues, and a region if the case requires one.
pub fn on_queues<'d, 'b: 'd, T: Transport + 'static>(
    domain: &Domain<'d, T>,
    exposed: Buffer<'b>,
    Measure { seal, case, .. }: Measure<'d>,
    f: impl FnOnce(&Cq<'d, T, Buffer<'b>>, &Cq<'d, T, Buffer<'b>>, Option<&Region<'d, 'b, T>>) -> Result<Counts, Failure>,
) -> Result<Counts, Failure> {
    let region = if case.needs().contains(Caps::RMA) {
        Some(Mr::open(domain, exposed, Access::REMOTE_READ | Access::REMOTE_WRITE)?)
    } else {
        // Truncated messages may leave an endpoint open, so these cases expose no memory.
        None
    };
    let taken = seal.taken();
    let [cq_a, cq_b] = [Cq::open_in(domain, QUEUE, seal)?, Cq::open_in(domain, QUEUE, seal)?];
    if seal.taken() - taken < 2 {
        return Err(Failure::Wrong("queues have not used the allocator that they were given"));
    }
    f(&cq_a, &cq_b, region.as_ref())
}

/// Runs the rounds of a case over endpoints without connections.
pub fn run<T: Transport + 'static>(info: &Info<T>, measure: Measure<'_>) -> Result<Counts, Failure> {
    let mut memory = Memory::of(measure.case);
    let (exposed, mut buffers) = memory.parts();
    scope(|s| {
        let domain = s.open_in(info, measure.seal)?;
        let taken = measure.seal.taken();
        let av = Av::open_in(&domain, 4, measure.seal)?;
        if measure.seal.taken() == taken {
            return Err(Failure::Wrong("an address vector has not used the allocator that it was given"));
        }
        let counter = counter(&domain)?;
        let info = domain.info();
        on_queues(&domain, exposed, measure, |cq_a, cq_b, region| {
            let [a, b] = addressed(info, cq_a, cq_b, &av, counter.as_ref())?;
            steady(&Rig { info, a, b, region }, &mut buffers, measure)
        })
    })
}

/// Returns `size` bytes of `room` from a page boundary. malloc may place long buffers 16 bytes
/// apart within their pages, and the kernel's copy for shm then takes five times as long.
fn from_page(room: &mut [u8], size: usize) -> &mut [u8] {
    let begin = room.as_ptr().align_offset(PAGE);
    &mut room[begin..begin + size]
}

/// Warms up, and counts.
pub fn steady<'b, T: Transport + 'static, V: Verbs<'b>>(
    rig: &Rig<'_, '_, 'b, T, V>,
    buffers: &mut Buffers<'b>,
    Measure { seal, case, rounds, plant }: Measure<'_>,
) -> Result<Counts, Failure> {
    let kind = case.kind;
    let begin = (rounds / 50).max(1);
    let end = begin + rounds;
    for number in 0..begin {
        round(rig, kind, Payload { round: number, whole: number == 0 }, buffers)?;
    }
    let counts = counted(seal, plant, begin..end, |number| {
        let whole = number == begin || number + 1 == end;
        round(rig, kind, Payload { round: number, whole }, buffers)
    })?;
    if buffers.out.is_none() || buffers.into.is_none() || rig.a.cq.in_flight() + rig.b.cq.in_flight() != 0 {
        return Err(Failure::Wrong("something is still in flight"));
    }
    Ok(counts)
}

/// Runs rounds with the plant while the objects' allocator is sealed, and counts the calls of
/// allocators.
pub fn counted(
    seal: &Seal,
    plant: Plant,
    numbers: Range<u64>,
    mut round: impl FnMut(u64) -> Result<(), Failure>,
) -> Result<Counts, Failure> {
    let rounds = numbers.end - numbers.start;
    let c = c_heap::calls();
    let ((result, rust), objects) = seal.closed(|| {
        gate::watch(|| {
            for number in numbers {
                round(number)?;
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
    Ok(Counts { rounds, rust, objects, c })
}
