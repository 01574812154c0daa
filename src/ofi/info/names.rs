//! Unknown names in hints, and existing names: for errors.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use heapless::Vec;
use loom_core::info::Hints;
use loom_core::vocabulary::Excerpt;

use super::providers::providers;
use super::query::QueryError;
use crate::ofi::threading::{Level, Local};
use crate::ofi::transport::Ofi;

const ADDRESSES: usize = 8;

pub(crate) fn unknown<L: Level>(hints: &Hints<'_>) -> Option<QueryError> {
    if let Some(provider) = hints.provider
        && !provider.split(';').all(is_provider)
    {
        return Some(QueryError::UnknownProvider(Excerpt::of(provider)));
    }
    let node = hints.node?;
    let anywhere = Hints { node: None, service: None, listen: false, numeric_host: false, ..hints.clone() };
    let is_reason = Ofi::<L>::ask(&anywhere).is_ok();
    is_reason.then(|| QueryError::UnknownNode { node: Excerpt::of(node), listen: hints.listen })
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
    let infos = Ofi::<Local>::ask(&Hints::default()).into_iter().flatten();
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
