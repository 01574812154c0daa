use loom_core::allocator_api2::alloc::Global;
use loom_core::info::{Hints, Info, Nic};
use loom_core::soft::{Network, NetworkAttr};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Attributes, Caps, LinkState};
use loom_core::vocabulary::{EndpointAttributes, EndpointType};
use loom_fabric::ofi::{Library, Local, Ofi, QueryError};
use loom_tcp::TcpAttr;
use loom_transfer::topology::{SysFolder, Topology};

#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) provider: String,
    pub(crate) fabric: String,
    pub(crate) domain: String,
    pub(crate) address: Option<String>,
    pub(crate) attributes: Attributes,
    /// Granted only if hints request them.
    pub(crate) on_request: Caps,
    pub(crate) card: Option<Card>,
    /// Name of the card in the topology.
    pub(crate) place: Option<String>,
    pub(crate) words: String,
    pub(crate) tested: bool,
}

#[derive(Debug)]
pub(crate) struct Card {
    pub(crate) device: Option<String>,
    pub(crate) driver: Option<String>,
    pub(crate) pci: Option<String>,
    pub(crate) bits_per_second: usize,
    pub(crate) mtu: usize,
    pub(crate) link: LinkState,
}

#[derive(Debug)]
pub(crate) struct Found {
    /// Version of libfabric, or the reason for not querying it.
    pub(crate) library: Result<String, String>,
    pub(crate) offers: Vec<Offer>,
    pub(crate) topology: Topology<Global>,
}

impl Offer {
    fn of<T: Transport + 'static>(info: &Info<T>, words: String, tested: bool, topology: &Topology<Global>) -> Self {
        Offer {
            provider: info.provider().to_owned(),
            fabric: info.fabric().to_owned(),
            domain: info.domain().to_owned(),
            address: info.source_address().map(|address| address.to_string()),
            attributes: *info.attributes(),
            on_request: Caps::empty(),
            card: info.nic().map(|nic| Card::of(&nic)),
            place: topology.card_of(info).map(|card| card.name().to_owned()),
            words,
            tested,
        }
    }
}

impl Card {
    fn of(nic: &Nic<'_>) -> Self {
        let pci = |(domain, bus, device, function)| format!("{domain:04x}:{bus:02x}:{device:02x}.{function}");
        Card {
            device: nic.device.name.map(str::to_owned),
            driver: nic.device.driver.map(str::to_owned),
            pci: nic.bus.pci.map(pci),
            bits_per_second: nic.link.speed,
            mtu: nic.link.mtu,
            link: nic.link.state,
        }
    }
}

pub(crate) fn find(hints: &Hints<'_>) -> Result<Found, String> {
    let mut offers = Vec::new();
    let topology =
        Topology::read_in(&SysFolder::default(), Global).map_err(|error| format!("the topology: {error:#}"))?;
    let network = Network::new(NetworkAttr::default()).map_err(|error| format!("the software network: {error:#}"))?;
    if let Ok(info) = network.query(hints) {
        offers.push(Offer::of(&info, info.to_string(), true, &topology));
    }
    for kind in [EndpointType::RDM, EndpointType::MSG] {
        let is_wanted = [EndpointType::UNSPEC, kind].contains(&hints.endpoint_attr.kind);
        let hints = Hints { endpoint_attr: EndpointAttributes { kind, ..hints.endpoint_attr }, ..hints.clone() };
        if is_wanted && let Ok(info) = loom_tcp::query(&hints, TcpAttr::DEFAULT) {
            offers.push(Offer::of(&info, info.to_string(), true, &topology));
        }
    }
    let library = libfabric(hints, &topology, &mut offers)?;
    if offers.is_empty() {
        return Err(match library {
            Ok(_) if let Some(provider) = hints.provider.filter(|provider| is_unknown(provider)) => {
                crate::play::libfabric::no_such(provider, &Hints::default())
            }
            Ok(library) => {
                format!("nothing here fits; {library} was asked. `loom info` without options shows what there is")
            }
            Err(why) => format!("nothing here fits; libfabric was not asked: {why}"),
        });
    }
    Ok(Found { library, offers, topology })
}

fn is_unknown(provider: &str) -> bool {
    let hints = Hints { provider: Some(provider), ..Hints::default() };
    Ofi::<Local>::query(&hints).is_err_and(|error| error.is_no_match())
}

fn libfabric(
    hints: &Hints<'_>,
    topology: &Topology<Global>,
    offers: &mut Vec<Offer>,
) -> Result<Result<String, String>, String> {
    let library = match Library::get() {
        Ok(library) => library,
        // The software transport has offers, too.
        Err(error) => return Ok(Err(error.to_string())),
    };
    match Ofi::<Local>::query(hints) {
        Ok(infos) => {
            let first = offers.len();
            offers.extend(infos.map(|info| Offer::of(&info, info.raw().to_string(), info.raw().is_tested(), topology)));
            let mut asked: Vec<(String, EndpointType, Caps)> = Vec::new();
            for offer in offers.iter_mut().skip(first) {
                let (provider, kind) = (&offer.provider, offer.attributes.endpoint.kind);
                let known = asked.iter().find(|known| (&known.0, known.1) == (provider, kind)).map(|known| known.2);
                let caps = known.unwrap_or_else(|| on_request(hints, provider, kind));
                if known.is_none() {
                    asked.push((provider.clone(), kind, caps));
                }
                offer.on_request = caps.difference(offer.attributes.caps);
            }
        }
        Err(error) if error.is_no_match() => {}
        Err(QueryError::ChosenName) => return Err(crate::play::NO_ADDRESS.to_owned()),
        Err(error) => return Err(format!("{error:#}")),
    }
    Ok(Ok(format!("libfabric {}", library.version())))
}

fn on_request(hints: &Hints<'_>, provider: &str, kind: EndpointType) -> Caps {
    let is_granted = |caps: &Caps| {
        let endpoint_attr = EndpointAttributes::of(kind);
        let hints = Hints { caps: hints.caps | *caps, provider: Some(provider), endpoint_attr, ..hints.clone() };
        Ofi::<Local>::query(&hints).is_ok_and(|mut infos| infos.any(|info| info.caps().contains(*caps)))
    };
    Caps::all().iter().filter(is_granted).fold(Caps::empty(), Caps::union)
}
