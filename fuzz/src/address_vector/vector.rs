//! Addresses as text and bytes, and the address vector of a network over them.

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Unstructured};
use loom_core::AddressError;
use loom_core::av::Av;
use loom_core::domain::Domain;
use loom_core::engine::peer_table::Peer;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{AddressFormat, EndpointAddr, Errno, FabricAddr};

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    /// Any text.
    Text(&'a str),
    /// Any bytes, as the encoding of an address.
    Encoded(&'a [u8]),
    /// Any bytes in an address.
    Raw { format: u32, bytes: &'a [u8] },
    /// Text that resembles an address of the network.
    Insert { other_network: bool, index: u16, generation: u32, zero: bool },
    /// Any text, as the address of an endpoint.
    InsertText { text: &'a str, zero: bool },
    /// Handle number `nth` of all handles so far, counted from the newest.
    Remove { nth: u8 },
    /// Several addresses at once: of places inside and outside the network, with a generation, and
    /// sometimes invalid ones.
    InsertAll(Vec<(u8, u8)>),
}

const PLACES: u16 = 4;

/// Domain, and the number of its network.
type Opened = (Domain<'static, Soft<'static>>, u32);

thread_local! {
    /// Domain of all stories, because a vector stores no state in it.
    static OPENED: Opened = open();
}

fn open() -> Opened {
    let attr =
        NetworkAttr { endpoints: PLACES, tx_depth: 1, rx_depth: 1, eager_size: 8, regions: 0, ..NetworkAttr::DEFAULT };
    let network = Network::new(attr).expect("the sizes are small");
    let domain = Domain::open(&network.info()).expect("a network opens");
    let av = Av::open(&domain, usize::from(PLACES)).expect("the sizes are small");
    // Only the text of an address contains the number of the network.
    let is_its = |number: &u32| av.insert(&string(&format!("soft://{number}/0.1"), true)).is_ok();
    let identity = (0..1_000_000).find(is_its).expect("an address of this network");
    (domain, identity)
}

/// Converts text and bytes to addresses and back, and inserts and removes the results. A map is the
/// oracle.
pub(super) fn play(data: &[u8]) -> usize {
    const MOST: usize = 10;
    let (domain, identity) = OPENED.with(Opened::clone);
    let av = Av::open(&domain, usize::from(PLACES)).expect("the sizes are small");
    let mut oracle = Oracle { identity, there: BTreeMap::new(), given: Vec::new() };

    let mut bytes = Unstructured::new(data);
    let mut played = 0;
    while played < MOST && !bytes.is_empty() {
        let Ok(step) = bytes.arbitrary::<Step<'_>>() else { break };
        oracle.play(&av, &step);
        played += 1;
    }
    oracle.check(&av);
    played
}

fn string(text: &str, zero: bool) -> EndpointAddr {
    let mut bytes = text.as_bytes().to_vec();
    bytes.truncate(EndpointAddr::MAX_LEN - 1);
    if zero {
        bytes.push(0);
    }
    EndpointAddr::new(AddressFormat::ADDR_STR, &bytes).expect("cut to fit")
}

/// Expected content: index to handle, fabric address, and the inserted address.
struct Oracle {
    identity: u32,
    there: BTreeMap<u16, (Peer, u64, EndpointAddr)>,
    given: Vec<Peer>,
}

impl Oracle {
    fn play(&mut self, av: &Av<'_, Soft<'_>>, step: &Step<'_>) {
        match step {
            Step::Text(text) => {
                if let Ok(address) = text.parse::<EndpointAddr>() {
                    round_trips(&address);
                    self.insert(av, &address);
                }
            }
            Step::Encoded(bytes) => {
                if let Ok((address, len)) = EndpointAddr::decode(bytes) {
                    let mut again = vec![0; len];
                    assert_eq!(address.encode(&mut again), Ok(len));
                    assert_eq!(again, bytes[..len]);
                    round_trips(&address);
                    self.insert(av, &address);
                }
            }
            Step::Raw { format, bytes } => match EndpointAddr::new(AddressFormat::from_raw(*format), bytes) {
                Ok(address) => {
                    assert_eq!((address.format().as_raw(), address.bytes()), (*format, *bytes));
                    round_trips(&address);
                    self.insert(av, &address);
                }
                Err(_) => assert!(bytes.len() > EndpointAddr::MAX_LEN),
            },
            Step::Insert { other_network, index, generation, zero } => {
                let network = self.identity.wrapping_add(u32::from(*other_network));
                // Mostly places that exist.
                let index = if *index < 1 << 15 { index % PLACES } else { *index };
                self.insert(av, &string(&format!("soft://{network}/{index}.{generation}"), *zero));
            }
            Step::InsertText { text, zero } => self.insert(av, &string(text, *zero)),
            Step::InsertAll(places) => {
                let address = |&(index, generation): &(u8, u8)| {
                    string(&format!("soft://{}/{}.{generation}", self.identity, index % 6), index % 2 == 0)
                };
                let addresses: Vec<_> = places.iter().map(address).collect();
                let mut told = Vec::new();
                let inserted = av.insert_all(&addresses, |peer| told.push(peer));
                assert_eq!(told.len(), addresses.len());
                assert_eq!(told.iter().flatten().count(), inserted);
                for (address, told) in addresses.iter().zip(told) {
                    self.inserted(address, told);
                }
            }
            Step::Remove { nth } => {
                let Some(at) = self.given.len().checked_sub(1 + usize::from(*nth)) else { return };
                let peer = self.given[at];
                let there = self.there.iter().find(|(_, (there, ..))| *there == peer).map(|(index, _)| *index);
                assert_eq!(av.remove(peer), there.is_some());
                if let Some(index) = there {
                    self.there.remove(&index);
                }
            }
        }
        if self.given.len().is_multiple_of(4) {
            self.check(av);
        }
    }

    /// Meaning of an address in this network, by the definition of its text.
    fn meaning(&self, address: &EndpointAddr) -> Option<(u16, u32)> {
        if address.format() != AddressFormat::ADDR_STR {
            return None;
        }
        let mut bytes = address.bytes();
        if let [text @ .., 0] = bytes {
            bytes = text;
        }
        let text = std::str::from_utf8(bytes).ok()?;
        let mut parts = text.strip_prefix("soft://")?.splitn(2, '/');
        let network: u32 = parts.next()?.parse().ok()?;
        let mut parts = parts.next()?.splitn(2, '.');
        let index: u16 = parts.next()?.parse().ok()?;
        let generation: u32 = parts.next()?.parse().ok()?;
        (network == self.identity && index < PLACES && generation > 0).then_some((index, generation))
    }

    fn insert(&mut self, av: &Av<'_, Soft<'_>>, address: &EndpointAddr) {
        self.inserted(address, av.insert(address));
    }

    /// Checks the result of an insert, also of one in a batch.
    fn inserted(&mut self, address: &EndpointAddr, inserted: Result<Peer, AddressError>) {
        let Some((index, generation)) = self.meaning(address) else {
            assert_eq!(inserted, Err(AddressError::Errno(Errno::EINVAL)));
            return;
        };
        let addr = u64::from(generation) << 32 | u64::from(index);
        if let Some((there, known, _)) = self.there.get(&index).filter(|(_, known, _)| *known == addr) {
            assert_eq!(inserted, Ok(*there), "{known} is there");
            return;
        }
        let cells = |address: &EndpointAddr| (address.bytes().len() + 6).div_ceil(28);
        let peer = match inserted {
            Ok(peer) => peer,
            Err(error) => {
                // The cells of four addresses of 72 bytes, and of one of the longest.
                let taken: usize = self.there.values().map(|(_, _, address)| cells(address)).sum();
                assert_eq!(error, AddressError::OutOfBytes);
                assert!(taken + cells(address) > usize::from(PLACES) * 3 + 19, "there was room for {address}");
                return;
            }
        };
        assert!(!self.given.contains(&peer), "handles are not given out twice");
        self.given.push(peer);
        self.there.insert(index, (peer, addr, address.clone()));
    }

    fn check(&self, av: &Av<'_, Soft<'_>>) {
        for peer in self.given.iter().rev().take(16) {
            let known = self.there.values().find(|(there, ..)| there == peer);
            assert_eq!(av.peer_table().addr(*peer), known.map(|(_, addr, _)| FabricAddr(*addr)));
            assert_eq!(av.address(*peer), known.map(|(_, _, address)| Ok(address.clone())));
        }
        for (peer, addr, address) in self.there.values() {
            assert_eq!((av.peer(FabricAddr(*addr)), av.find(address)), (Some(*peer), Some(*peer)));
        }
        assert!(av.peer_table().iter().eq(self.there.values().map(|(peer, ..)| *peer)));
    }
}

fn round_trips(address: &EndpointAddr) {
    let text = address.to_string();
    assert_eq!(text.parse().as_ref(), Ok(address), "{text}");
    let mut bytes = [0; EndpointAddr::MAX_LEN + 8];
    let len = address.encode(&mut bytes).expect("there is room for the longest");
    assert_eq!(EndpointAddr::decode(&bytes[..len]), Ok((address.clone(), len)));
    for short in [0, 4, len - 1] {
        assert!(EndpointAddr::decode(&bytes[..short]).is_err());
    }
}
