use core::fmt;
use core::net::{IpAddr, SocketAddr};

use heapless::Vec;
use loom_core::info::Hints;
use loom_core::vocabulary::Excerpt;

use super::providers::providers;
use super::query::{QueryError, TextField};
use crate::ofi::quirks;
use crate::ofi::threading::{Level, Local};
use crate::ofi::transport::Ofi;

const ADDRESSES: usize = 8;

/// First name in the hints that no provider matches by itself.
pub(crate) fn unknown<L: Level>(hints: &Hints<'_>) -> Option<QueryError> {
    let unknown = |field, name| Some(QueryError::Unknown { field, name: Excerpt::of(name), listen: hints.listen });
    if let Some(provider) = hints.provider
        && !provider.split(';').all(is_provider)
    {
        return unknown(TextField::Provider, provider);
    }
    let any = Hints { provider: hints.provider, ..Hints::default() };
    let here = Hints { listen: hints.listen, numeric_host: hints.numeric_host, ..any.clone() };
    let alone = [
        (TextField::Fabric, hints.fabric, Hints { fabric: hints.fabric, ..any.clone() }),
        (TextField::Domain, hints.domain, Hints { domain: hints.domain, ..any.clone() }),
        (TextField::Node, hints.node, Hints { node: hints.node, ..here.clone() }),
        (TextField::Service, hints.service, Hints { service: hints.service, ..here }),
    ];
    alone.into_iter().find_map(|(field, name, alone)| {
        let name = name?;
        // Endpoints of shared memory accept every node and service.
        let is_place = matches!(field, TextField::Node | TextField::Service);
        let exists = |hints: &Hints<'_>| {
            let mut infos = Ofi::<L>::query_list(hints).into_iter().flatten();
            infos.any(|info| !(is_place && quirks::are_named_by_processes(info.raw())))
        };
        if exists(&any) && !exists(&alone) { unknown(field, name) } else { None }
    })
}

fn is_provider(name: &str) -> bool {
    providers().is_ok_and(|mut all| all.any(|provider| provider.name().eq_ignore_ascii_case(name)))
}

pub(crate) fn write_providers(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut names = providers().into_iter().flatten().filter(|provider| !provider.name().starts_with("ofi_hook"));
    let Some(first) = names.next() else { return f.write_str("none") };
    f.write_str(first.name())?;
    names.try_for_each(|provider| write!(f, ", {}", provider.name()))
}

pub(crate) fn write_addresses(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let infos = Ofi::<Local>::query_list(&Hints::default()).into_iter().flatten();
    let sockets = infos.filter_map(|info| SocketAddr::try_from(&info.source_address()?).ok());
    let mut found = Vec::<IpAddr, ADDRESSES>::new();
    for address in sockets.map(|socket| socket.ip()) {
        if !found.contains(&address) && found.push(address).is_err() {
            break;
        }
    }
    let Some((first, rest)) = found.split_first() else { return f.write_str("none") };
    write!(f, "{first}")?;
    rest.iter().try_for_each(|address| write!(f, ", {address}"))
}
