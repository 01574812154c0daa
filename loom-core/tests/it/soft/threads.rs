//! Calls of one thread to its endpoints while another thread is in the middle of their operations.

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

/// Ends the test when it is dropped, also by a panic. Otherwise the other thread would continue.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A close waits for the receiver's current copy. The returned buffers are overwritten and freed at
/// once, and the receiver must not see that.
#[test]
fn thread_gets_its_buffers_back_only_after_a_peer_has_copied_them() {
    const ROUNDS: usize = 60;
    /// Long enough that the receiver mostly copies.
    const LEN: usize = 1 << 23;
    const MESSAGES: usize = 3;
    /// No message consists of this byte.
    const POISON: u8 = 0xee;

    let network = &Network::new(ATTR).unwrap();
    /// Limit of one round.
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
                // Messages sent before the end are received after it.
                let over = stop.load(Ordering::Acquire);
                match cq.poll().unwrap() {
                    // Checked later, so that the next message is copied at once.
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
            // The receiver copies now: it has ended one message, and continues with the next.
            let first = cq.wait(sends[0], Instant::now() + LIMIT).unwrap().expect("in time");
            assert!(first.result().is_ok());
            completed += 1;
            drop(endpoint);
            // The closed endpoint has returned all of them.
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
                // From its end, because a copy begins at the start.
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
