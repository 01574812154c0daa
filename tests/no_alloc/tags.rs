//! Tagged messages over plain ones (`loom_tagged`), over the software transport.

use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::error::{PostError, Rejected};
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{Tag, TagMatch};
use loom_tagged::{LinkError, LinkId, Packet, TaggedAttr, TaggedEndpoint, TaggedKey, WithPeer};

use crate::allocators::Seal;
use crate::count_allocations::{Counts, Plant, counted};
use crate::failure::Failure;

const ATTR: TaggedAttr =
    TaggedAttr { operations: 16, packet_size: 512, messages: 4, control: 4, sends: 4, ..TaggedAttr::DEFAULT };
/// Length of a message of many segments.
const LONG: usize = 5000;
const SPINS: u32 = 1 << 20;

type Carrier<'d, 'n> = WithPeer<'d, Soft<'n>, Vec<u8>>;
type Layer<'d, 'n, 's> = TaggedEndpoint<Carrier<'d, 'n>, Vec<u8>, &'s Seal>;

impl From<LinkError> for Failure {
    fn from(_: LinkError) -> Self {
        Failure::Wrong("a link is not added")
    }
}

/// Two sides, and the buffers of a message.
struct Rig<'r, 'd, 'n, 's> {
    a: &'r mut Layer<'d, 'n, 's>,
    b: &'r mut Layer<'d, 'n, 's>,
    link: LinkId,
    out: Option<Vec<u8>>,
    into: Option<Vec<u8>>,
}

fn kept(slot: &mut Option<Vec<u8>>, posted: Result<TaggedKey, Rejected<Vec<u8>>>) -> Result<TaggedKey, Failure> {
    posted.map_err(|Rejected { value: buf, error }| {
        *slot = Some(buf);
        error.into()
    })
}

impl Rig<'_, '_, '_, '_> {
    /// Waits for an operation of `a` or `b`.
    fn end(&mut self, of_a: bool, key: TaggedKey) -> Result<(Vec<u8>, usize), Failure> {
        for _ in 0..SPINS {
            self.a.progress()?;
            self.b.progress()?;
            let layer = if of_a { &mut *self.a } else { &mut *self.b };
            if let Some(done) = layer.wait(key, loom_core::deadline::Spins(0))? {
                let (buf, result) = done.into_parts();
                return Ok((buf, result?.len));
            }
        }
        Err(Failure::Late("an operation with a tag"))
    }

    /// Sends a message of `len` bytes from `a` to `b`, expected or unexpected.
    fn message(&mut self, number: u64, len: usize, expected: bool) -> Result<(), Failure> {
        let tag = Tag(number);
        let (Some(mut out), Some(into)) = (self.out.take(), self.into.take()) else {
            return Err(Failure::Wrong("a buffer was not given back"));
        };
        out.truncate(len);
        out.resize(len, 0);
        out.fill(number.to_le_bytes()[0]);
        let want = TagMatch { tag, ignore: number & 0xff };
        let mut into = Some(into);
        let mut received = None;
        if expected && let Some(buf) = into.take() {
            received = Some(kept(&mut self.into, self.b.tagged_recv(self.link, want, buf))?);
        }
        let mut posted = self.a.tagged_send(self.link, tag, out);
        for _ in 0..SPINS {
            match posted {
                Err(Rejected { value: buf, error: PostError::Again }) => {
                    self.a.progress()?;
                    self.b.progress()?;
                    posted = self.a.tagged_send(self.link, tag, buf);
                }
                _ => break,
            }
        }
        let sent = kept(&mut self.out, posted)?;
        if let Some(buf) = into.take() {
            let mut spins = 0;
            while self.b.tagged_peek(self.link, want).is_none() {
                self.a.progress()?;
                self.b.progress()?;
                spins += 1;
                if spins == SPINS {
                    return Err(Failure::Late("a message"));
                }
            }
            received = Some(kept(&mut self.into, self.b.tagged_recv(self.link, want, buf))?);
        }
        let Some(received) = received else { return Err(Failure::Wrong("no receive")) };
        let (bytes, got) = self.end(false, received)?;
        if got != len || bytes[..len].iter().any(|byte| *byte != number.to_le_bytes()[0]) {
            return Err(Failure::Wrong("the message is another one"));
        }
        self.into = Some(bytes);
        self.out = Some(self.end(true, sent)?.0);
        Ok(())
    }

    fn round(&mut self, number: u64) -> Result<(), Failure> {
        for len in [0, 100, ATTR.eager_size(), LONG] {
            self.message(number, len, true)?;
            self.message(number, len, false)?;
        }
        let Some(into) = self.into.take() else { return Err(Failure::Wrong("a buffer was not given back")) };
        let key = kept(&mut self.into, self.b.tagged_recv(self.link, Tag(1), into))?;
        self.b.cancel(key)?;
        let done = self.b.wait(key, loom_core::deadline::Spins(0))?;
        self.into = done.map(loom_tagged::TaggedDone::into_buf);
        Ok(())
    }
}

/// Opens two sides, warms up, and counts.
pub fn run(seal: &Seal, rounds: u64, plant: Plant) -> Result<Counts, Failure> {
    const QUEUE: CqAttr = CqAttr { endpoints: 1, ..CqAttr::new(64) };

    let network = Network::new_in(NetworkAttr::DEFAULT, seal)?;
    scope(|s| {
        let domain = s.open(&network.info())?;
        let av = Av::open_in(&domain, 2, seal)?;
        let open = || Cq::<_, Packet<Vec<u8>>>::open_in(&domain, QUEUE, seal);
        let (cq_a, cq_b) = (open()?, open()?);
        let [end_a, end_b] = [cq_a.endpoint(&av)?, cq_b.endpoint(&av)?];
        let [to_a, to_b] = [av.insert(&end_a.address()?)?, av.insert(&end_b.address()?)?];
        let packets = || (0..ATTR.packets_per_link()).map(|_| vec![0; ATTR.packet_size as usize]);
        let taken = seal.taken();
        let mut a = TaggedEndpoint::open_in(cq_a, ATTR, seal)?;
        let mut b = TaggedEndpoint::open_in(cq_b, ATTR, seal)?;
        if seal.taken() == taken {
            return Err(Failure::Wrong("the endpoint has not used the allocator that it was given"));
        }
        let link = a.add_link(WithPeer::new(&end_a, to_b), packets())?;
        b.add_link(WithPeer::new(&end_b, to_a), packets())?;
        let (out, into) = (Some(vec![0; LONG]), Some(vec![0; LONG]));
        let mut rig = Rig { a: &mut a, b: &mut b, link, out, into };
        let begin = (rounds / 50).max(1);
        for number in 0..begin {
            rig.round(number)?;
        }
        counted(seal, plant, begin..begin + rounds, |number| rig.round(number))
    })
}
