//! Addresses of the software transport.

use std::sync::LazyLock;

use loom_core::AddressError;
use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{AddressFormat, EndpointAddr, Errno, FabricAddr};

const PLACES: u16 = 4;

type Vector = Av<'static, Soft<'static>>;

/// Vector of a network that stays open, and the network's number.
static NETWORK: LazyLock<(Vector, u32)> = LazyLock::new(network);

fn network() -> (Vector, u32) {
    let attr =
        NetworkAttr { endpoints: PLACES, tx_depth: 1, rx_depth: 1, eager_size: 8, regions: 0, ..NetworkAttr::DEFAULT };
    let network = Network::new(attr).expect("the sizes are small");
    let domain = Domain::open(&network.info()).expect("a network opens");
    let av = Av::open(&domain, usize::from(PLACES)).expect("the sizes are small");
    let text = {
        let cq = Cq::<_, Box<[u8]>>::open(&domain, CqAttr::new(1)).expect("the sizes are small");
        let endpoint = cq.endpoint(&av).expect("there is a place");
        endpoint.address().expect("it is open").to_string()
    };
    let number = text.trim_start_matches("soft://").split('/').next().expect("there is one").parse();
    (av, number.expect("it is a number"))
}

/// Checks text that resembles an address of the network, as an address and as a name.
pub fn address(other_network: bool, place: u16, generation: u32, garbled: Option<(u8, u8)>, by_name: bool) {
    let (av, number) = &*NETWORK;
    let of = number.wrapping_add(other_network.into());
    let mut bytes =
        format!("soft://{of}/{}.{generation}\0", if place.is_multiple_of(2) { place % PLACES } else { place })
            .into_bytes();
    if let Some((at, byte)) = garbled {
        let at = usize::from(at) % bytes.len();
        bytes[at] = byte;
    }
    let wanted = meaning(&bytes, *number);
    let inserted = match std::str::from_utf8(&bytes) {
        Ok(text) if by_name => av.insert_service(text, None),
        _ => av.insert(&EndpointAddr::new(AddressFormat::ADDR_STR, &bytes).expect("it is short")),
    };
    match (inserted, wanted) {
        (Ok(peer), Some((place, generation))) => {
            assert_eq!(av.peer_table().addr(peer), Some(FabricAddr(u64::from(generation) << 32 | u64::from(place))));
            assert!(av.remove(peer));
        }
        (Err(AddressError::Errno(Errno::EINVAL)), None) => {}
        (inserted, wanted) => panic!("{inserted:?} for {wanted:?}"),
    }
}

/// Place and generation, if they belong to this network.
fn meaning(bytes: &[u8], number: u32) -> Option<(u16, u32)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let text = text.strip_suffix('\0').unwrap_or(text);
    let mut numbers = text.strip_prefix("soft://")?.splitn(2, '/');
    let of: u32 = numbers.next()?.parse().ok()?;
    let mut numbers = numbers.next()?.splitn(2, '.');
    let (place, generation) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    (of == number && place < PLACES && generation > 0).then_some((place, generation))
}
