//! Models of groups.

use loom::sync::Arc;
use loom::thread;

use super::Plain;
use crate::soft::network::group::{Args, Group, Member, Usable};
use crate::soft::shared::copy::NOTHING;
use crate::transport::CollectiveCall;
use crate::util::sync::spin_loop;
use crate::vocabulary::Errno;

struct Two {
    group: Group,
    members: [Member; 2],
    lent: [Plain; 2],
}

#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    BreakingOff,
    Beginning,
}

impl Two {
    fn new() -> Arc<Self> {
        let two = Two { group: Group::new(), members: [(); 2].map(|()| Member::new()), lent: [0, 0].map(Plain::new) };
        two.group.found(2, 0);
        for member in &two.members {
            member.assign(0);
        }
        two.group.open();
        Arc::new(two)
    }

    fn call(&self, rank: usize, round: u32, without: Without) {
        self.lent[rank].write(10 + round);
        let operation = CollectiveCall { collective: crate::collective::Collective::BARRIER, count: 0, root: 0 };
        let args =
            Args { operation, operands: NOTHING, results: NOTHING, context: (10 * rank) as u64 + u64::from(round) };
        self.members[rank].call(round).make(args);
        if !self.group.arrive(round) || without != Without::Beginning && !self.group.begin(round) {
            return;
        }
        for (rank, (lent, member)) in self.lent.iter().zip(&self.members).enumerate() {
            assert_eq!(member.call(round).args().context, (10 * rank) as u64 + u64::from(round));
            assert_eq!(lent.read(), 10 + round);
            lent.write(20 + round);
        }
        for member in &self.members {
            member.call(round).finish(Ok(()));
        }
        if without != Without::Beginning {
            self.group.end();
        }
    }

    fn end(&self, rank: usize, round: u32) -> Result<(), Errno> {
        loop {
            let is_broken = self.group.usable() == Usable::NoMore;
            let call = self.members[rank].call(round);
            let result = match call.result() {
                None if is_broken => Err(Errno::ECONNRESET),
                None => {
                    spin_loop();
                    continue;
                }
                Some(result) => result,
            };
            call.clear();
            assert_eq!(self.lent[rank].read(), if result.is_ok() { 20 + round } else { 10 + round });
            self.lent[rank].write(0);
            return result;
        }
    }

    fn leave(&self, rank: usize, round: u32, without: Without) {
        if without != Without::BreakingOff {
            self.group.break_off();
            let _ = self.end(rank, round);
        } else {
            self.lent[rank].write(0);
        }
    }
}

fn one_goes(without: Without) {
    loom::model(move || {
        let two = Two::new();
        let other = {
            let two = two.clone();
            thread::spawn(move || {
                two.call(1, 0, without);
                two.leave(1, 0, without);
            })
        };
        two.call(0, 0, without);
        let _ = two.end(0, 0);
        other.join().unwrap();
    });
}

#[test]
fn buffer_of_a_member_is_not_accessed_after_it_leaves() {
    one_goes(Without::Nothing);
}

#[test]
fn members_that_call_twice_run_both_in_order() {
    loom::model(|| {
        let two = Two::new();
        let calls = |two: &Two, rank: usize| {
            for round in 0..2 {
                two.call(rank, round, Without::Nothing);
                assert_eq!(two.end(rank, round), Ok(()));
            }
        };
        let other = {
            let two = two.clone();
            thread::spawn(move || calls(&two, 1))
        };
        calls(&two, 0);
        other.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn control_a_member_that_goes_without_breaking_the_group_off_is_found() {
    one_goes(Without::BreakingOff);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn control_an_operation_that_runs_in_a_broken_group_is_found() {
    one_goes(Without::Beginning);
}
