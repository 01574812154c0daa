//! Endpoint that sends forged control messages and immediate data to engines. It does not use the
//! good peer's name, address or numbers, because engines do not authenticate these.

use arbitrary::Arbitrary;
use loom_core::soft::Soft;
use loom_core::vocabulary::{MemoryKey, RemoteAddr};
use loom_core::{
    Access, Av, Completion, Cq, CqAttr, Domain, Endpoint, EndpointAddr, ImmediateData, Info, Mr, Peer, RemoteRegion,
    Source,
};
use loom_transfer::{EngineAttr, RemoteMemory};

pub(super) const PEERS: usize = 3;
pub(super) const VALUES: usize = 8;
/// Bytes of a header, and of a hello's words.
const HEADER: usize = 40;
const WORDS: usize = 36;
/// Bytes of a record before its addresses, and of an address before its own.
const HEAD: usize = 10;
const ADDRESS_HEAD: usize = 8;
const ROOM: usize = 1024;
const OTHER_ROOM: usize = 1025;

#[derive(Arbitrary, Debug)]
pub(super) enum Forged<'a> {
    Bytes(&'a [u8]),
    /// Fields close to valid ones.
    Message {
        kind: u8,
        fragment: u8,
        to: u8,
        number: u8,
        newer: i8,
        len: u16,
        ending: u8,
        late: u32,
        operations: u64,
        body: Body,
    },
    Hello {
        from: u8,
        words: [u8; 7],
        answers: bool,
        layout: bool,
        address: u8,
        rails: u8,
    },
    Rail {
        to: u8,
        rail: u8,
        newer: i8,
        address: u8,
        forged_key: bool,
    },
    /// Notifications without their last fragments.
    Hoard(u8),
    Write {
        value: u32,
        upper: bool,
        len: u8,
    },
}

#[derive(Arbitrary, Debug)]
pub(super) enum Body {
    /// Valid length for the fragment.
    Right,
    Len(u16),
}

/// Names and generation that an engine has granted to the forger.
#[derive(Clone, Copy, Default)]
struct Granted {
    name: Option<[u32; 2]>,
    epoch: u32,
}

pub(super) struct Forger {
    /// Endpoints, one for each pretended peer.
    endpoints: [Endpoint<'static, Soft<'static>, Vec<u8>>; 2],
    cq: Cq<'static, Soft<'static>, Vec<u8>>,
    /// Control endpoint and first rail of each engine.
    engines: [(Peer, Peer); 2],
    /// By engine and endpoint.
    granted: [[Granted; 2]; 2],
    /// Epoch of the last hello to each engine.
    epochs: [u32; 2],
    addresses: [Vec<u8>; 2],
    /// Addresses of the engines' control endpoints.
    engine_addresses: [Vec<u8>; 2],
    exposed: RemoteRegion,
    memory: Mr<'static, Soft<'static>, Vec<u8>>,
    attr: EngineAttr,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().expect("four bytes"))
}

