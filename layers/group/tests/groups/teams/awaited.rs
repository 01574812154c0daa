//! Several members on one thread, each with its own driver, and tasks polled only when woken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use loom_core::cq::CqError;
use loom_core::driver::{CqDriver, Drive, Unclaimed};
use loom_core::soft::{Every, Plan};
use loom_group::CollectiveError;
use loom_group::collective::{Sum, TeamAttr};

use crate::teams::counted::Counted;
use crate::teams::world::{FINE, Group, Members, Side, Size, groups, harmless, teams};

type Driver = CqDriver<'static, Side, Counted>;
type Task<'t> = Pin<Box<dyn Future<Output = ()> + 't>>;

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn run(drivers: &[Driver], tasks: &mut Vec<(Task<'_>, Arc<Woken>)>, turns: usize) -> bool {
    for _ in 0..turns {
        tasks.retain_mut(|(task, woken)| {
            !woken.0.swap(false, Ordering::Relaxed)
                || task.as_mut().poll(&mut Context::from_waker(&Waker::from(woken.clone()))) == Poll::Pending
        });
        if tasks.is_empty() {
            return true;
        }
        drivers.iter().for_each(|driver| _ = driver.turn(3));
    }
    false
}

fn task<'t>(future: impl Future<Output = ()> + 't) -> (Task<'t>, Arc<Woken>) {
    (Box::pin(future), Arc::new(Woken(AtomicBool::new(true))))
}

fn drivers(groups: &[Group], unclaimed: Unclaimed) -> Vec<Driver> {
    groups.iter().map(|group| CqDriver::open(group.cq(), unclaimed).unwrap()).collect()
}

const ATTR: TeamAttr = TeamAttr::new(1).with_packets(4).with_at_once(2);

async fn sums(team: &Members<'_>, driver: &Driver) {
    let input: Vec<u64> = (0..30).map(|place| place + u64::from(team.rank())).collect();
    let mut output = vec![0; 30];
    team.all_reduce(Sum, &input, &mut output).unwrap().finish(driver).await.unwrap();
    let n = u64::from(team.size());
    assert!((0..30).zip(&output).all(|(place, sum)| *sum == n * place + n * (n - 1) / 2));
}

#[test]
fn collectives_at_once_are_awaited_by_tasks_that_are_woken() {
    for seed in 0..12 {
        let size = Size { depth: 8, tx_depth: if seed < 6 { 32 } else { 4 }, eager: 16, ..Size::new(4) };
        let groups = groups(size, |_| if seed == 0 { FINE } else { harmless(seed) });
        let teams = teams(&groups, &[2, 0, 3, 1], ATTR, 24);
        let by_rank = |rank: usize| [2, 0, 3, 1][rank];
        let drivers = drivers(&groups, Unclaimed::Drop);
        for _ in 0..40 {
            // Tasks are polled in order, so all members begin the same collective first.
            let mut tasks = vec![];
            for (rank, team) in teams.iter().enumerate() {
                tasks.push(task(sums(team, &drivers[by_rank(rank)])));
                tasks.push(task(sums(team, &drivers[by_rank(rank)])));
            }
            assert!(run(&drivers, &mut tasks, 100_000), "seed {seed}");
        }
        assert!(groups.iter().all(|group| group.cq().in_flight() == 0));
    }
}

#[test]
fn collective_can_be_awaited_again_after_its_future_was_dropped() {
    for unclaimed in [Unclaimed::Drop, Unclaimed::Keep] {
        let groups =
            groups(Size { depth: 16, ..Size::new(3) }, |_| Plan { refuse: Every::About(3), delay: 3, ..Plan::new(5) });
        let teams = teams(&groups, &[0, 1, 2], ATTR, 24);
        let drivers = drivers(&groups, unclaimed);
        let inputs: Vec<Vec<u64>> = (0..3).map(|rank| vec![rank + 1; 50]).collect();
        let mut outputs = vec![vec![0; 50]; 3];
        let begun = teams.iter().zip(&inputs).zip(&mut outputs);
        let mut begun: Vec<_> = begun.map(|((team, input), out)| team.all_reduce(Sum, input, out).unwrap()).collect();
        let mut wrong = vec![task(async {
            assert_eq!(begun[0].finish(&drivers[1]).await, Err(CollectiveError::Queue(CqError::UnknownKey)));
        })];
        assert!(run(&drivers, &mut wrong, 1));
        drop(wrong);
        let (mut dropped, mut is_over) = (0, false);
        while !is_over {
            let finish = |(run, driver)| task(finishes(run, driver));
            let mut tasks: Vec<_> = begun.iter_mut().zip(&drivers).map(finish).collect();
            is_over = run(&drivers, &mut tasks, 2);
            dropped += tasks.len();
            assert!(dropped < 10_000);
        }
        assert!(dropped > 3, "futures were dropped in the middle");
        drop(begun);
        assert!(outputs.iter().flatten().all(|sum| *sum == 6));
        assert!(teams.iter().all(|team| !team.is_over()));
        assert!(groups.iter().all(|group| group.cq().in_flight() == 0));
    }
}

async fn finishes(run: &mut crate::teams::world::Run<'_, '_, u64, Sum>, driver: &Driver) {
    run.finish(driver).await.unwrap();
}

#[test]
fn collective_dropped_under_a_driver_leaves_no_operation_in_flight() {
    for unclaimed in [Unclaimed::Drop, Unclaimed::Keep] {
        let groups = groups(Size { depth: 16, ..Size::new(2) }, |_| FINE);
        let teams = teams(&groups, &[0, 1], ATTR, 24);
        let drivers = drivers(&groups, unclaimed);
        let mut tasks = vec![task(sums(&teams[0], &drivers[0]))];
        assert!(!run(&drivers, &mut tasks, 20));
        assert!(groups[0].cq().in_flight() > 0);
        drop(tasks);
        assert!(teams[0].is_over() && teams[0].under_way() == 0);
        let mut back = 0;
        for _ in 0..100 {
            drivers.iter().for_each(|driver| _ = driver.turn(8));
            back += std::iter::from_fn(|| drivers[0].take_unclaimed()).count();
        }
        assert_eq!(groups[0].cq().in_flight(), 0);
        assert_eq!(back > 0, unclaimed == Unclaimed::Keep);
    }
}

#[test]
fn failure_ends_the_future() {
    let groups = groups(Size::new(2), |_| Plan { fail: Every::Nth(3), ..Plan::new(3) });
    let teams = teams(&groups, &[0, 1], ATTR, 24);
    let drivers = drivers(&groups, Unclaimed::Drop);
    let ended = std::cell::Cell::new(0);
    let fails = |rank: usize| {
        let (team, driver, ended) = (&teams[rank], &drivers[rank], &ended);
        async move {
            for _ in 0..10 {
                match team.barrier().unwrap().finish(driver).await {
                    Ok(()) => {}
                    Err(CollectiveError::Operation { member, .. }) => {
                        assert_eq!(member as usize, 1 - rank);
                        ended.set(ended.get() + 1);
                        return;
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    };
    let mut tasks = vec![task(fails(0)), task(fails(1))];
    let _ = run(&drivers, &mut tasks, 1000);
    assert!(ended.get() > 0);
}
