//! Remote updates over each protocol with messages, compared with a plain computation. Refused,
//! lost and abandoned requests.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use loom_core::allocator_api2::alloc::Global;
use loom_core::atomic::{CompareOp, Complex, Element, FetchOp};
use loom_core::error::PostError;
use loom_core::exposed::Window;
use loom_core::soft::{Every, Network, NetworkAttr, Plan, Soft};
use loom_core::{Av, Cq, CqError, Deadline, Domain, Endpoint, Errno, OpKey, Source, Spins};
use loom_fabric::loom_core;
use loom_static::protocol::{MsgRecv, MsgSend};
use loom_updates::{MESSAGE_LEN, UpdateError, UpdateKey, UpdateServer, Updates};

use crate::protocols::generic::Bytes;
use support::posting::LIMIT;

fn buffers() -> impl Iterator<Item = Bytes> {
    std::iter::repeat_with(|| vec![0; MESSAGE_LEN])
}

fn words<const N: usize>(value: u64) -> [AtomicU64; N] {
    [(); N].map(|()| AtomicU64::new(value))
}

struct Sides<'w, P: MsgSend<Buf = Bytes> + MsgRecv> {
    server: UpdateServer<P, Global>,
    updates: Updates<P, Global>,
    to_server: P::To,
    memory: &'w [AtomicU64],
}

impl<P: MsgSend<Buf = Bytes> + MsgRecv> Sides<'_, P>
where
    P::PostError: PartialEq,
{
    fn wait<E: Element>(&mut self, key: UpdateKey<E>) -> Result<E, UpdateError<P::PostError>> {
        let until = Instant::now() + LIMIT;
        loop {
            self.server.progress(self.memory).unwrap();
            if let Some(before) = self.updates.wait(key, Spins(0))? {
                return Ok(before);
            }
            assert!(Instant::now() < until, "answered within {LIMIT:?}");
        }
    }

    fn ask<V>(
        &mut self,
        ask: impl Fn(&mut Updates<P, Global>, P::To) -> Result<V, UpdateError<P::PostError>>,
    ) -> Result<V, UpdateError<P::PostError>> {
        let until = Instant::now() + LIMIT;
        loop {
            match ask(&mut self.updates, self.to_server) {
                Err(UpdateError::Full) => {}
                Err(UpdateError::Post(error)) if loom_static::protocol::PostFailure::is_transient(&error) => {}
                other => return other,
            }
            assert!(Instant::now() < until, "taken within {LIMIT:?}");
            self.server.progress(self.memory).unwrap();
            self.updates.progress().unwrap();
        }
    }
}

/// Runs updates over any protocol, with endpoints that have no other use.
pub(crate) fn check<P>((client, to_server): (P, P::To), (server, to_client): (P, P::To))
where
    P: MsgSend<Buf = Bytes> + MsgRecv,
    P::PostError: PartialEq,
{
    let memory = &words::<4>(0);
    let server = UpdateServer::open_in(server, [to_client], buffers(), 4, Global).unwrap();
    let updates = Updates::open_in(client, 0, buffers(), 4, Global).unwrap();
    let mut sides = Sides { server, updates, to_server, memory };
    // More than the maximum in flight.
    let add = |updates: &mut Updates<P, Global>, to| updates.fetch(to, 8, FetchOp::<u64>::SUM, 3);
    let mut expected = 0;
    for _ in 0..20 {
        let keys: Vec<_> = (0..4).map(|_| sides.ask(add).unwrap()).collect();
        assert_eq!(sides.updates.fetch(to_server, 8, FetchOp::<u64>::SUM, 3), Err(UpdateError::Full));
        let mut seen: Vec<u64> = keys.into_iter().map(|key| sides.wait(key).unwrap()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..4).map(|at| expected + 3 * at).collect::<Vec<_>>());
        expected += 12;
    }
    assert_eq!(memory[1].load(Ordering::Relaxed), expected);

    let swap = |compare: u64, operand: u64| {
        move |updates: &mut Updates<P, Global>, to| updates.compare(to, 8, CompareOp::<u64>::CSWAP, compare, operand)
    };
    for (compare, before, after) in [(7, expected, expected), (expected, expected, 9)] {
        let key = sides.ask(swap(compare, 9)).unwrap();
        assert_eq!(sides.wait(key), Ok(before));
        assert_eq!(memory[1].load(Ordering::Relaxed), after);
    }
    let key = sides.ask(|updates, to| updates.read::<u64>(to, 8)).unwrap();
    assert_eq!(sides.wait(key), Ok(9));
    let pair = Complex { re: 1.5_f32, im: -2.0 };
    let key = sides.ask(|updates, to| updates.fetch(to, 16, FetchOp::WRITE, pair)).unwrap();
    assert_eq!(sides.wait(key), Ok(Complex { re: 0.0, im: 0.0 }));
    let key = sides.ask(|updates, to| updates.fetch(to, 16, FetchOp::SUM, pair)).unwrap();
    assert_eq!(sides.wait(key), Ok(pair));
    let key = sides.ask(|updates, to| updates.fetch(to, 3, FetchOp::<u8>::BOR, 0x40)).unwrap();
    assert_eq!(sides.wait(key), Ok(0));

    for (offset, errno) in [(9, Errno::EINVAL), (32, Errno::EFAULT), (25, Errno::EFAULT), (u64::MAX, Errno::EFAULT)] {
        let key = sides.ask(|updates, to| updates.fetch(to, offset, FetchOp::<u64>::SUM, 1)).unwrap();
        assert_eq!(sides.wait(key), Err(UpdateError::Refused(errno)), "{offset}");
        assert_eq!(sides.updates.wait(key, Spins(0)), Err(UpdateError::UnknownKey), "it was taken");
    }
    assert_eq!(sides.server.refused(), 0);
}

