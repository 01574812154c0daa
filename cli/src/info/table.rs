use std::fmt::Write;

use loom_core::vocabulary::{AddressFormat, Caps, EndpointType, MrMode, Progress};

use super::machine;
use super::offer::{Card, Found, Offer};
use crate::text::count;

pub(super) struct Columns {
    pub(super) rows: Vec<Vec<String>>,
}

impl Columns {
    pub(super) fn new(heads: &[&str]) -> Self {
        Columns { rows: vec![heads.iter().map(|head| (*head).to_owned()).collect()] }
    }

    pub(super) fn text(&self) -> String {
        let width = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                let _ = write!(line, "{cell:<width$}  ", width = width(at).unwrap_or(0));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Sizes beyond any memory are no limit.
fn size(bytes: usize) -> String {
    const UNITS: [(usize, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    if bytes >= 1 << 60 {
        return "any".to_owned();
    }
    match UNITS.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

fn kind(kind: EndpointType) -> String {
    kind.to_string().trim_start_matches("EP_").to_lowercase()
}

fn wants(offer: &Offer) -> String {
    let domain = &offer.attributes.domain;
    let mut wants = Vec::new();
    if domain.data_progress == Progress::MANUAL {
        wants.push("polling");
    }
    if domain.mr_mode.contains(MrMode::LOCAL) {
        wants.push("registered buffers");
    }
    if domain.mr_mode.contains(MrMode::ENDPOINT) {
        wants.push("regions bound to endpoints");
    }
    if wants.is_empty() { "nothing".to_owned() } else { wants.join(", ") }
}

fn card(card: &Card) -> String {
    let mut text = card.device.clone().unwrap_or_else(|| "card".to_owned());
    for part in [&card.driver, &card.pci].into_iter().flatten() {
        let _ = write!(text, ", {part}");
    }
    if card.bits_per_second > 0 {
        let _ = write!(text, ", {}", machine::speed(card.bits_per_second as u64));
    }
    text
}

struct Group<'f> {
    provider: &'f str,
    kind: String,
    offers: Vec<&'f Offer>,
}

impl<'f> Group<'f> {
    fn all(offers: &'f [Offer]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for offer in offers {
            let (provider, kind) = (offer.provider.as_str(), kind(offer.attributes.endpoint.kind));
            match groups.iter_mut().find(|group| group.provider == provider && group.kind == kind) {
                Some(group) => group.offers.push(offer),
                None => groups.push(Group { provider, kind, offers: vec![offer] }),
            }
        }
        groups
    }

    fn each(&self, say: impl Fn(&Offer) -> String) -> String {
        let mut said: Vec<String> = Vec::new();
        for text in self.offers.iter().map(|offer| say(offer)) {
            if !said.contains(&text) {
                said.push(text);
            }
        }
        said.join(", ")
    }

    fn grants(&self) -> String {
        names(self.granted())
    }

    fn granted(&self) -> Caps {
        self.offers.iter().fold(Caps::empty(), |caps, offer| caps | offer.attributes.caps)
    }

    fn on_request(&self) -> String {
        let caps = self.offers.iter().fold(Caps::empty(), |caps, offer| caps | offer.on_request);
        let caps = caps.difference(self.granted());
        if caps.is_empty() { "-".to_owned() } else { names(caps) }
    }
}

fn names(caps: Caps) -> String {
    let directions = Caps::SEND | Caps::RECV | Caps::READ | Caps::WRITE | Caps::REMOTE_READ | Caps::REMOTE_WRITE;
    caps.difference(directions).to_string().replace(" | ", " ").to_lowercase()
}

fn place(offer: &Offer) -> String {
    let address = offer.address.as_deref().unwrap_or("-");
    address.split_once("://").map_or(address, |(_, rest)| rest).to_owned()
}

pub(crate) fn text(found: &Found) -> String {
    let mut out = match &found.library {
        Ok(library) => {
            format!("The software transport and {library}: {}\n\n", count(found.offers.len() as u64, "offer"))
        }
        Err(why) => format!("The software transport alone: {why}.\n\n"),
    };
    let groups = Group::all(&found.offers);
    let mut kinds =
        Columns::new(&["PROVIDER", "TYPE", "OFFERS", "DOMAINS", "INJECT", "LONGEST MESSAGE", "TESTED", "WANTS"]);
    let mut grants = Columns::new(&["PROVIDER", "TYPE", "GRANTS", "ON REQUEST"]);
    for group in &groups {
        kinds.rows.push(vec![
            group.provider.to_owned(),
            group.kind.clone(),
            group.offers.len().to_string(),
            group.each(|offer| offer.domain.clone()),
            group.each(|offer| size(offer.attributes.tx.inject_size)),
            group.each(|offer| size(offer.attributes.endpoint.max_msg_size)),
            group.each(|offer| if offer.tested { "yes" } else { "no" }.to_owned()),
            group.each(wants),
        ]);
        grants.rows.push(vec![group.provider.to_owned(), group.kind.clone(), group.grants(), group.on_request()]);
    }
    let mut places: Vec<(&str, String)> = Vec::new();
    for offer in found.offers.iter().filter(|offer| offer.address.is_some()) {
        let place = (offer.domain.as_str(), place(offer));
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let mut domains = Columns::new(&["DOMAIN", "ADDRESS"]);
    domains.rows.extend(places.into_iter().map(|(domain, place)| vec![domain.to_owned(), place]));
    let [nodes, cards, accelerators] = machine::tables(&found.topology, &found.offers);
    for columns in [kinds, grants, domains, nodes, cards, accelerators].iter().filter(|columns| columns.rows.len() > 1)
    {
        out.push_str(&columns.text());
        out.push('\n');
    }
    if found.offers.iter().any(|offer| !offer.tested) {
        out.push_str(
            "Not tested: loom's tests have not run over this version of the provider. Memory is as safe as elsewhere;\n\
             an endpoint is closed when nothing is in flight on it, and some features are refused.\n",
        );
    }
    for offer in &found.offers {
        if let Some(nic) = &offer.card {
            let _ = writeln!(out, "{} {}: {}", offer.provider, offer.domain, card(nic));
        }
    }
    out
}

pub(crate) fn media(found: &Found) -> String {
    let mut places = Columns::new(&["PROVIDER", "TYPE", "DOMAIN", "ADDRESS", "SPEED", "CARD", "TESTED"]);
    for offer in &found.offers {
        let cards = found.topology.cards().iter();
        let card = offer.place.as_deref().and_then(|name| cards.clone().find(|card| card.name() == name));
        let of_card = card.map_or(0, |card| card.bits_per_second);
        let speed = offer.card.as_ref().map_or(of_card, |card| card.bits_per_second as u64);
        let row = vec![
            offer.provider.clone(),
            kind(offer.attributes.endpoint.kind),
            offer.domain.clone(),
            // A name in shared memory is this process's.
            if offer.attributes.addr_format == AddressFormat::ADDR_STR { "-".to_owned() } else { place(offer) },
            machine::speed(speed),
            offer.place.clone().unwrap_or_else(|| "-".to_owned()),
            if offer.tested { "yes" } else { "no" }.to_owned(),
        ];
        if !places.rows.contains(&row) {
            places.rows.push(row);
        }
    }
    places.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_readable_units() {
        assert_eq!([64, 1024, 1500, 1 << 21, usize::MAX].map(size), ["64 B", "1 KiB", "1500 B", "2 MiB", "any"]);
    }

    #[test]
    fn columns_are_as_wide_as_they_have_to_be() {
        let mut columns = Columns::new(&["A", "B"]);
        columns.rows.push(vec!["longer".to_owned(), "x".to_owned()]);
        assert_eq!(columns.text(), "A       B\nlonger  x\n");
    }
}
