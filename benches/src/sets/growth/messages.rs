//! Operations in flight, and bytes of a message.

use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::peer_table::Peer;
use loom_core::error::Rejected;
use loom_core::info::Info;
use loom_core::transport::Transport;

use super::{Buffer, Growth, Labels, TAG, completed};
use crate::Failure;
use crate::report::Run;
use crate::sets::machine::Copies;
use crate::sets::soft::one_thread::network;
#[cfg(feature = "libfabric")]
use crate::sides::Provider;

/// Maximum operations in flight.
const DEPTH: u32 = 64;

const SOFT: &str = "software transport";
#[cfg(feature = "libfabric")]
const SHM: &str = "loom over shm";

/// Two endpoints on one queue, which exchange tagged messages.
struct Messages<T: Transport> {
    cq: Cq<'static, T, Buffer>,
    from: Endpoint<'static, T, Buffer>,
    to: Endpoint<'static, T, Buffer>,
    peer: Peer,
}

impl<T: Transport + 'static> Messages<T> {
    fn open(info: &Info<T>) -> Result<Self, Failure> {
        let domain = Domain::open(info)?;
        let (av, cq) = (Av::open(&domain, 4)?, Cq::open(&domain, 2 * DEPTH as usize)?);
        let (from, to) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
        let peer = av.insert(&to.address()?)?;
        Ok(Messages { cq, from, to, peer })
    }

    /// Exchanges messages of `len` bytes, `in_flight` of them posted at a time.
    fn exchange(&self, in_flight: u32, len: u32) -> impl FnMut(u32) -> Duration + '_ {
        // A received message equals the sent one, so any buffer can be sent next. Sends take the
        // last ones.
        let of = |byte| (0..in_flight).map(move |_| vec![byte; len as usize].into());
        let mut buffers: Vec<Buffer> = of(0).chain(of(SENT)).collect();
        self.batch(&mut buffers);
        assert!(buffers.iter().all(|buffer| buffer.iter().all(|byte| *byte == SENT)), "messages arrive");
        move |count| {
            let batches = count.div_ceil(in_flight);
            let begin = Instant::now();
            (0..batches).for_each(|_| self.batch(&mut buffers));
            begin.elapsed().mul_f64(f64::from(count) / f64::from(batches * in_flight))
        }
    }

    /// Posts receives with the first half of the buffers and sends with the second, and takes all
    /// completions.
    #[inline(never)]
    fn batch(&self, buffers: &mut Vec<Buffer>) {
        let in_flight = buffers.len() / 2;
        for mut into in buffers.drain(..in_flight) {
            while let Err(rejected) = self.to.tagged_recv(Source::Any, TAG, into) {
                into = self.again(rejected);
            }
        }
        for mut message in buffers.drain(..) {
            while let Err(rejected) = self.from.tagged_send(self.peer, TAG, message) {
                message = self.again(rejected);
            }
        }
        buffers.extend((0..2 * in_flight).map(|_| completed(&self.cq)));
    }

    /// Returns the buffer of a post with a transient error.
    #[cold]
    fn again(&self, rejected: Rejected<Buffer>) -> Buffer {
        assert!(rejected.error.is_transient(), "{rejected}");
        self.cq.progress().expect("the queue works");
        rejected.value
    }
}

/// Content of messages.
const SENT: u8 = 0x5a;

pub(super) fn measure_in_flight(run: &mut Run) -> Result<(), Failure> {
    let numbers = || (0..=DEPTH.ilog2()).map(|power| 1 << power);
    let soft = Messages::open(&network()?.info())?;
    #[cfg(feature = "libfabric")]
    let shm = Messages::open(&Provider::SHM.info()?)?;
    let mut growth = Growth::new("in_flight");
    for in_flight in numbers() {
        growth = growth.point(SOFT, in_flight, soft.exchange(in_flight, 8));
    }
    #[cfg(feature = "libfabric")]
    for in_flight in numbers() {
        growth = growth.point(SHM, in_flight, shm.exchange(in_flight, 8));
    }
    let labels = Labels {
        name: "in_flight",
        title: "Tagged messages of 8 B, by the number posted before their completions are taken, on one thread",
        note: "This number of receives and sends is posted, and then their completions are taken.",
        x: "messages in flight",
        y: "ns per message",
    };
    let _ = growth.run(run, labels);
    Ok(())
}

pub(super) fn measure_sizes(run: &mut Run) -> Result<(), Failure> {
    const SIZES: [u32; 8] = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20];
    let soft = Messages::open(&network()?.info())?;
    #[cfg(feature = "libfabric")]
    let shm = Messages::open(&Provider::SHM.info()?)?;
    let mut growth = Growth::new("size");
    for len in SIZES {
        let mut copies = Copies::warm(len as usize);
        growth = growth.point("one memcpy", len, move |count| {
            let begin = Instant::now();
            copies.copy(count);
            begin.elapsed()
        });
    }
    for len in SIZES {
        growth = growth.point(SOFT, len, soft.exchange(1, len));
    }
    #[cfg(feature = "libfabric")]
    for len in SIZES {
        growth = growth.point(SHM, len, shm.exchange(1, len));
    }
    let labels = Labels {
        name: "size",
        title: "One tagged message at a time, on one thread, and one copy of as many bytes",
        note: "A side sends from one buffer and receives into another, which are the same ones each time, as those of the copy are.",
        x: "bytes",
        y: "ns per message",
    };
    let _ = growth.run(run, labels);
    Ok(())
}