macro_rules! endpoints {
    ($info:expr) => {{
        let domain = Domain::open($info).unwrap();
        let (av, cq) = (Av::open(&domain, 4).unwrap(), Cq::<_, Bytes>::open(&domain, 64).unwrap());
        let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
        let (to_a, to_b) = (av.insert(&a.address().unwrap()).unwrap(), av.insert(&b.address().unwrap()).unwrap());
        (cq, (a, to_b), (b, to_a))
    }};
}

#[test]
fn updates_equal_a_plain_computation_over_the_software_transport() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let (_, client, server) = endpoints!(&network.info());
    check(client, server);
    let network = Network::new(NetworkAttr::default()).unwrap();
    let plan = Plan { refuse: Every::About(3), delay: 3, ..Plan::new(3) };
    let (_, client, server) = endpoints!(&network.info_with_faults(plan));
    check(client, server);
    assert!(network.injected().refused > 0 && network.injected().delayed > 0);
}

#[cfg(feature = "libfabric")]
#[test]
fn updates_equal_a_plain_computation_with_and_without_provider_atomics() {
    use loom_core::vocabulary::{Caps, EndpointType};

    use crate::protocols::libfabric::{connected, info};

    for provider in ["shm", "tcp;ofi_rxm", "udp;ofi_rxd", "sockets"] {
        let (_, client, server) = endpoints!(&info(provider, EndpointType::RDM, Caps::MSG));
        check(client, server);
    }
    let info = info("tcp", EndpointType::MSG, Caps::MSG | Caps::RMA);
    let domain = Domain::open(&info).unwrap();
    let cq = Cq::open(&domain, 64).unwrap();
    let (server, client) = connected((&domain, &cq), &info, None);
    check((client, loom_core::ThePeer), (server, loom_core::ThePeer));
}

#[test]
fn elements_of_every_type_are_replaced_and_read() {
    type P = Endpoint<'static, Soft<'static>, Bytes>;
    fn replaced<E: Element + PartialEq>(sides: &mut Sides<'_, P>, [first, second]: [E; 2]) {
        let mut write = |value: E| {
            let key = sides.ask(|updates, to| updates.fetch(to, 0, FetchOp::WRITE, value)).unwrap();
            sides.wait(key).unwrap()
        };
        write(first);
        let before = write(second);
        let key = sides.ask(|updates, to| updates.read::<E>(to, 0)).unwrap();
        let after = sides.wait(key).unwrap();
        assert!(before == first && after == second, "{}", std::any::type_name::<E>());
    }
    #[repr(align(16))]
    struct Memory([AtomicU64; 2]);

    let network = Network::new(NetworkAttr::default()).unwrap();
    let (_, (client, to_server), (server, to_client)) = endpoints!(&network.info());
    let memory = Memory(words(0));
    let server = UpdateServer::open_in(server, [to_client], buffers(), 2, Global).unwrap();
    let updates = Updates::open_in(client, 0, buffers(), 2, Global).unwrap();
    let sides = &mut Sides { server, updates, to_server, memory: &memory.0 };
    replaced(sides, [i8::MIN, 1]);
    replaced(sides, [u8::MAX, 2]);
    replaced(sides, [i16::MIN, 3]);
    replaced(sides, [u16::MAX, 4]);
    replaced(sides, [i32::MIN, 5]);
    replaced(sides, [u32::MAX, 6]);
    replaced(sides, [i64::MIN, 7]);
    replaced(sides, [u64::MAX, 8]);
    replaced(sides, [1.5_f32, -2.0]);
    replaced(sides, [1.5_f64, -2.0]);
    replaced(sides, [1.5_f32, -2.0].map(|re| Complex { re, im: 3.0 }));
    if cfg!(target_arch = "x86_64") {
        replaced(sides, [i128::MIN, 9]);
        replaced(sides, [u128::MAX, 10]);
        replaced(sides, [1.5_f64, -2.0].map(|re| Complex { re, im: 3.0 }));
    }
}

