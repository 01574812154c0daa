//! RMA writes with immediate data, several in flight, over any transport.

use loom_core::completion::Completion;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::engine::op_table::OpKey;
use loom_core::{
    Access, Av, CompletionLevel, Endpoint, Forever, ImmediateData, Info, Mr, Peer, RemoteRegion, SendOptions, Transport,
};

use crate::sets::peers::end::{End, Exchange, check_bytes, fill};

type Buffer = Box<[u8]>;

/// Writes in flight.
pub(crate) const WINDOW: usize = 32;

/// An endpoint that writes to the slots of the other's region in turn. A write completes when its
/// bytes have arrived. A slot may be written again before the other end reads its event: one poll
/// may take many writes.
pub(crate) struct Writes<T: Transport> {
    cq: Cq<'static, T, Buffer>,
    endpoint: Endpoint<'static, T, Buffer>,
    to: Peer,
    memory: Mr<'static, T, Buffer>,
    remote: RemoteRegion,
    len: usize,
    free: Vec<Buffer>,
    /// Buffer for the check of a slot.
    inbox: Buffer,
    in_flight: usize,
    _av: Av<'static, T>,
}

impl<T: Transport + 'static> Writes<T> {
    pub(crate) fn open(info: &Info<T>, len: usize, exchange: Exchange<'_>) -> Self {
        let domain = Domain::open(info).expect("domain");
        let (av, cq) = (Av::open(&domain, 1).expect("address vector"), Cq::open(&domain, 4 * WINDOW).expect("queue"));
        let endpoint = cq.endpoint(&av).expect("endpoint");
        let room: Buffer = vec![0; 2 * WINDOW * len].into();
        let memory = Mr::open(&domain, room, Access::REMOTE_WRITE).expect("region");
        let theirs = exchange(&endpoint.address().expect("address").to_string());
        let to = av.insert(&theirs.parse().expect("an address")).expect("address inserted");
        let mine = memory.remote();
        let theirs = exchange(&format!("{} {}", mine.base.0, mine.key.0));
        let (base, key) = theirs.split_once(' ').expect("two numbers");
        let mut remote = mine;
        remote.base.0 = base.parse().expect("a number");
        remote.key.0 = key.parse().expect("a number");
        let free = (0..WINDOW).map(|_| vec![0; len].into()).collect();
        Writes { cq, endpoint, to, memory, remote, len, free, inbox: vec![0; len].into(), in_flight: 0, _av: av }
    }

    /// Takes one completion. Returns the immediate data of a write by the other end.
    #[inline]
    fn poll(&mut self) -> Option<u64> {
        match self.cq.poll().expect("the queue works")? {
            Completion::Op(done) => {
                done.result().expect("the write succeeds");
                self.free.push(done.into_buf());
                self.in_flight -= 1;
                None
            }
            Completion::Remote(event) => Some(event.data().expect("immediate data").0),
            other => panic!("not expected: {other:?}"),
        }
    }
}

impl<T: Transport + 'static> End for Writes<T> {
    #[inline]
    fn send(&mut self, number: u64) {
        let mut buffer = loop {
            match self.free.pop() {
                Some(buffer) => break buffer,
                None => assert!(self.poll().is_none(), "one way"),
            }
        };
        fill(&mut buffer, number);
        let at = number % (2 * WINDOW as u64) * self.len as u64;
        let part = [self.remote.part(at, self.len).expect("within")];
        let options = SendOptions {
            data: Some(ImmediateData(number)),
            level: Some(CompletionLevel::Delivery),
            ..SendOptions::default()
        };
        let post = |buffer| self.endpoint.write_with(self.to, &part, options, buffer);
        let _: OpKey = self.cq.post(buffer, Forever, post).expect("posted");
        self.in_flight += 1;
    }

    #[inline]
    fn receive(&mut self, number: u64) {
        let data = loop {
            if let Some(data) = self.poll() {
                break data;
            }
        };
        assert_eq!(data, number, "in order");
        let at = (number % (2 * WINDOW as u64)) as usize * self.len;
        self.memory.window().copy_to(at, &mut self.inbox).expect("within");
        let slots = 2 * WINDOW as u64;
        let found = u64::from_ne_bytes(*self.inbox.first_chunk().expect("whole words"));
        assert!(found >= number && (found - number).is_multiple_of(slots), "{found} in the slot of {number}");
        check_bytes(&self.inbox, found);
    }

    fn send_last(&mut self, number: u64) {
        self.send(number);
        while self.in_flight > 0 {
            assert!(self.poll().is_none(), "one way");
        }
    }
}