impl Forger {
    pub(super) fn open(
        info: &Info<Soft<'static>>,
        records: &[Vec<u8>; 2],
        exposed: &RemoteMemory,
        attr: &EngineAttr,
    ) -> Self {
        let domain = Domain::open(info).expect("room");
        let (av, cq) = (Av::open(&domain, 8).expect("room"), Cq::open(&domain, CqAttr::new(64)).expect("room"));
        let endpoints = [(); 2].map(|()| cq.endpoint(&av).expect("room"));
        let encoded = |address: &EndpointAddr| {
            let mut bytes = [0; 256];
            let len = address.encode(&mut bytes).expect("room");
            bytes[..len].to_vec()
        };
        let addresses = records.each_ref().map(|record| {
            let mut rest = &record[HEAD..];
            let addresses = core::iter::from_fn(|| {
                let (address, len) = EndpointAddr::decode(rest).ok()?;
                rest = &rest[len..];
                Some(address)
            });
            let addresses: Vec<_> = addresses.take(usize::from(record[8]) + 1).collect();
            [addresses[addresses.len() - 1].clone(), addresses[0].clone()]
        });
        let engines = addresses.each_ref().map(|addresses| {
            let [control, rail] = addresses.each_ref().map(|address| av.insert(address).expect("room"));
            (control, rail)
        });
        let engine_addresses = addresses.each_ref().map(|[control, _]| encoded(control));
        // One rail, which is also the control endpoint.
        let addresses = endpoints.each_ref().map(|endpoint| encoded(&endpoint.address().expect("an address")));
        let keys = exposed.to_bytes();
        let long = |at: usize| u64::from_le_bytes(keys[8 * at..8 * at + 8].try_into().expect("eight bytes"));
        let exposed = RemoteRegion {
            base: RemoteAddr(long(1)),
            len: long(2),
            key: MemoryKey(long(6)),
            access: Access::from_bits_retain(long(3)),
        };
        let memory = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).expect("room");
        let (granted, epochs, attr) = ([[Granted::default(); 2]; 2], [0; 2], *attr);
        let forger =
            Forger { endpoints, cq, engines, granted, epochs, addresses, engine_addresses, exposed, memory, attr };
        for _ in 0..8 {
            let _ = forger.endpoints[0].recv(Source::Any, vec![0; ROOM]);
            let _ = forger.endpoints[1].recv(Source::Any, vec![0; OTHER_ROOM]);
        }
        forger
    }

    /// Processes the messages of the engines.
    pub(super) fn drive(&mut self) {
        while let Ok(Some(completion)) = self.cq.poll() {
            let Completion::Op(done) = completion else { continue };
            let Ok((bytes, transfer)) = done.into_result() else { continue };
            // The length names the endpoint of a receive.
            let of = match bytes.len() {
                ROOM => 0,
                OTHER_ROOM => 1,
                _ => continue,
            };
            if transfer.len > HEADER + WORDS && word(&bytes, 0) & 0xFFFF == 1 {
                // Words of a hello: the name of this side at the engine, and the first value.
                let name = [word(&bytes, 12), word(&bytes, 13)];
                let address = &bytes[HEADER + WORDS..transfer.len];
                if let Some(side) = self.engine_addresses.iter().position(|known| known == address) {
                    self.granted[side][of] = Granted { name: Some(name), epoch: word(&bytes, 16) };
                }
            }
            let _ = self.endpoints[of].recv(Source::Any, bytes);
        }
    }

    /// Returns `true` if both engines have answered the hellos of all pretended peers.
    pub(super) fn is_granted(&self) -> bool {
        self.granted.as_flattened().iter().all(|granted| granted.name.is_some())
    }

    /// Name of any peer except the good one, which has index 0.
    fn name(&self, side: usize, forged: u8) -> [u32; 2] {
        let granted = self.granted[side][usize::from(forged >> 3) % 2].name.filter(|name| name[0] != 0);
        match (forged % 8, granted) {
            (0..=3, Some(name)) => name,
            (4 | 5, Some([index, generation])) => [3 - index.min(2), generation],
            (6, Some([_, generation])) => [0, generation ^ u32::from(forged | 1)],
            (_, name) => [1 + u32::from(forged) % 4, name.map_or(0, |name| name[1])],
        }
    }

    pub(super) fn send(&mut self, side: usize, forged: &Forged<'_>) {
        let (control, rail) = self.engines[side];
        let bytes = match *forged {
            // So few bytes cannot contain a peer's name.
            Forged::Bytes(bytes) => bytes[..bytes.len().min(12)].to_vec(),
            Forged::Message { kind, fragment, to, number, newer, len, ending, late, operations, ref body } => {
                let [index, generation] = self.name(side, to);
                let Granted { epoch, .. } = self.granted[side][usize::from(to >> 3) % 2];
                let len = if late % 16 == 15 { u32::MAX - u32::from(len) } else { u32::from(len % 2560) };
                // Most fields are valid, or close to it.
                let operations = if late % 8 == 7 { u64::MAX - operations % 4 } else { operations % 4 };
                let fragment = if fragment < 0x80 { 0 } else { fragment % 8 };
                let number = u16::from(number) % if number < 0xC0 { self.attr.notifications } else { 20 };
                let newer = if newer % 4 == 0 { newer / 4 } else { 0 };
                let words = [
                    u32::from(if kind < 0x80 { 3 } else { 2 + kind % 8 }) | u32::from(fragment) << 16,
                    index,
                    generation,
                    number.into(),
                    epoch.wrapping_add_signed(newer.into()),
                    len,
                    u32::from(ending % 5),
                    late,
                    operations as u32,
                    (operations >> 32) as u32,
                ];
                let room = self.attr.message - HEADER;
                let body = match *body {
                    Body::Right => (len as usize).saturating_sub(usize::from(fragment) * room).min(room),
                    Body::Len(len) => usize::from(len) % 800,
                };
                let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
                bytes.resize(HEADER + body, kind);
                bytes
            }
            Forged::Hello { from, words, answers, layout, address, rails } => {
                let [index, generation] = self.name(side, from);
                let [version, first, bits, width, newer, notifications, message] = words.map(u32::from);
                let head = [1, index, generation, 0, 0, 0, 0, 0, 0, 0];
                let right = layout && notifications % 8 != 0;
                let (bits, width) = if right { (5 + bits % 24, 8) } else { (bits, width) };
                let rails = if rails < 0xF0 { 1 + u32::from(rails % 2) } else { u32::from(rails % 18) };
                let notifications = if layout { self.attr.notifications.into() } else { notifications };
                self.epochs[side] = newer;
                let hello = [
                    u32::from_le_bytes(*b"loom"),
                    u32::from_le_bytes(*b"EH\x01\0") + u32::from(version == 255),
                    index,
                    generation,
                    if first == 255 { u32::MAX } else { first },
                    bits | width << 8 | rails << 16 | u32::from(answers) << 24,
                    newer,
                    notifications | u32::from(self.attr.fragments) << 16,
                    self.attr.message as u32 + u32::from(message == 255),
                ];
                let mut bytes: Vec<u8> = head.into_iter().chain(hello).flat_map(u32::to_le_bytes).collect();
                bytes.extend(self.address(side, address));
                bytes
            }
            Forged::Rail { to, rail, newer, address, forged_key } => {
                let [index, generation] = self.name(side, to);
                let rail = if rail < 0xF0 { u32::from(rail % 2) } else { u32::from(rail % 20) };
                let newer = if newer % 4 == 0 { newer / 4 } else { 0 };
                let epoch = self.epochs[side].wrapping_add_signed(newer.into());
                let remote = self.memory.remote();
                let base = remote.base.0;
                let head = [8, index, generation, rail, epoch, 0, 0, 0, base as u32, (base >> 32) as u32];
                let key = if forged_key { u64::from(address) } else { remote.key.0 };
                let mut bytes: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
                bytes.extend(key.to_le_bytes());
                bytes.extend(self.address(side, address));
                bytes
            }
            Forged::Hoard(to) => {
                self.drive();
                let room = self.attr.message - HEADER;
                for number in 0..u8::try_from(self.attr.notifications).expect("few") {
                    for fragment in 0..u8::try_from(self.attr.fragments - 1).expect("few") {
                        let len = self.attr.fragments * u16::try_from(room).expect("short");
                        self.send(
                            side,
                            &Forged::Message {
                                kind: 0,
                                fragment: 0x80 | fragment,
                                to,
                                number,
                                newer: 0,
                                len,
                                ending: 0,
                                late: 0,
                                operations: 0,
                                body: Body::Right,
                            },
                        );
                    }
                }
                return;
            }
            Forged::Write { value, upper, len } => {
                let numbers = usize::from(self.attr.notifications);
                let bits = usize::BITS - (VALUES + PEERS * numbers - 1).leading_zeros();
                let index = value as usize & ((1 << bits) - 1);
                // Numbers of the first peer are those of the good peer.
                let is_good = (VALUES..VALUES + numbers).contains(&index);
                let index = if is_good { index + numbers } else { index };
                let Granted { epoch, .. } = self.granted[side][usize::from(len & 1)];
                let upper = if upper { (value >> bits) ^ epoch } else { value >> bits };
                let data = ImmediateData(index as u64 | u64::from(upper) << bits & u64::from(u32::MAX));
                // Writes have no bytes, because the memory belongs to the good peer. Others are
                // refused.
                let offset = if len == 255 { self.exposed.len } else { 0 };
                let _ =
                    self.endpoints[0].write_data(rail, &self.exposed, offset, data, vec![0; usize::from(len == 255)]);
                return;
            }
        };
        let _ = self.endpoints[0].send(control, bytes);
    }

    /// Bytes of an own address, or close to it.
    fn address(&self, side: usize, forged: u8) -> Vec<u8> {
        let mut own = self.addresses[usize::from(forged % 16 > 8)].clone();
        match forged % 16 {
            0 => own.truncate(own.len() - 1 - usize::from(forged) / 16),
            // The engine itself.
            1 => own.clone_from(&self.engine_addresses[side]),
            2 => own.push(0),
            // Format and length.
            3 => own[usize::from(forged / 16) % ADDRESS_HEAD] ^= 1 << (forged / 32),
            _ => {}
        }
        own
    }
}
