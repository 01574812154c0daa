//! What the user asks for.

use lexopt::Arg::{Long, Short};
use lexopt::{Parser, ValueExt};
use loom_core::objects::info::Hints;
use loom_core::vocabulary::{Caps, EndpointAttributes, EndpointType};

pub(crate) const HELP: &str = "\
What this machine can do: every offer of the software transport and of libfabric.

Usage: info [OPTIONS]

Which offers:
  --provider NAME      of this provider only: soft, shm, 'tcp;ofi_rxm'
  --type TYPE          of this type of endpoint only: rdm, msg or dgram
  --caps LIST          that grant all of these: tagged,rma,directed_recv
  --node ADDRESS       that have this address of this machine

How:
  --json               as JSON
  --words              in libfabric's own words, as fi_info -v prints them
  --help               this text

Exit status: 0 done, 1 nothing fits or failed, 2 wrong options.
";

/// How to show what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    Table,
    Json,
    Words,
    Help,
}

/// What the user asks for.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) provider: Option<String>,
    pub(crate) kind: EndpointType,
    pub(crate) caps: Caps,
    pub(crate) node: Option<String>,
    pub(crate) show: Show,
}

impl Options {
    pub(crate) fn hints(&self) -> Hints<'_> {
        Hints {
            caps: self.caps,
            provider: self.provider.as_deref(),
            endpoint_attr: EndpointAttributes::of(self.kind),
            node: self.node.as_deref(),
            listen: self.node.is_some(),
            ..Hints::default()
        }
    }
}

/// Reads the command line.
pub(crate) fn read(mut parser: Parser) -> Result<Options, lexopt::Error> {
    let mut options =
        Options { provider: None, kind: EndpointType::UNSPEC, caps: Caps::empty(), node: None, show: Show::Table };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("provider") => options.provider = Some(parser.value()?.string()?),
            Long("type") => options.kind = parser.value()?.parse_with(kind)?,
            Long("caps") => options.caps = parser.value()?.parse_with(caps)?,
            Long("node") => options.node = Some(parser.value()?.string()?),
            Long("json") => options.show = Show::Json,
            Long("words") => options.show = Show::Words,
            Long("help") | Short('h') => options.show = Show::Help,
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}

fn kind(text: &str) -> Result<EndpointType, String> {
    match text {
        "rdm" => Ok(EndpointType::RDM),
        "msg" => Ok(EndpointType::MSG),
        "dgram" => Ok(EndpointType::DGRAM),
        _ => Err("rdm, msg or dgram".to_owned()),
    }
}

/// Capabilities by their names without `FI_`, between commas.
fn caps(text: &str) -> Result<Caps, String> {
    text.split(',').try_fold(Caps::empty(), |caps, name| {
        let name = name.trim().to_ascii_uppercase();
        Caps::from_name(name.strip_prefix("FI_").unwrap_or(&name))
            .map(|cap| caps | cap)
            .ok_or_else(|| format!("there is no capability `{name}`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Options, String> {
        read(Parser::from_args(arguments)).map_err(|error| error.to_string())
    }

    #[test]
    fn capabilities_are_read_by_name() {
        let options = parsed(&["--caps", "tagged,FI_RMA,Directed_Recv", "--type", "rdm"]);
        let options = options.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(options.caps, Caps::TAGGED | Caps::RMA | Caps::DIRECTED_RECV);
        assert_eq!(options.hints().endpoint_attr.kind, EndpointType::RDM);
    }

    #[test]
    fn wrong_options_are_told() {
        for wrong in [&["--caps", "magic"][..], &["--type", "x"], &["--provider"], &["what"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
