//! Random stories. Tasks wait for operations, under faults, and are dropped at any point. Each
//! buffer is dropped once, and the queue loses no slot.

use loom_core::driver::{Drive, Unclaimed};
use loom_core::soft::{Every, Plan};
use loom_core::{CqAttr, Source, Tag, TagMatch};

use crate::executor::Task;
use crate::memory::{Memory, begin, drops};
use crate::objects::futures::{ATTR, Pair};

const DEPTH: usize = 12;
const TASKS: usize = 16;
const STEPS: usize = 600;

/// Knuth's linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// Results of the tasks of one story.
#[derive(Default)]
struct Tally {
    ended: usize,
    dropped: usize,
    taken_back: usize,
}

/// A task: some operations of one kind, each awaited in one of the ways.
async fn task(pair: &Pair<Memory>, kind: usize, way: usize, len: usize) {
    let Pair { driver, alice, bob, to_bob, .. } = pair;
    let post = |buf| -> Result<_, _> {
        match kind {
            0 => alice.send(*to_bob, buf),
            1 => bob.recv(Source::Any, buf),
            2 => alice.tagged_send(*to_bob, Tag(3), buf),
            _ => bob.tagged_recv(Source::Any, TagMatch::exact(Tag(3)), buf),
        }
    };
    for _ in 0..3 {
        let buf = Memory::new(&vec![u8::try_from(kind).unwrap(); len]);
        match way {
            0 => drop(driver.run(buf, post).await),
            1 => {
                if let Ok(key) = driver.post(buf, post).await {
                    drop(driver.finish(key).await);
                }
            }
            _ => {
                if let Ok(key) = driver.post(buf, post).await {
                    let endpoint = if kind.is_multiple_of(2) { alice } else { bob };
                    drop(driver.finish(key).cancel(endpoint).await);
                }
            }
        }
    }
}

fn play(seed: u64, plan: Plan, unclaimed: Unclaimed) -> Tally {
    begin();
    let mut random = Random(seed);
    let mut tally = Tally::default();
    let pair = Pair::<Memory>::with(ATTR, CqAttr::new(DEPTH), unclaimed, Some(plan));
    let driver = &pair.driver;
    let first = Memory::new(&[]).id;
    let mut tasks: Vec<Task<'_>> = Vec::new();
    for _ in 0..STEPS {
        match random.below(8) {
            0 if tasks.len() < TASKS => {
                let (kind, way) = (random.below(4), random.below(4));
                let len = [0, 8, 64, 300][random.below(4)];
                tasks.push(Task::new(task(&pair, kind, way, len)));
            }
            1 if !tasks.is_empty() => {
                let victim = random.below(tasks.len());
                drop(tasks.swap_remove(victim));
                tally.dropped += 1;
            }
            2 => {
                if let Some(done) = driver.take_unclaimed() {
                    assert_eq!(drops(done.buf().id), 0);
                    tally.taken_back += 1;
                }
            }
            3 | 4 => {
                driver.turn(1 + random.below(4));
            }
            _ => tasks.iter_mut().for_each(|task| {
                task.run();
            }),
        }
        let before = tasks.len();
        tasks.retain(|task| task.future.is_some());
        tally.ended += before - tasks.len();
    }
    drop(tasks);
    // Operations in flight end with their endpoint.
    let Pair { driver, alice, bob, cq, av, domain, .. } = pair;
    drop((alice, bob));
    for _ in 0..200 {
        driver.turn(8);
        while driver.take_unclaimed().is_some() {
            tally.taken_back += 1;
        }
    }
    let end = Memory::new(&[]).id;
    for id in first..end {
        assert_eq!(drops(id), 1, "buffer {id} of {first} to {end}");
    }
    // Every slot of the queue is usable again.
    let carol = cq.endpoint(&av).unwrap();
    // A plan can refuse some of them for the moment, or kill the endpoint.
    let (mut posted, mut alive) = (0, true);
    for _ in 0..20 * DEPTH {
        match carol.recv(Source::Any, Memory::new(&[0])) {
            Ok(_) => posted += 1,
            Err(rejected) => alive &= rejected.error.is_transient(),
        }
    }
    assert!(posted == DEPTH || !alive, "{posted}");
    drop((carol, domain));
    tally
}

#[test]
fn whatever_is_dropped_whenever_loses_no_buffer_and_no_place() {
    let plans: [fn(u64) -> Plan; 4] = [
        Plan::new,
        |seed| Plan { refuse: Every::About(3), delay: 4, ..Plan::new(seed) },
        |seed| Plan { fail: Every::About(5), lose: Every::About(7), refuse: Every::About(4), ..Plan::new(seed) },
        |seed| Plan { kill: Every::About(40), delay: 2, ..Plan::new(seed) },
    ];
    for (number, plan) in plans.into_iter().enumerate() {
        let mut all = Tally::default();
        for seed in 0..60 {
            for unclaimed in [Unclaimed::Drop, Unclaimed::Keep] {
                let tally = play(seed, plan(seed), unclaimed);
                all.ended += tally.ended;
                all.dropped += tally.dropped;
                all.taken_back += tally.taken_back;
            }
        }
        assert!(all.ended > 100 && all.dropped > 100 && all.taken_back > 10, "plan {number} tells too little");
    }
}
