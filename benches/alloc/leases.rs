//! Leases of registered slabs: taken and returned, and compared with registration of the memory of
//! each message.

use std::hint::black_box;

use loom_alloc::Sharing;
use loom_alloc::registered::{Lease, RegisteredSlab, SharedSlab, Slab, SlabAttr};
use loom_core::allocator_api2::alloc::Global;
use loom_core::av::Av;
use loom_core::buffer::Buffer;
use loom_core::completion::Done;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Forever;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::engine::op_table::OpKey;
use loom_core::error::Rejected;
use loom_core::info::Info;
use loom_core::registered::Registered;
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr, RequiredModes};
use loom_core::transport::Transport;

use crate::measure::{median, metric, per_operation, ratio};

/// Rounds of the median.
const ROUNDS: usize = 31;

/// Leases in a round.
const COUNT: u32 = 204_800;

/// Buffers in a slab.
const BUFFERS: usize = 1024;

/// Bytes of a message.
const SIZE: usize = 4096;

/// Takes and returns one lease at a time.
fn out_and_back<T: Transport, M: Buffer, L: Sharing>(slab: &RegisteredSlab<'_, T, M, Global, L>, count: u32) {
    for _ in 0..count {
        drop(black_box(slab.lease()));
    }
}

/// Takes all leases, then returns all. Each lease is another buffer than the one before.
fn all_out_and_back<T: Transport, M: Buffer, L: Sharing>(slab: &RegisteredSlab<'_, T, M, Global, L>, count: u32) {
    let mut out = no_leases();
    for _ in 0..count / 1024 {
        for place in &mut out {
            *place = slab.lease();
        }
        for place in &mut black_box(&mut out)[..] {
            *place = None;
        }
    }
}

fn no_leases<'s, L: Sharing>() -> Box<[Option<Lease<'s, L>>]> {
    (0..BUFFERS).map(|_| None).collect()
}

fn alone() {
    let network = Network::new(NetworkAttr::default()).expect("a network");
    let domain = Domain::open(&network.info()).expect("a domain");
    let attr = SlabAttr::new(BUFFERS, SIZE);
    let owner = Slab::open_in(&domain, attr, Global).expect("a slab");
    let shared = SharedSlab::open_in(&domain, attr, Global).expect("a slab");
    let whole = owner.lease().expect("a lease");
    let mut whole = Some(whole);
    let mut split_and_rejoin = |count: u32| {
        for _ in 0..count {
            let Some(Ok((one, two))) = whole.take().map(|lease| lease.split(SIZE / 2)) else { unreachable!() };
            whole = black_box(one).rejoin(black_box(two)).ok();
        }
    };
    // The alternative of a program without a slab.
    let of_the_allocator = |count: u32| {
        for _ in 0..count {
            drop(black_box(Vec::<u8>::with_capacity(black_box(SIZE))));
        }
    };
    let mut figures = [const { vec![] }; 6];
    for round in 0..=ROUNDS {
        let taken = [
            per_operation(COUNT, |count| out_and_back(&owner, count)),
            per_operation(COUNT, |count| out_and_back(&shared, count)),
            per_operation(COUNT, |count| all_out_and_back(&owner, count)),
            per_operation(COUNT, |count| all_out_and_back(&shared, count)),
            per_operation(COUNT, &mut split_and_rejoin),
            per_operation(COUNT, of_the_allocator),
        ];
        // The first round has cold caches.
        if round > 0 {
            figures.iter_mut().zip(taken).for_each(|(figures, taken)| figures.push(taken));
        }
    }
    let names =
        ["lease.ns", "lease.shared_ns", "lease.all_ns", "lease.all_shared_ns", "lease.split_ns", "lease.vec_ns"];
    for (name, figures) in names.into_iter().zip(&figures) {
        metric(name, median(figures), "ns");
    }
    let [owned, shared, .., vec] = &figures;
    metric("lease.over_vec", ratio(owned, vec), "ratio");
    metric("lease.shared_over_vec", ratio(shared, vec), "ratio");
}

/// Sends a message from an endpoint to itself. Returns the buffers.
fn message<T: Transport, B: Buffer>(
    cq: &Cq<'_, T, B>,
    (into, out): (B, B),
    recv: impl Fn(B) -> Result<OpKey, Rejected<B>>,
    send: impl Fn(B) -> Result<OpKey, Rejected<B>>,
) -> [Done<B>; 2] {
    let post = |mut buf: B, post: &dyn Fn(B) -> Result<OpKey, Rejected<B>>| loop {
        match post(buf) {
            Ok(key) => break key,
            Err(rejected) => {
                assert!(rejected.error.is_transient(), "{}", rejected.error);
                cq.progress().expect("the queue works");
                buf = rejected.value;
            }
        }
    };
    let keys = [post(into, &recv), post(out, &send)];
    keys.map(|key| {
        let done = cq.wait(key, Forever).expect("the queue works");
        let done = done.expect("there is no deadline");
        done.result().expect("it is transferred");
        done
    })
}

