//! Stories of tasks over a driven queue, with an oracle.
//!
//! Invariants:
//! - a task that can continue is woken: once the world is quiet, an extra poll makes no progress
//! - messages arrive once, unchanged and in order, additions are sequential, and each write is
//!   reported once
//! - each buffer is dropped once, after its operation has completed
//! - afterwards the queue and the executor have all slots free

#![allow(clippy::cast_possible_truncation, clippy::unwrap_used, reason = "tests")]

mod book;
mod step;
mod tasks;

use core::cell::{Cell, RefCell};
use core::task::Waker;
use std::rc::Rc;

use arbitrary::Unstructured;
use loom_async::{LocalExecutor, TaskId};
use loom_core::atomic::FetchOp;
use loom_core::completion::Completion;
use loom_core::driver::{CqDriver, Drive, Unclaimed};
use loom_core::endpoint::Source;
use loom_core::error::PostError;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::{Access, Av, Binding, Cq, Domain, Mr};

use self::book::Book;
use self::step::{Setting, Step};
use self::tasks::{At, Card, Ground, Idle, Watched};
use crate::memory::{Memory, assert_dropped_once, begin};

pub const EAGER: usize = 64;
/// Maximum length of messages and receives.
pub const LONGEST: usize = 200;

const DEPTH: usize = 6;
const PLACES: usize = 5;
const MOST_STEPS: usize = 150;
/// Number of quiet rounds of a settled world. Delayed messages and refused posts need several.
const QUIET: u32 = 40;

const ATTR: NetworkAttr = NetworkAttr {
    endpoints: 3,
    tx_depth: 16,
    rx_depth: 16,
    eager_size: EAGER as u32,
    regions: 1,
    ..NetworkAttr::DEFAULT
};

struct Task {
    id: TaskId,
    card: Rc<Card>,
}

struct World<'g> {
    ground: &'g Ground,
    executor: LocalExecutor<Watched<'g>>,
    tasks: Vec<Task>,
    wakers: Vec<Waker>,
}

