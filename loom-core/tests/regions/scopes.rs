//! Scopes of borrowed memory end the process where peers may still reach it, so that these tests run themselves in others.

use std::process::Command;
use std::sync::mpsc;
use std::thread;

use loom_core::objects::domain::Domain;
use loom_core::objects::mr;

use super::world::World;
use super::{LIMIT, PEER_ACCESS, WHILE_CLOSING, queue, vector, wait_for};

/// Set in the processes in which a test is to do what it is about.
const DOES_IT: &str = "LOOM_TEST_SCOPE";

/// How the test of this name ends when it does what it is about, and what it says.
fn in_another_process(name: &str) -> (bool, String) {
    let mut this = Command::new(std::env::current_exe().unwrap());
    let output = this.args(["--exact", name, "--nocapture"]).env(DOES_IT, "1").output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn does_it() -> bool {
    std::env::var_os(DOES_IT).is_some()
}

/// The end of a scope looks for endpoints before it closes the region, which the provider does not survive under one.
#[test]
fn a_scope_under_an_open_endpoint_ends_the_process_with_its_region_open() {
    if does_it() {
        let world = World::strict();
        let domain = Domain::open(&world.info()).unwrap();
        let av = vector(&domain);
        mr::scope(&domain, vec![0; 8], PEER_ACCESS, |_| {
            let cq = queue(&domain);
            core::mem::forget(cq.endpoint(&av).enable().unwrap());
            core::mem::forget(cq);
        })
        .unwrap();
        return;
    }
    let (success, said) =
        in_another_process("scopes::a_scope_under_an_open_endpoint_ends_the_process_with_its_region_open");
    assert!(!success && said.contains("endpoints are open at the end of a scope"), "{said}");
    assert!(!said.contains("wrong:"), "{said}");
}

/// Another thread opens an endpoint while the scope ends: it comes too late to reach the region.
#[test]
fn an_endpoint_that_is_opened_after_the_region_was_closed_does_no_harm() {
    if does_it() {
        let world = World::strict();
        let domain = Domain::open(&world.info()).unwrap();
        let (closing, begun) = mpsc::channel();
        let (wants, wanted) = mpsc::channel();
        let (ended, end) = mpsc::channel();
        thread::scope(|threads| {
            let domain = &domain;
            threads.spawn(move || {
                begun.recv_timeout(LIMIT).unwrap();
                wants.send(()).unwrap();
                let (av, cq) = (vector(domain), queue(domain));
                let endpoint = cq.endpoint(&av).enable().unwrap();
                // Open until the scope has ended.
                end.recv_timeout(LIMIT).unwrap();
                drop(endpoint);
            });
            let scope = mr::scope(domain, vec![0; 8], PEER_ACCESS, |_| {
                world.while_closing(move || {
                    closing.send(()).unwrap();
                    wanted.recv_timeout(LIMIT).unwrap();
                    wait_for(WHILE_CLOSING, || world.endpoints() > 0);
                });
            });
            scope.unwrap();
            ended.send(()).unwrap();
        });
        assert_eq!((world.wrongs(), world.open_regions()), (vec![], 0));
        return;
    }
    let (success, said) =
        in_another_process("scopes::an_endpoint_that_is_opened_after_the_region_was_closed_does_no_harm");
    assert!(success && !said.contains("wrong:"), "{said}");
}