#[test]
fn updates_of_threads_and_of_the_owner_all_count() {
    const CLIENTS: u64 = 3;
    const EACH: u64 = 3000;
    /// Driver that yields to other threads.
    struct Patient(Instant);
    impl Deadline for Patient {
        fn passed(&mut self) -> bool {
            std::thread::yield_now();
            self.0.passed()
        }
    }
    let network = Network::new(NetworkAttr::default()).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let (av, cq) = (Av::open(&domain, 8).unwrap(), Cq::<_, Bytes>::open(&domain, 64).unwrap());
    let server = cq.endpoint(&av).unwrap();
    // ThreadSanitizer sees these operations, but not the locks and scopes of the standard library.
    let (address, clients, known) = (server.address().unwrap(), spin::Mutex::new(Vec::new()), AtomicU64::new(0));
    let (memory, finished) = (words::<1>(0), AtomicU64::new(0));
    let until = Instant::now() + LIMIT;
    std::thread::scope(|scope| {
        let client = |_| {
            scope.spawn(|| {
                let domain = Domain::open(&network.info()).unwrap();
                let (av, cq) = (Av::open(&domain, 8).unwrap(), Cq::<_, Bytes>::open(&domain, 64).unwrap());
                let endpoint = cq.endpoint(&av).unwrap();
                let number = {
                    let mut clients = clients.lock();
                    clients.push(endpoint.address().unwrap());
                    u32::try_from(clients.len() - 1).unwrap()
                };
                known.fetch_add(1, Ordering::Release);
                let to = av.insert(&address).unwrap();
                let mut updates = Updates::open_in(endpoint, number, buffers(), 2, Global).unwrap();
                let mut last = None;
                for _ in 0..EACH {
                    let key = loop {
                        match updates.fetch(to, 0, FetchOp::<u64>::SUM, 1) {
                            Ok(key) => break key,
                            Err(UpdateError::Full | UpdateError::Post(PostError::Again)) => updates.progress().unwrap(),
                            Err(error) => panic!("{error:#}"),
                        }
                    };
                    let before = updates.wait(key, Patient(until)).unwrap();
                    assert!(before > last, "what one client sees only grows");
                    last = before;
                }
                finished.fetch_add(1, Ordering::Relaxed);
            })
        };
        let threads: Vec<_> = (0..CLIENTS).map(client).collect();
        while known.load(Ordering::Acquire) < CLIENTS {
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
        let clients: Vec<_> = clients.lock().iter().map(|address| av.insert(address).unwrap()).collect();
        let mut server = UpdateServer::open_in(server, clients, buffers(), 8, Global).unwrap();
        let element = Window::from(&memory[..]).element::<u64>(0).unwrap();
        let mut done = 0;
        while finished.load(Ordering::Relaxed) < CLIENTS {
            element.fetch(FetchOp::SUM, 1000);
            done += server.progress(&memory[..]).unwrap() as u64;
            std::thread::yield_now();
            assert!(Instant::now() < until);
        }
        assert_eq!(done, CLIENTS * EACH);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert_eq!(memory[0].load(Ordering::Relaxed) % 1000, CLIENTS * EACH % 1000);
}

#[test]
fn messages_of_strangers_are_counted_and_change_no_memory() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let (cq, (stranger, to_server), (server, to_client)) = endpoints!(&network.info());
    let memory = words::<2>(5);
    let mut server = UpdateServer::open_in(server, [to_client], buffers(), 2, Global).unwrap();
    let mut messages = vec![vec![], vec![0; MESSAGE_LEN - 1], vec![0xff; MESSAGE_LEN], vec![7; MESSAGE_LEN + 1]];
    // A request of a nonexistent client.
    let mut other = Updates::open_in(stranger.clone(), 1, buffers(), 1, Global).unwrap();
    for message in &messages {
        let key: OpKey = cq.post(message.clone(), LIMIT_SPINS, |message| stranger.send(to_server, message)).unwrap();
        cq.finish(key, LIMIT_SPINS).unwrap().result().unwrap();
    }
    let key = other.fetch(to_server, 0, FetchOp::<u64>::SUM, 1).unwrap();
    messages.push(vec![]);
    for _ in 0..100 {
        assert_eq!(server.progress(&memory[..]), Ok(0));
    }
    assert_eq!(server.refused(), messages.len() as u64);
    assert_eq!(other.wait(key, Spins(10)), Ok(None));
    assert!(memory.iter().all(|word| word.load(Ordering::Relaxed) == 5));
}

const LIMIT_SPINS: Spins = Spins(10_000);

#[test]
fn a_request_that_is_given_up_leaves_its_place_and_its_late_answer_is_nobodys() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let (_, (client, to_server), (server, to_client)) = endpoints!(&network.info());
    let memory = words::<1>(0);
    let mut updates = Updates::open_in(client, 0, buffers(), 1, Global).unwrap();
    let first = updates.fetch(to_server, 0, FetchOp::<u64>::SUM, 1).unwrap();
    assert_eq!(updates.wait(first, Spins(100)), Ok(None), "nobody does it");
    assert_eq!(updates.fetch(to_server, 0, FetchOp::<u64>::SUM, 1), Err(UpdateError::Full));
    assert!(updates.give_up(first) && !updates.give_up(first));
    assert_eq!(updates.wait(first, Spins(0)), Err(UpdateError::UnknownKey));
    let second = updates.fetch(to_server, 0, FetchOp::<u64>::SUM, 10).unwrap();
    let mut server = UpdateServer::open_in(server, [to_client], buffers(), 2, Global).unwrap();
    let before = loop {
        server.progress(&memory[..]).unwrap();
        if let Some(before) = updates.wait(second, Spins(0)).unwrap() {
            break before;
        }
    };
    assert_eq!(
        (before, memory[0].load(Ordering::Relaxed)),
        (1, 11),
        "both were done, and the second answer is the second's"
    );
}

#[test]
fn client_gets_an_error_when_its_server_closes() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let (_, (client, to_server), (server, _)) = endpoints!(&network.info());
    let mut updates = Updates::open_in(client, 0, buffers(), 1, Global).unwrap();
    drop(server);
    let refused = updates.fetch(to_server, 0, FetchOp::<u64>::SUM, 1);
    let lost = match refused {
        Ok(key) => updates.wait(key, LIMIT_SPINS).map(|_| ()),
        Err(error) => Err(error),
    };
    assert!(matches!(lost, Err(UpdateError::Lost | UpdateError::Post(PostError::Errno(_)))), "{lost:?}");
}

