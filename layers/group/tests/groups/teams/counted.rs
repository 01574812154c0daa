use std::cell::Cell;

use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_group::collective::{Packet, TeamAttr};
use loom_group::schedule::{Switch, Table};

use crate::teams::calls::{Call, KINDS};
use crate::teams::world::{FINE, Size, groups, teams};

thread_local! {
    static LENT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

pub(crate) struct Counted(Vec<u8>);

impl Counted {
    pub(crate) fn new(capacity: usize) -> Self {
        Counted(Vec::with_capacity(capacity))
    }

    pub(crate) fn addr(&self) -> usize {
        self.0.as_ptr().addr()
    }
}

// SAFETY: the vector keeps the contract of `lend`, and `Counted` keeps the vector.
unsafe impl Buffer for Counted {
    fn lend(&mut self) -> Lent {
        let (times, bytes) = LENT.get();
        LENT.set((times + 1, bytes + self.0.len() as u64));
        self.0.lend()
    }
}

impl SourceBuffer for Counted {}
impl TargetBuffer for Counted {}

impl Packet for Counted {
    fn most(&self) -> usize {
        self.0.most()
    }

    fn sized(&mut self, len: usize) -> &mut [u8] {
        self.0.sized(len)
    }
}

/// Sender and receiver lend each message.
#[test]
fn team_sends_the_messages_and_bytes_of_its_algorithms() {
    for n in [1, 2, 3, 5, 8, 13, 32, 33] {
        let groups = groups(Size::new(n), |_| FINE);
        let ranks: Vec<u32> = (0..n).collect();
        for switch in [Switch::ALWAYS, Switch::NEVER] {
            let table = Table::of(switch);
            let teams = teams(&groups, &ranks, TeamAttr::new(1).with_packets(4).with_table(table), 8192);
            for (number, kind) in (0..).zip(KINDS) {
                // Fewer collectives than the team runs before its own barrier.
                for (count, seed) in [(0, 0), (1, 6), (n as usize + 3, 1), (5, 2)] {
                    let call = Call::new(kind, n, count, seed + 6 * number);
                    LENT.set((0, 0));
                    crate::teams::calls::check(&teams, &call);
                    let (messages, bytes) = call.sends(&table);
                    assert_eq!(LENT.get(), (2 * messages, 2 * bytes), "{call:?}");
                }
            }
        }
    }
}
