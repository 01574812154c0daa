use std::env;
use std::time::{Duration, Instant};

use loom_core::{Av, Cq, Domain, Hints, Source};
use loom_fabric::ofi::{Library, Local, Ofi, headers_version, params};

use loom_tcp::TcpAttr;

use super::Finding;
use super::faults;
use crate::text::count;

pub(super) fn look(all_faults: bool) -> Vec<Finding> {
    let mut findings = vec![Finding::good(
        "loom",
        concat!("version ", env!("CARGO_PKG_VERSION"), "; the software transport is there"),
    )];
    findings.push(match message_over_tcp() {
        Ok(()) => Finding::good("loom-tcp", "TCP in Rust: a message over 127.0.0.1 has arrived"),
        Err(error) => Finding::wrong("loom-tcp", format!("{error:#}"), "loom-tcp requires a loopback interface"),
    });
    findings.extend(libfabric(all_faults));
    findings.extend(environment());
    findings
}

/// Sends a message to another endpoint of this process.
fn message_over_tcp() -> Result<(), loom_core::Error> {
    let info = loom_tcp::query(&Hints::default(), TcpAttr::DEFAULT)?;
    let domain = Domain::open(&info)?;
    let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
    let to_bob = av.insert(&bob.address()?)?;
    let received = bob.recv(Source::Any, vec![0; 64])?;
    let limit = Instant::now() + Duration::from_secs(5);
    cq.post(vec![7; 64], limit, |message| alice.send(to_bob, message))?;
    cq.finish(received, limit)?.into_result()?;
    Ok(())
}

fn libfabric(all_faults: bool) -> Vec<Finding> {
    let library = match Library::get() {
        Ok(library) => library,
        Err(error) => {
            let advice = "the commands measure the software transport and loom-tcp without it; LD_LIBRARY_PATH and LOOM_LIBFABRIC choose a library";
            return vec![Finding::wrong("libfabric", error.to_string(), advice)];
        }
    };
    let (version, file) = (library.version(), library.path().unwrap_or("a file without a name"));
    let text = format!("{version} ({file}), called as {}", headers_version());
    let mut findings = vec![Finding::good("libfabric", text)];
    findings.extend(provider_path());
    let mut providers: Vec<(String, bool)> = Vec::new();
    let mut versions = Vec::new();
    let infos = Ofi::<Local>::query(&Hints::default());
    match infos {
        Ok(infos) => {
            for info in infos {
                if !providers.iter().any(|(name, _)| name == info.provider()) {
                    providers.push((info.provider().to_owned(), info.raw().is_tested()));
                    versions.push(format!("{} {}", info.provider(), info.attributes().provider_version));
                }
            }
            let names = |tested: bool| {
                let names = providers.iter().filter(|(_, is)| *is == tested).map(|(name, _)| name.as_str());
                names.collect::<Vec<_>>().join(", ")
            };
            findings.push(Finding::good("versions", versions.join(", ")));
            if !names(true).is_empty() {
                findings.push(Finding::good("providers", format!("tested: {}", names(true))));
            }
            if !names(false).is_empty() {
                findings.push(Finding::note(
                    "providers",
                    format!("not tested in this version: {}", names(false)),
                    "loom relies on less with them, and refuses some features: prefer a tested one where there is a choice",
                ));
            }
        }
        Err(error) => findings.push(Finding::wrong(
            "providers",
            format!("libfabric offers none: {error:#}"),
            "FI_LOG_LEVEL=warn says why; is FI_PROVIDER set to a name that is not here?",
        )),
    }
    findings.extend(known_faults(&version.to_string(), &providers, all_faults));
    findings
}

/// Folders of providers: the variable's value, or the default of its help.
fn provider_path() -> Option<Finding> {
    let params = params().ok()?;
    let path = params.iter().find(|param| param.name.eq_ignore_ascii_case("FI_PROVIDER_PATH"))?;
    let default = path.help.rsplit_once("(default: ").map(|(_, default)| default.trim_end_matches(')'));
    Some(Finding::good("path", format!("libfabric looks for providers in {}", path.value.or(default)?)))
}

fn known_faults(version: &str, providers: &[(String, bool)], all: bool) -> Vec<Finding> {
    let Some(faults) = faults::of(version) else {
        let text = format!("loom's tests have not run over libfabric {version}; known are 1.17 and 2.5");
        return vec![Finding::note(
            "faults",
            text,
            "run `.ci/run faults` of loom's tree with this library, or take a known version",
        )];
    };
    let is_here = |fault: &str| {
        let layer = fault.split('-').next().unwrap_or_default();
        let mut layers = providers.iter().flat_map(|(name, _)| name.split(';'));
        layers.any(|name| name.trim_start_matches("ofi_") == layer)
    };
    let here: Vec<_> = faults.into_iter().filter(|fault| is_here(fault.name)).collect();
    if here.is_empty() {
        return vec![];
    }
    let crashes = here.iter().filter(|fault| fault.crashes).count();
    let text = format!(
        "{} of the providers that are here, {crashes} of which end a process",
        count(here.len() as u64, "known fault")
    );
    let advice = "loom avoids or refuses what it can: `loom doctor --faults` says what each is";
    let mut findings = vec![Finding::note("faults", text, advice)];
    if all {
        findings.extend(here.iter().map(|fault| {
            let end = if fault.crashes { " (ends the process)" } else { "" };
            Finding::fact("fault", format!("{}{end}: {}", fault.name, fault.sentence))
        }));
    }
    findings
}

fn environment() -> Vec<Finding> {
    let mut set: Vec<(String, String)> = env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        .filter(|(name, _)| name.starts_with("LOOM_") || name.starts_with("FI_"))
        .collect();
    set.sort_unstable();
    let mut findings: Vec<_> = set
        .iter()
        .map(|(name, value)| {
            let value = crate::text::harmless(value);
            let advice = match name.as_str() {
                "LOOM_LIBFABRIC" => "loom loads this libfabric, and no other",
                "LOOM_UNTESTED" => "loom takes no provider for tested: unset it unless that is meant",
                "LOOM_STRICT" => "software networks of loom's programs are strict: unset it unless that is meant",
                "FI_PROVIDER" if value.starts_with('^') => "libfabric leaves these providers out: unset it to have all",
                "FI_PROVIDER" => "libfabric has no other providers than these: unset it to have all",
                "FI_HOOK" => {
                    "loom takes no provider for tested behind libfabric's hooks: unset it unless they are meant"
                }
                "FI_LOG_LEVEL" => "libfabric writes messages to the standard error, which takes time",
                name if name.starts_with("LOOM_") => "loom's own tests may read it, and nothing else does",
                _ => "it changes what libfabric does: `fi_info -e` says how",
            };
            Finding::note("environment", format!("{name}={value}"), advice)
        })
        .collect();
    if findings.is_empty() {
        findings.push(Finding::good("environment", "no variable LOOM_* or FI_* is set"));
    }
    findings
}