#[test]
fn error_of_an_update_has_the_source_of_the_error_that_it_wraps() {
    let failed = Errno::EIO;
    for error in [UpdateError::Post(PostError::Errno(failed)), UpdateError::Queue(CqError::Queue(failed))] {
        assert_eq!(error.source().and_then(<dyn Error>::downcast_ref), Some(&failed));
    }
    assert!(UpdateError::<PostError>::Refused(failed).source().is_none());
}

/// Returns the bytes of a client's message, received by an endpoint of the test.
fn caught(cq: &Cq<'static, Soft<'static>, Bytes>, key: OpKey) -> Bytes {
    let done = cq.finish(key, LIMIT_SPINS).unwrap();
    assert_eq!(done.result().unwrap().len, MESSAGE_LEN);
    done.into_buf()
}

#[test]
fn partial_requests_and_requests_of_another_form_change_no_memory() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let (cq, (client, to_server), (server, to_client)) = endpoints!(&network.info());
    // Two requests as the client encodes them.
    let mut updates = Updates::open_in(client.clone(), 0, buffers(), 2, Global).unwrap();
    let mut requests = Vec::new();
    for swaps in [false, true] {
        let key = server.recv(Source::Any, vec![0; MESSAGE_LEN]).unwrap();
        match swaps {
            false => updates.fetch(to_server, 0, FetchOp::<u64>::SUM, 1).unwrap(),
            true => updates.compare(to_server, 0, CompareOp::<u64>::CSWAP, 5, 6).unwrap(),
        };
        requests.push(caught(&cq, key));
    }
    let memory = words::<2>(5);
    let mut server = UpdateServer::open_in(server, [to_client], buffers(), 1, Global).unwrap();
    let mut play = |message: &[u8]| {
        let answered = client.recv(Source::Any, vec![0; MESSAGE_LEN]).unwrap();
        let sent = cq.post(message.to_vec(), LIMIT_SPINS, |message| client.send(to_server, message)).unwrap();
        let (refused, mut done) = (server.refused(), 0);
        for _ in 0..10 {
            done += server.progress(&memory[..]).unwrap();
        }
        cq.finish(sent, LIMIT_SPINS).unwrap().result().unwrap();
        // The cancel fails if the answer has arrived.
        let _ = client.cancel(answered);
        let answer = cq.finish(answered, LIMIT_SPINS).unwrap();
        let errno = answer.result().is_ok().then(|| i32::from_ne_bytes(answer.buf()[4..8].try_into().unwrap()));
        (done, server.refused() - refused, errno)
    };
    for request in &requests {
        for len in [8, 63] {
            assert_eq!(play(&request[..len]), (0, 1, None), "{len} bytes");
        }
        let mut other = request.clone();
        other[4] ^= 1;
        assert_eq!(play(&other), (1, 0, Some(Errno::EOPNOTSUPP.as_raw())));
        // The server has no client with number 1.
        let mut other = request.clone();
        other[8] = 1;
        assert_eq!(play(&other), (0, 1, None));
    }
    assert!(memory.iter().all(|word| word.load(Ordering::Relaxed) == 5));
    assert_eq!(requests.iter().map(|request| play(request)).collect::<Vec<_>>(), [(1, 0, Some(0)); 2]);
    assert_eq!(memory[0].load(Ordering::Relaxed), 6, "the request itself is done: 5 + 1, which is not 5");
}

