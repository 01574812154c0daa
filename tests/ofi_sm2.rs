//! `sm2` of libfabric 2, which has messages and no RMA.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they fail by panicking")]

mod posting;
mod shared_memory;

use std::time::Instant;

use loom_core::engine::op_table::OpKey;
use loom_core::error::PostError;
use loom_core::objects::av::Av;
use loom_core::objects::cq::{Cq, CqAttr};
use loom_core::objects::domain::Domain;
use loom_core::objects::endpoint::Source;
use loom_core::objects::info::{Hints, Info};
use loom_core::objects::mr::Mr;
use loom_core::vocabulary::{Access, Caps, Tag};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi, QueryError, library_version};

use posting::{LIMIT, post};

type T = Ofi<Local>;

/// An info of the provider, which libfabric 2 has.
fn info(caps: Caps) -> Option<Info<T>> {
    shared_memory::remove_at_exit();
    match Ofi::<Local>::query(&Hints { caps, provider: Some("sm2"), ..Hints::default() }) {
        Ok(mut infos) => infos.next(),
        Err(QueryError::NoMatch) => None,
        Err(error) => panic!("{error}"),
    }
}

fn finish(cq: &Cq<'_, T, Vec<u8>>, key: OpKey) -> Vec<u8> {
    let (buf, result) = cq.wait(key, Instant::now() + LIMIT).unwrap().unwrap().into_parts();
    result.unwrap();
    buf
}

#[test]
fn messages_arrive_and_rma_is_refused() {
    let Some(info) = info(Caps::MSG | Caps::TAGGED) else {
        assert!(library_version().major < 2, "libfabric 2 has sm2");
        println!("SKIPPED: libfabric {} has no sm2", library_version());
        return;
    };
    assert!(self::info(Caps::MSG | Caps::RMA).is_none(), "it has no RMA to ask for");
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let cq = Cq::<T, Vec<u8>>::open(&domain, CqAttr::<16>::new()).unwrap();
    let (a, b) = (cq.endpoint(&av).enable().unwrap(), cq.endpoint(&av).enable().unwrap());
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    for len in [0, 8, 4000, 1 << 20] {
        let bytes: Vec<u8> = (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let received = post(&cq, vec![0; len], |buf| b.recv(Source::Any, buf));
        let sent = post(&cq, bytes.clone(), |buf| a.send(to_b, buf));
        assert!(finish(&cq, received) == bytes, "a message of {len} bytes");
        finish(&cq, sent);
        let received = post(&cq, vec![0; len], |buf| b.tagged_recv(Source::Any, Tag(7), buf));
        let sent = post(&cq, bytes.clone(), |buf| a.tagged_send(to_b, Tag(7), buf));
        assert!(finish(&cq, received) == bytes, "a tagged message of {len} bytes");
        finish(&cq, sent);
    }
    let region = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
    let refused = a.write(to_b, &region.remote(), 0, vec![1; 8]).unwrap_err();
    assert_eq!((refused.error, refused.buf), (PostError::NotGranted(Caps::RMA | Caps::WRITE), vec![1; 8]));
}
