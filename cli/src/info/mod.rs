mod json;
mod machine;
mod offer;
mod table;

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use loom_core::info::Hints;
use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType};

use crate::failure::Failure;
use offer::Found;

/// Shows what this machine can do: processors, cards, and every offer of the software transport and
/// of libfabric.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 done, 1 nothing fits or failed, 2 wrong options.")]
pub(crate) struct Arguments {
    /// Shows only offers of this provider: soft, shm, 'tcp;ofi_rxm'
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,

    /// Shows only this type of endpoint
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    kind: Option<Kind>,

    /// Shows only offers that grant all of: tagged,rma,directed_recv
    #[arg(long, value_name = "LIST", value_parser = caps, default_value = "", hide_default_value = true)]
    caps: Caps,

    /// Shows only offers with this address of this machine
    #[arg(long, value_name = "ADDRESS")]
    node: Option<String>,

    /// Addresses and link speeds for media flows: by provider, and one line for each value of
    /// --node
    #[arg(long, conflicts_with_all = ["words", "kind"])]
    media: bool,

    /// Prints JSON
    #[arg(long, conflicts_with = "words")]
    json: bool,

    /// Prints the text of `fi_info -v`
    #[arg(long)]
    words: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Rdm,
    Msg,
    Dgram,
}

impl Kind {
    const fn endpoint(self) -> EndpointType {
        match self {
            Kind::Rdm => EndpointType::RDM,
            Kind::Msg => EndpointType::MSG,
            Kind::Dgram => EndpointType::DGRAM,
        }
    }
}

impl Arguments {
    fn hints(&self) -> Hints<'_> {
        let (kind, needed) = match self.kind {
            _ if self.media => (EndpointType::UNSPEC, Caps::MSG | Caps::RMA),
            kind => (kind.map_or(EndpointType::UNSPEC, Kind::endpoint), Caps::empty()),
        };
        Hints {
            caps: self.caps | needed,
            provider: self.provider.as_deref(),
            endpoint_attr: EndpointAttributes::of(kind),
            node: self.node.as_deref(),
            listen: self.node.is_some(),
            ..Hints::default()
        }
    }
}

/// Capabilities by their names without `FI_`, between commas.
fn caps(text: &str) -> Result<Caps, String> {
    text.split(',').filter(|name| !name.is_empty()).try_fold(Caps::empty(), |caps, name| {
        let name = name.trim().to_ascii_uppercase();
        Caps::from_name(name.strip_prefix("FI_").unwrap_or(&name))
            .map(|cap| caps | cap)
            .ok_or_else(|| format!("there is no capability `{name}`; `man fi_getinfo` has their names"))
    })
}

fn words(found: &Found) -> String {
    found.offers.iter().map(|offer| format!("{}\n---\n", offer.words)).collect()
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut found = offer::find(&arguments.hints()).map_err(Failure::Unavailable)?;
    if arguments.media {
        found.offers.retain(|offer| offer.attributes.endpoint.kind != EndpointType::DGRAM);
    }
    let text = match (arguments.json, arguments.words) {
        (true, _) => json::text(&found),
        (_, true) => words(&found),
        _ if arguments.media => table::media(&found),
        _ => table::text(&found),
    };
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_by_name() {
        assert_eq!(caps("tagged,FI_RMA,Directed_Recv"), Ok(Caps::TAGGED | Caps::RMA | Caps::DIRECTED_RECV));
        assert!(caps("magic").is_err());
    }
}
