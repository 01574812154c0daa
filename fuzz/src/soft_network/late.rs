//! Memory of regions with writes and reads that take effect between post and completion, or are
//! lost. Each byte has its value from the last quiet time, or one written since.

use loom_core::vocabulary::Errno;

#[derive(Default)]
pub struct Late {
    regions: Vec<Copy>,
    accesses: Vec<Access>,
}

/// Region, in the order of opening.
struct Copy {
    open: bool,
    /// Content at the last quiet time.
    memory: Vec<u8>,
    /// Writes since that time.
    writes: Vec<usize>,
    under_way: usize,
}

struct Access {
    region: usize,
    reads: bool,
    /// Places in the region, in the order of the buffer, with the written bytes.
    bytes: Vec<(usize, u8)>,
    injected: bool,
    state: State,
}

#[derive(PartialEq)]
enum State {
    UnderWay,
    Done,
    NotDone,
    /// The outcome stays unknown.
    Unsure,
}

impl Late {
    pub fn opened(&mut self, memory: &[u8]) {
        self.regions.push(Copy { open: true, memory: memory.to_vec(), writes: Vec::new(), under_way: 0 });
    }

    pub fn closed(&mut self, region: usize, memory: &[u8]) {
        self.check(region, memory);
        self.regions[region].open = false;
    }

    pub fn posted(&mut self, region: usize, reads: bool, bytes: Vec<(usize, u8)>, injected: bool) -> usize {
        let access = self.accesses.len();
        self.accesses.push(Access { region, reads, bytes, injected, state: State::UnderWay });
        let region = &mut self.regions[region];
        region.under_way += 1;
        if !reads {
            region.writes.push(access);
        }
        access
    }

    /// Returns `true` if the region of an access is open.
    pub fn is_open(&self, access: usize) -> bool {
        self.regions[self.accesses[access].region].open
    }

    /// Returns `true` if an access has ended without effect.
    pub fn is_not_done(&self, access: usize) -> bool {
        self.accesses[access].state == State::NotDone
    }

    /// Records the end of an access, with its buffer. Returns `true` for a read.
    pub fn ended(&mut self, number: usize, errno: Option<Errno>, buf: &[u8]) -> bool {
        let access = &mut self.accesses[number];
        assert!(access.state == State::UnderWay);
        let region = &mut self.regions[access.region];
        region.under_way -= 1;
        match errno {
            None | Some(Errno::EIO) => access.state = State::Done,
            Some(Errno::ECANCELED) => access.state = State::Unsure,
            Some(_) => {
                access.state = State::NotDone;
                region.writes.retain(|write| *write != number);
                assert!(!access.reads || buf.iter().all(|byte| *byte == 0xee), "read although it was refused");
            }
        }
        let access = &self.accesses[number];
        if access.reads && access.state == State::Done {
            for ((at, _), byte) in access.bytes.iter().zip(buf) {
                assert!(self.may_be(access.region, *at, *byte), "nobody has written {byte} to {at}");
            }
        } else if !access.reads {
            assert!(access.bytes.iter().map(|(_, byte)| byte).eq(buf), "a source is not written");
        }
        access.reads
    }

    /// Records quiet: injected accesses have taken effect, or their endpoint had closed before.
    pub fn settled(&mut self) {
        for access in self.accesses.iter_mut().filter(|access| access.injected && access.state == State::UnderWay) {
            access.state = State::Unsure;
            self.regions[access.region].under_way -= 1;
        }
    }

    fn may_be(&self, region: usize, at: usize, byte: u8) -> bool {
        let region = &self.regions[region];
        region.memory[at] == byte || region.writes.iter().any(|write| self.accesses[*write].bytes.contains(&(at, byte)))
    }

    /// Checks the memory of a region.
    pub fn check(&mut self, region: usize, memory: &[u8]) {
        for (at, byte) in memory.iter().enumerate() {
            assert!(self.may_be(region, at, *byte), "nobody has written {byte} to {at}");
        }
        if self.regions[region].under_way > 0 {
            return;
        }
        // A place with a single write holds its value.
        let writes = core::mem::take(&mut self.regions[region].writes);
        let mut written = vec![(0, None); memory.len()];
        for write in &writes {
            let access = &self.accesses[*write];
            for (at, byte) in &access.bytes {
                written[*at] = (written[*at].0 + 1, (access.state == State::Done).then_some(*byte));
            }
        }
        for ((count, done), byte) in written.into_iter().zip(memory) {
            assert!(count != 1 || done.is_none_or(|done| done == *byte), "a write was not done");
        }
        self.regions[region].memory = memory.to_vec();
    }
}