/// Compares messages in leases with messages in memory that is registered for each of them.
///
/// # Errors
/// If an operation fails.
pub(crate) fn beside_registering<T: Transport + 'static>(name: &str, count: u32, info: &Info<T>) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let domain = Domain::open(info).map_err(|error| failed(&error))?;
    let slab = Slab::open_in(&domain, SlabAttr::new(2, SIZE), Global).map_err(|error| failed(&error))?;
    let av = Av::open(&domain, 4).map_err(|error| failed(&error))?;
    // With the slab's distance between buffers, which affects the cost of a copy.
    let mut memory = vec![7_u8; 2 * SIZE + SlabAttr::CACHE_LINE];
    let begin = memory.as_ptr().align_offset(SlabAttr::CACHE_LINE);
    let mut parts = memory[begin..].chunks_exact_mut(SIZE);
    let [into, out] = [(); 2].map(|()| parts.next().expect("there are two"));
    let mut buffers = Some((into, out));
    let (mut leased, mut registered) = (vec![], vec![]);
    let attr = CqAttr { endpoints: 1, ..CqAttr::new(16) };
    // One queue for each kind of buffer.
    scope(|s| {
        let domain = s.domain(&domain);
        let of_leases = Cq::open(&domain, attr).map_err(|error| failed(&error))?;
        let of_registered = Cq::open(&domain, attr).map_err(|error| failed(&error))?;
        let registrar = of_registered.endpoint(&av).map_err(|error| failed(&error))?;
        let lessee = of_leases.endpoint(&av).map_err(|error| failed(&error))?;
        let [to_lessee, to_registrar] = [lessee.address(), registrar.address()]
            .map(|address| av.insert(&address.expect("an address")).expect("there is room"));
        let leasing = |count| {
            let recv = |into| lessee.recv(Source::Any, into);
            let send = |out| lessee.send(to_lessee, out);
            for _ in 0..count {
                let (Some(into), Some(mut out)) = (slab.lease(), slab.lease()) else { unreachable!() };
                out.prepare(SIZE).expect("all is room").first_mut().into_iter().for_each(|byte| *byte = 1);
                out.commit(SIZE).expect("all is room");
                drop(message(&of_leases, (into, out), recv, send));
            }
        };
        let register = |bytes| Registered::new(&domain, bytes).expect("it is registered");
        let recv = |into| registrar.recv(Source::Any, into);
        let send = |out| registrar.send(to_registrar, out);
        let mut registering = |count| {
            for _ in 0..count {
                let Some((into, out)) = buffers.take() else { unreachable!() };
                out[0] = 1;
                let done = message(&of_registered, (register(into), register(out)), recv, send);
                buffers = Some(done.map(|done| done.into_buf().into_inner()).into());
            }
        };
        for round in 0..=ROUNDS {
            let taken = [per_operation(count, leasing), per_operation(count, &mut registering)];
            // The first round opens connections.
            if round > 0 {
                leased.push(taken[0]);
                registered.push(taken[1]);
            }
        }
        Ok::<_, String>(())
    })?;
    let [lease, register] = [&leased, &registered].map(|figures| median(figures));
    println!("{name}: {SIZE} bytes to oneself: leased {lease:.0} ns, registered for each message {register:.0} ns");
    metric(&format!("lease.over_register.{name}"), ratio(&leased, &registered), "ratio");
    Ok(())
}

#[cfg(feature = "libfabric")]
fn over_libfabric() -> Result<(), String> {
    use loom_core::info::Hints;
    use loom_fabric::ofi::{Local, Ofi};
    use support::library_version;

    println!("libfabric {}", library_version());
    for (name, provider, node, count) in
        [("shm", "shm", None, 10_000), ("tcp_rxm", "tcp;ofi_rxm", Some("127.0.0.1"), 500)]
    {
        let hints = Hints { provider: Some(provider), node, listen: node.is_some(), ..Hints::default() };
        let mut infos = Ofi::<Local>::query(&hints).map_err(|error| format!("{provider}: {error}"))?;
        let info = infos.next().ok_or_else(|| format!("libfabric offers no {provider}"))?;
        beside_registering(name, count, &info)?;
    }
    Ok(())
}

pub(crate) fn run() {
    alone();
    let network = Network::new(NetworkAttr::default()).expect("a network");
    let local = network.info_requiring(RequiredModes::LOCAL_REGISTRATION);
    beside_registering("soft", 10_000, &local).expect("it works over the software transport");
    #[cfg(feature = "libfabric")]
    over_libfabric().unwrap_or_else(|error| println!("libfabric: skipped, {error}"));
    #[cfg(not(feature = "libfabric"))]
    println!("libfabric's providers: skipped, the feature `libfabric` is off");
}
