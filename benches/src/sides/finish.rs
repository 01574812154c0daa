//! A tagged message and its receive, each with a wait by its key, as in the README's first program.

use loom_core::deadline::Forever;
use loom_core::info::Info;
use loom_core::{Av, Cq, Domain, Endpoint, Peer, Source, Tag, Transport};

use crate::Failure;

const TAG: Tag = Tag(7);
/// Bytes of the message.
const LEN: usize = 64;
/// Name in metrics.
pub(crate) const NAME: &str = "tagged_by_finish.64B";

/// Two endpoints on one queue.
pub(crate) struct Pair<T: Transport + 'static> {
    cq: Cq<'static, T, Box<[u8]>>,
    a: Endpoint<'static, T, Box<[u8]>>,
    b: Endpoint<'static, T, Box<[u8]>>,
    to_b: Peer,
}

impl<T: Transport + 'static> Pair<T> {
    /// Opens the pair, and does everything a few times.
    pub(crate) fn open(info: &Info<T>) -> Result<Self, Failure> {
        let domain = Domain::open(info)?;
        let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
        let (a, b) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
        let to_b = av.insert(&b.address()?)?;
        let pair = Pair { cq, a, b, to_b };
        pair.run(3);
        Ok(pair)
    }

    pub(crate) fn run(&self, count: u32) {
        let (mut from, mut into) = (vec![0xa5; LEN].into_boxed_slice(), vec![0; LEN].into_boxed_slice());
        for _ in 0..count {
            let room = self.cq.post(into, Forever, |buf| self.b.tagged_recv(Source::Any, TAG, buf));
            let received = room.expect("a receive is posted");
            let message = self.cq.post(from, Forever, |buf| self.a.tagged_send(self.to_b, TAG, buf));
            let sent = message.expect("a message is posted");
            from = self.cq.finish(sent, Forever).expect("it is sent").into_buf();
            into = self.cq.finish(received, Forever).expect("it is received").into_buf();
        }
        assert!(count == 0 || from == into, "what was sent has come");
    }
}
