//! One seed gives one run.

use std::fmt::Write as _;

use loom_core::endpoint::Source;
use loom_core::mr::Mr;
use loom_core::soft::{Every, Injected, Plan};
use loom_core::vocabulary::{Access, ImmediateData, Tag};

use crate::soft::faults::{LONG, bytes, under};

/// Returns the completions of a fixed program under a plan.
fn run(plan: Plan) -> (String, Injected) {
    let (mut told, mut injected) = (String::new(), Injected::default());
    under(plan, |world| {
        let region = Mr::open(&world.domain, bytes(0, 64), Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
        let remote = region.remote();
        for round in 0..200 {
            let len = if round % 4 == 0 { LONG } else { 16 };
            let buf = || bytes(round, len);
            let at = (round % 8) as u64;
            let posts = [
                world.a.recv(Source::Any, buf()),
                world.c.recv(Source::Any, buf()),
                world.b.tagged_recv(Source::Any, Tag(1), buf()),
                world.a.tagged_send(world.to_b, Tag(1), buf()),
                world.c.send(world.to_a, buf()),
                world.b.send(world.to_a, buf()),
                world.a.write(world.to_b, &remote, at, bytes(round, 8)),
                world.c.write_data(world.to_b, &remote, at, ImmediateData(at), bytes(round, 8)),
                world.a.read(world.to_b, &remote, 0, bytes(0, 64)),
            ];
            let refused = posts.map(|post| post.map_err(|rejected| rejected.error));
            let _ = write!(told, "{round}: {refused:?}");
            for side in [&world.a, &world.b, &world.c] {
                for _ in 0..3 {
                    match side.cq().poll() {
                        Ok(Some(loom_core::completion::Completion::Op(done))) => {
                            let _ = write!(told, "{:?} {:?}", done.result(), done.buf());
                        }
                        other => {
                            let _ = write!(told, "{other:?}");
                        }
                    }
                }
            }
            told.push('\n');
        }
        injected = world.injected();
    });
    (told, injected)
}

/// A plan for each seed.
type Plans = fn(u64) -> Plan;

fn plans() -> Vec<(&'static str, Plans)> {
    vec![
        ("refuse", |seed| Plan { refuse: Every::About(4), ..Plan::new(seed) }),
        ("delay", |seed| Plan { delay: 5, ..Plan::new(seed) }),
        ("reorder", |seed| Plan { reorder: 5, ..Plan::new(seed) }),
        ("fail", |seed| Plan { fail: Every::About(4), ..Plan::new(seed) }),
        ("lose", |seed| Plan { lose: Every::About(4), ..Plan::new(seed) }),
        ("overrun", |seed| Plan { overrun: Every::About(40), ..Plan::new(seed) }),
        ("kill", |seed| Plan { kill: Every::About(40), ..Plan::new(seed) }),
        ("everything", |seed| {
            let often =
                Plan { refuse: Every::About(9), delay: 3, reorder: 3, fail: Every::About(20), ..Plan::new(seed) };
            Plan { lose: Every::About(30), overrun: Every::About(300), kill: Every::About(400), ..often }
        }),
    ]
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another_one() {
    for (name, plan) in plans() {
        let runs: Vec<_> = (0..8).map(|seed| run(plan(seed))).collect();
        for (seed, first) in (0..).zip(&runs) {
            assert!(*first == run(plan(seed)), "{name}, seed {seed}");
            assert!(first.1.total() > 0, "{name}, seed {seed}: nothing went wrong");
        }
        let differ = runs.iter().enumerate().filter(|(at, run)| !runs[..*at].contains(run)).count();
        assert!(differ > 6, "{name}: {differ} of 8 seeds differ");
    }
}

#[test]
fn seed_without_faults_has_no_effect() {
    let (first, injected) = run(Plan::new(1));
    assert!(first == run(Plan::new(2)).0);
    assert_eq!(injected, Injected::default());
}
