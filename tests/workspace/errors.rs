//! Errors of the packages: each converts into [`loom_core::Error`] by `?`, and keeps its text.

use std::collections::BTreeSet;
use std::path::Path;

use loom_alloc::Ledger;
use loom_alloc::registered::NotJoined;
use loom_core::allocator_api2::alloc::Global;
use loom_core::error::{OpenError, PostError, Rejected};
use loom_core::{CqError, Errno, Error};
use loom_group::bootstrap::BootstrapError;
use loom_group::{CollectiveError, ConnectError, PeerError, PeerIndex};
use loom_tagged::LinkError;
use loom_updates::UpdateError;

/// Collects the error types in these sources, and the conversions into `Error`.
fn errors(folder: &Path, errors: &mut BTreeSet<String>, converted: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            self::errors(&path, errors, converted);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            for (before, after) in text.match_indices("Error for ").map(|(at, found)| text.split_at(at + found.len())) {
                let name: String = after.chars().take_while(|letter| letter.is_alphanumeric()).collect();
                assert!(before.ends_with(' ') && !name.is_empty());
                errors.insert(name);
            }
            converted.push_str(text.split("#[cfg(test)]").next().unwrap());
        }
    }
}

#[test]
fn every_error_turns_into_one_type() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut found, mut text) = (BTreeSet::new(), String::new());
    for sources in [
        "src",
        "loom-core/src",
        "loom-alloc/src",
        "layers/async/src",
        "layers/deferred/src",
        "layers/group/src",
        "layers/media/src",
        "layers/static/src",
        "layers/tagged/src",
        "layers/transfer/src",
        "layers/updates/src",
    ] {
        errors(&root.join(sources), &mut found, &mut text);
    }
    found.remove("Error");
    assert!(found.len() > 9, "the sources have errors: {found:?}");
    let turns = |name: &str| {
        let shapes = [format!("From<{name}> for Error"), format!("{name} => ")];
        // For a generic one, up to the body of the implementation.
        let begins = format!("From<{name}<");
        let mut generic = text.split(&begins).skip(1).filter_map(|after| after.split('{').next());
        shapes.iter().any(|shape| text.contains(shape)) || generic.any(|head| head.trim_end().ends_with("> for Error"))
    };
    let missing: Vec<_> = found.iter().filter(|name| !turns(name)).collect();
    assert!(missing.is_empty(), "without a way into `loom_core::Error`: {missing:?}");
    assert!(!turns("NoSuchError"), "the control");
}

#[test]
fn texts_with_causes_name_each_once() {
    fn names_once(error: &dyn core::error::Error) {
        let (text, errno) = (format!("{error:#}"), Errno::EIO.to_string());
        assert_eq!(text.matches(&errno).count(), 1, "{text}");
        let mut chain = vec![error.to_string()];
        let mut source = error.source();
        while let Some(cause) = source {
            chain.push(cause.to_string());
            source = cause.source();
        }
        assert_eq!(chain.join(": ").matches(&errno).count(), 1, "{chain:?}");
        let distinct: BTreeSet<_> = chain.iter().collect();
        assert_eq!(distinct.len(), chain.len(), "{chain:?}");
    }
    let (open, post, queue) = (OpenError::Errno(Errno::EIO), PostError::Errno(Errno::EIO), CqError::Queue(Errno::EIO));
    names_once(&open);
    names_once(&post);
    names_once(&queue);
    names_once(&Rejected { value: (), error: post });
    names_once(&Error::from(open));
    names_once(&PeerError::Failed(Errno::EIO));
    names_once(&PeerError::Connect(open));
    names_once(&CollectiveError::Post { member: 1, error: post });
    names_once(&CollectiveError::Provider(post));
    names_once(&BootstrapError::System { call: "bind", errno: Errno::EIO });
    names_once(&LinkError::Post(post));
    names_once(&Rejected { value: Some(()), error: Error::from(post) });
    names_once(&Rejected { value: (), error: open });
    names_once(&Rejected { value: (), error: ConnectError { peer: PeerIndex(1), error: PeerError::Connect(open) } });
    names_once(&UpdateError::<PostError>::Refused(Errno::EIO));
    names_once(&UpdateError::Post(post));
}

#[test]
fn errors_of_allocators_and_registered_memory_keep_their_text() {
    fn cached() -> Result<(), Error> {
        Err(Rejected { value: vec![0_u8; 4], error: OpenError::Access })?
    }
    assert_eq!(cached().unwrap_err(), Error::Open(OpenError::Access));
    let long = OpenError::TooLong { limit: 4096 };
    assert!(Error::from(long).to_string().ends_with("more than 4096 bytes: raise `MrCacheAttr::bytes`"));
    let apart = Error::from(NotJoined { lease: 1, other: 2 });
    assert_eq!(apart.to_string(), "the two leases are not neighbours in one buffer");
    let ledger = Ledger::<1>::new();
    ledger.account("one", Global).unwrap();
    let full = ledger.account("another", Global).unwrap_err();
    assert_eq!(full.to_string(), "full: the accounts of the ledger: raise `N` of `Ledger`");
}