pub fn play(data: &[u8]) -> usize {
    let mut bytes = Unstructured::new(data);
    let Ok(setting) = bytes.arbitrary::<Setting>() else { return 0 };
    begin();
    let network = Network::new(ATTR).unwrap();
    let domain = Domain::open(&network.info_with_faults(setting.faults.plan(setting.seed.into()))).unwrap();
    let (av, cq) = (Av::open(&domain, 4).unwrap(), Cq::<_, Memory>::open(&domain, DEPTH).unwrap());
    let region = Mr::open(&domain, vec![0; 16], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
    let endpoints = [(); 2].map(|()| cq.endpoint(&av).unwrap());
    let [first, second] = endpoints.each_ref().map(|endpoint| av.insert(&endpoint.address().unwrap()).unwrap());
    let unclaimed = if setting.keeps { Unclaimed::Keep } else { Unclaimed::Drop };
    let ground = Ground {
        setting,
        driver: CqDriver::open(&cq, unclaimed).unwrap(),
        endpoints: RefCell::new(endpoints.map(Some)),
        peers: [second, first],
        remote: region.remote(),
        add: domain.query_atomic(FetchOp::<u64>::SUM).unwrap(),
        book: RefCell::new(Book::new(setting)),
        published: Cell::new(None),
    };

    let mut world = World::new(&ground);
    let mut steps = 0;
    while !bytes.is_empty()
        && steps < MOST_STEPS
        && let Ok(step) = bytes.arbitrary()
    {
        world.play(step);
        steps += 1;
    }
    world.end();

    assert!(setting.forgets || cq.in_flight() == 0, "what was given up was given back");
    let Ground { driver, book, .. } = ground;
    drop(driver);
    while let Some(completion) = cq.poll().unwrap() {
        match completion {
            Completion::Op(done) => book.borrow_mut().done(done),
            Completion::Peek(_) | Completion::Remote(_) | Completion::Value(_) => {}
            other => panic!("nobody posted for {other:?}"),
        }
    }
    assert_eq!(cq.in_flight(), 0);
    let memory = region.close().unwrap();
    let total = u64::from_ne_bytes(*memory.first_chunk().unwrap());
    book.into_inner().check_end(total);
    assert_dropped_once();

    let sound = network.info();
    let endpoint = cq.endpoint(Binding::to(&av).info(sound.clone())).unwrap();
    for _ in 0..DEPTH {
        endpoint.recv(Source::Any, Memory::new(&[0])).expect("there is room");
    }
    assert_eq!(endpoint.recv(Source::Any, Memory::new(&[0])).unwrap_err().error, PostError::Full);
    drop(endpoint);
    while let Some(Completion::Op(done)) = cq.poll().unwrap() {
        drop(done);
    }
    assert_dropped_once();
    steps
}

impl<'g> World<'g> {
    fn new(ground: &'g Ground) -> Self {
        let executor = LocalExecutor::new(PLACES).unwrap();
        World { ground, executor, tasks: Vec::new(), wakers: Vec::new() }
    }

    fn play(&mut self, step: Step) {
        let driver = &self.ground.driver;
        match step {
            Step::Spawn { jobs, count } => {
                let card = Card::new();
                let jobs = jobs[..1 + usize::from(count) % jobs.len()].to_vec();
                let task = Watched::new(card.clone(), self.ground.play(card.clone(), jobs));
                let full = self.tasks.len() == PLACES;
                match self.executor.spawn(task) {
                    Ok(id) => self.tasks.push(Task { id, card }),
                    Err(_) => assert!(full, "there is a place"),
                }
                assert!(self.tasks.len() <= PLACES);
            }
            Step::Drop { nth, within } => {
                let Some(nth) = usize::from(nth).checked_rem(self.tasks.len()) else { return };
                self.drop_task(nth, within);
            }
            Step::Round { drives: true } => {
                self.executor.set_budget(3);
                self.executor.round(driver);
            }
            Step::Round { drives: false } => {
                self.executor.round(&Idle);
            }
            Step::Turn { budget } => {
                driver.turn(usize::from(budget) % 8);
            }
            Step::TakeUnclaimed => {
                self.take_unclaimed();
            }
            Step::TakeEvent => {
                self.take_event();
            }
            Step::Wake { nth } => {
                if let Some(nth) = usize::from(nth).checked_rem(self.wakers.len()) {
                    self.wakers[nth].wake_by_ref();
                }
            }
        }
        self.look();
    }

    fn drop_task(&mut self, nth: usize, within: bool) {
        let Task { id, card } = &self.tasks[nth];
        if within {
            card.ends.set(true);
            // A task that was never polled needs no wake.
            if let Some(waker) = &*card.waker.borrow() {
                waker.wake_by_ref();
            }
        } else {
            assert!(self.executor.cancel(*id), "it was there");
            assert_eq!(card.at.get(), At::Over);
        }
    }

    fn take_unclaimed(&self) -> bool {
        let done = self.ground.driver.take_unclaimed();
        assert!(done.is_none() || self.ground.setting.keeps);
        done.map(|done| self.ground.book.borrow_mut().done(done)).is_some()
    }

    fn take_event(&self) -> bool {
        self.ground.driver.take_event().map(|event| self.ground.event(event)).is_some()
    }

    fn look(&mut self) {
        self.tasks.retain(|Task { id, card }| {
            self.wakers.extend(card.waker.borrow().as_ref().filter(|_| card.at.get() == At::Over).cloned());
            if let At::End(key) = card.at.get() {
                self.ground.book.borrow().is_lent(key);
            }
            assert_eq!(self.executor.contains(*id), card.at.get() != At::Over);
            card.at.get() != At::Over
        });
        assert_eq!(self.executor.len(), self.tasks.len());
    }

    /// Number of steps without retries of posts.
    fn steps(&self) -> u32 {
        self.tasks.iter().map(|task| task.card.steps.get()).sum()
    }

    fn waiting(&self) -> Vec<(At, u32)> {
        self.tasks.iter().map(|Task { card, .. }| (card.at.get(), card.steps.get())).collect()
    }

    fn waits(&self, at: At) -> bool {
        self.tasks.iter().any(|task| task.card.at.get() == at)
    }

    fn settle(&mut self) {
        let (mut quiet, mut rounds) = (0, 0);
        while quiet < QUIET {
            rounds += 1;
            assert!(rounds < 10_000, "it does not end");
            let (tasks, steps) = (self.tasks.len(), self.steps());
            let events = self.executor.round(&self.ground.driver).events;
            self.executor.round(&Idle);
            let quietly = (tasks, steps) == (self.tasks.len(), self.steps()) && events == 0;
            self.look();
            let taken = !self.ground.setting.forgets
                && ((!self.waits(At::Event) && self.take_event())
                    | (!self.waits(At::Unclaimed) && self.take_unclaimed()));
            quiet = if quietly && !taken { quiet + 1 } else { 0 };
        }
        let before = self.waiting();
        for Task { card, .. } in &self.tasks {
            card.waker.borrow().as_ref().expect("it was polled").wake_by_ref();
        }
        self.executor.round(&Idle);
        assert_eq!(before, self.waiting(), "a task can go on, and was not woken");
        self.look();
    }

    fn check_tries(&self) {
        let cq = self.ground.driver.cq();
        let full = cq.in_flight() == cq.capacity();
        let tries: Vec<u32> = self.tasks.iter().map(|task| task.card.tries.get()).collect();
        for _ in 0..2 * PLACES {
            self.executor.round(&self.ground.driver);
        }
        self.executor.round(&Idle);
        let waits = self.tasks.iter().zip(tries).filter(|(task, _)| task.card.at.get() == At::Room);
        let (tried, untried): (Vec<_>, Vec<_>) = waits.partition(|(task, tries)| task.card.tries.get() > *tries);
        assert!(untried.is_empty() || full && tried.is_empty(), "a post is not tried again");
    }

    fn end(mut self) {
        let Ground { setting, book, .. } = self.ground;
        self.settle();
        self.check_tries();
        self.settle();
        book.borrow().check_settled();
        if setting.faults.keep_promises() {
            for Task { card, .. } in &self.tasks {
                if let At::End(key) | At::Joined(key) = card.at.get() {
                    let book = book.borrow();
                    let op = book.op(key).expect("it was posted");
                    assert!(op.may_take_long() && op.end.is_none(), "a task waits for {op:?}, which is over");
                }
            }
        }

        book.borrow_mut().closing = true;
        let open = self.ground.endpoints.take();
        drop(open);
        self.settle();
        for at in self.tasks.iter().map(|task| task.card.at.get()) {
            assert!(matches!(at, At::Event | At::Unclaimed), "a task waits at {at:?}, and all endpoints are closed");
        }
        for nth in 0..self.tasks.len() {
            self.drop_task(nth, nth % 2 == 0);
        }
        self.settle();
        assert!(self.tasks.is_empty());

        for _ in 0..PLACES {
            assert!(self.executor.spawn(Watched::new(Card::new(), async {})).is_ok());
        }
        assert!(self.executor.spawn(Watched::new(Card::new(), async {})).is_err());
        assert_eq!(self.executor.round(&Idle).polled, PLACES);
        assert!(self.executor.is_empty());
    }
}
