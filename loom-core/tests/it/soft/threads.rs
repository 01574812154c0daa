//! What one thread does to its endpoints while another is in the middle of their operations.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::Errno;

const ATTR: NetworkAttr =
    NetworkAttr { endpoints: 2, tx_depth: 8, rx_depth: 8, eager_size: 64, regions: 0, ..NetworkAttr::DEFAULT };

/// Says that the test is over when it is dropped, also by a panic: the other thread would go on.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A close waits for the copy that the receiver is making: the buffers that come back are written to and freed at once, and
/// the receiver must not see any of that.
#[test]
fn thread_gets_its_buffers_back_only_after_a_peer_has_copied_them() {
    const ROUNDS: usize = 60;
    /// Long enough that the receiver is copying most of the time.
    const LEN: usize = 1 << 23;
    const MESSAGES: usize = 3;
    /// No message consists of this byte.
    const POISON: u8 = 0xee;

    let network = &Network::new(ATTR).unwrap();
    /// Of one round.
    const LIMIT: Duration = Duration::from_secs(120);

    let stop = &AtomicBool::new(false);
    let (tell, hear) = channel();
    let (completed, cancelled, received) = std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let domain = Domain::open(&network.info()).unwrap();
            let av = Av::open(&domain, 2).unwrap();
            let cq = Cq::<_, Box<[u8]>>::open(&domain, CqAttr::new(8)).unwrap();
            let endpoint = cq.endpoint(&av).unwrap();
            for _ in 0..MESSAGES {
                endpoint.recv(Source::Any, vec![0; LEN].into()).unwrap();
            }
            tell.send(endpoint.address().unwrap()).unwrap();
            let (mut received, mut arrived) = (0, Vec::new());
            loop {
                // What was sent before the end is received after it.
                let over = stop.load(Ordering::Acquire);
                match cq.poll().unwrap() {
                    // Looked at later: the next message is to be copied at once.
                    Some(Completion::Op(done)) => arrived.push(done),
                    Some(other) => panic!("{other:?}"),
                    None => {
                        for done in arrived.drain(..) {
                            assert_eq!(done.result().unwrap().len, LEN);
                            let bytes = done.into_buf();
                            let alike = bytes[1..] == bytes[..LEN - 1] && bytes[0] != POISON;
                            assert!(alike, "copied from a buffer that had gone back");
                            received += 1;
                            endpoint.recv(Source::Any, bytes).unwrap();
                        }
                        if over {
                            break;
                        }
                    }
                }
            }
            received
        });
        let over = Stop(stop);
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let cq = Cq::<_, Box<[u8]>>::open(&domain, CqAttr::new(8)).unwrap();
        let to = av.insert(&hear.recv_timeout(LIMIT).unwrap()).unwrap();
        let (mut completed, mut cancelled) = (0, 0);
        for round in 0..ROUNDS {
            let endpoint = cq.endpoint(&av).unwrap();
            let byte = u8::try_from(round).unwrap();
            let sends: Vec<_> = (0..MESSAGES).map(|_| endpoint.send(to, vec![byte; LEN].into()).unwrap()).collect();
            // Now the receiver copies: it has ended one, and goes on with the next.
            let first = cq.wait(sends[0], Instant::now() + LIMIT).unwrap().expect("in time");
            assert!(first.result().is_ok());
            completed += 1;
            drop(endpoint);
            // All of them are there when the endpoint has closed.
            let mut back = 1;
            while let Some(completion) = cq.poll().unwrap() {
                let Completion::Op(done) = completion else { panic!("{completion:?}") };
                let (mut bytes, result) = done.into_parts();
                match result {
                    Ok(_) => completed += 1,
                    Err(error) => {
                        assert_eq!(error.errno, Errno::ECANCELED);
                        cancelled += 1;
                    }
                }
                // From its end: a copy begins at the other one.
                bytes.rchunks_mut(4096).for_each(|chunk| chunk.fill(POISON));
                back += 1;
            }
            assert_eq!(back, MESSAGES, "round {round}");
            assert_eq!(cq.in_flight(), 0);
        }
        drop(over);
        (completed, cancelled, receiver.join().unwrap())
    });
    assert_eq!(completed + cancelled, ROUNDS * MESSAGES);
    assert!(received >= completed, "{completed} sends succeeded, and {received} messages arrived");
    println!("{completed} sends succeeded, {cancelled} were cancelled, {received} messages arrived");
}