#[test]
fn answers_in_part_and_of_other_clients_and_requests_are_nobodys() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let (cq, (client, to_server), (server, to_client)) = endpoints!(&network.info());
    let request = server.recv(Source::Any, vec![0; MESSAGE_LEN]).unwrap();
    let mut updates = Updates::open_in(client, 7, buffers(), 2, Global).unwrap();
    let key = updates.fetch(to_server, 0, FetchOp::<u64>::SUM, 1).unwrap();
    // An answer differs from its request in the first word and the value.
    let mut answer = caught(&cq, request);
    answer[..4].copy_from_slice(&0x4c55_4101_u32.to_ne_bytes());
    answer[4..8].fill(0);
    answer[32..40].copy_from_slice(&9_u64.to_ne_bytes());
    let changed = |at: usize| {
        let mut other = answer.clone();
        other[at] ^= 1;
        other
    };
    let mut play = |message: &[u8]| {
        updates.progress().unwrap();
        let sent = cq.post(message.to_vec(), LIMIT_SPINS, |message| server.send(to_client, message)).unwrap();
        let before = updates.wait(key, Spins(20)).unwrap();
        cq.finish(sent, LIMIT_SPINS).unwrap().result().unwrap();
        before
    };
    for message in [&answer[..8], &answer[..MESSAGE_LEN - 1], &changed(0), &changed(8), &changed(16), &changed(20)] {
        assert_eq!(play(message), None);
    }
    assert_eq!(play(&answer), Some(9));
}

/// The message waits in the client's buffer until the server receives it.
#[test]
fn a_request_that_fails_after_it_was_given_up_leaves_its_place() {
    let network = Network::new(NetworkAttr { eager_size: 8, ..NetworkAttr::default() }).unwrap();
    let (_, (client, to_server), (server, _)) = endpoints!(&network.info());
    let mut updates = Updates::open_in(client, 0, buffers(), 1, Global).unwrap();
    let first = updates.fetch(to_server, 0, FetchOp::<u64>::SUM, 1).unwrap();
    assert!(updates.give_up(first));
    drop(server);
    updates.progress().unwrap();
    let second = match updates.fetch(to_server, 0, FetchOp::<u64>::SUM, 1) {
        Ok(key) => updates.wait(key, LIMIT_SPINS).map(|_| ()),
        Err(error) => Err(error),
    };
    assert!(matches!(second, Err(UpdateError::Lost | UpdateError::Post(PostError::Errno(_)))), "{second:?}");
    // A request that was not given up is lost with its server.
    let network = Network::new(NetworkAttr { eager_size: 8, ..NetworkAttr::default() }).unwrap();
    let (_, (client, to_server), (server, _)) = endpoints!(&network.info());
    let mut updates = Updates::open_in(client, 0, buffers(), 1, Global).unwrap();
    let key = updates.fetch(to_server, 0, FetchOp::<u64>::SUM, 1).unwrap();
    assert_eq!(updates.wait(key, Spins(10)), Ok(None), "it is under way");
    drop(server);
    assert_eq!(updates.wait(key, LIMIT_SPINS), Err(UpdateError::Lost));
}
