//! Full table of `sm2`, in processes with a separate table.

use std::process::Command;

use loom_core::error::OpenError;
use loom_core::info::{Hints, Info};
use loom_core::vocabulary::Caps;
use loom_core::{Av, Cq, Domain, Source, scope};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};

type T = Ofi<Local>;

const FULL: OpenError = OpenError::Limit("/dev/shm/fi_sm2_mmaps");

fn info() -> Option<Info<T>> {
    let hints = Hints { provider: Some("sm2"), caps: Caps::MSG, ..Hints::default() };
    T::query(&hints).ok()?.next()
}

/// Runs a test of this file in a separate process.
fn play(role: &str, untested: &str) {
    let alone = ["--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /dev/shm && exec \"$0\" \"$@\""];
    let permitted = Command::new("unshare").args(alone).arg("true").status().is_ok_and(|status| status.success());
    if info().is_none() || !permitted {
        println!("skipped: there is no `sm2`, or mounting a table of its own is not permitted");
        return;
    }
    let played = Command::new("unshare")
        .args(alone)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", &format!("full_table::{role}")])
        .env("LOOM_UNTESTED", untested)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&played.stdout);
    assert!(played.status.success() && said.contains("1 passed"), "{played:?}");
}

#[test]
fn full_table_refuses_endpoints_and_the_others_go_on() {
    play("role_fills_the_table", "");
}

#[test]
fn untested_version_that_keeps_its_endpoints_open_refuses_more() {
    play("role_opens_one_at_a_time", "1");
}

#[test]
#[ignore = "a process of the other tests"]
fn role_fills_the_table() {
    let mut room = [0; 3];
    scope(|s| {
        let domain = s.open(&info().unwrap()).unwrap();
        let av = Av::open(&domain, 8).unwrap();
        let mut open = Vec::new();
        // An endpoint on each queue, so that the last queue has a failed one.
        let last = loop {
            let cq = Cq::open(&domain, 4).unwrap();
            match cq.endpoint(&av) {
                Ok(endpoint) => open.push((cq, endpoint)),
                Err(error) => {
                    assert_eq!(error, FULL);
                    break cq;
                }
            }
        };
        assert!(open.len() > 200, "{}", open.len());
        let receiver = &open[0].1;
        let received = receiver.recv(Source::Any, &mut room[..]).unwrap();
        for _ in 0..3 {
            assert_eq!(last.endpoint(&av).unwrap_err(), FULL);
            assert!(last.poll().unwrap().is_none());
        }
        let to = av.insert(&receiver.address().unwrap()).unwrap();
        open.pop();
        let endpoint = last.endpoint(&av).unwrap();
        endpoint.inject(to, b"yes").unwrap();
        open[0].0.finish(received, loom_core::Forever).unwrap().result().unwrap();
        assert_eq!(last.endpoint(&av).unwrap_err(), FULL);
        let cq = Cq::<_, &mut [u8]>::open(&domain, 4).unwrap();
        assert_eq!(cq.endpoint(&av).unwrap_err(), FULL);
        drop(open);
        assert!(cq.endpoint(&av).is_ok());
    });
    assert_eq!(&room, b"yes");
}

#[test]
#[ignore = "a process of the other tests"]
fn role_opens_one_at_a_time() {
    let domain = Domain::open(&info().unwrap()).unwrap();
    let mut refused = 0;
    for _ in 0..300 {
        let av = Av::open(&domain, 2).unwrap();
        let cq = Cq::<_, Vec<u8>>::open(&domain, 4).unwrap();
        match cq.endpoint(&av) {
            Ok(endpoint) => drop(av.insert(&endpoint.address().unwrap()).unwrap()),
            Err(error) => {
                assert_eq!(error, FULL);
                refused += 1;
            }
        }
        assert!(cq.poll().unwrap().is_none());
    }
    assert!((1..100).contains(&refused), "{refused}");
}
