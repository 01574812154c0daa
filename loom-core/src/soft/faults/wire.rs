//! Messages that are delayed: they wait with their receiver, in a second inbox and then in a list of its own.

use super::super::cell::MessageCell;
use super::super::endpoint_state::EndpointState;
use super::super::list::NIL;
use super::super::network::Net;
use crate::sync::Ordering;
use crate::vocabulary::Errno;

impl Net {
    /// Sends a message that arrives after so many looks of the receiver.
    #[cold]
    #[inline(never)]
    pub(in crate::soft) fn push_late(
        &self,
        (port, generation): (&EndpointState, u32),
        head: &MessageCell,
        looks: u32,
    ) -> Result<(), Errno> {
        head.looks.set(looks);
        let sender = self.owner_of(head);
        if !port.wire.push(generation, head.number, &head.link) {
            return Err(Errno::EHOSTUNREACH);
        }
        if looks > 0 {
            sender.own().faults().tally.delayed();
        }
        // So that it looks.
        port.revocations.tell();
        Ok(())
    }

    /// A receiver looks at what is on its way to it, and takes what has arrived: behind what waits to be delivered.
    #[cold]
    #[inline(never)]
    pub(in crate::soft) fn unload(&self, port: &EndpointState) {
        let own = port.own();
        let newest = port.wire.take(own.generation());
        if newest != NIL {
            self.append(&own.faults().held, self.oldest_first(newest));
        }
        let mut cell = own.faults().held.replace(NIL);
        while cell != NIL {
            let head = self.cell(cell);
            let next = head.link.load(Ordering::Relaxed);
            head.link.store(NIL, Ordering::Relaxed);
            let left = head.looks.get();
            head.looks.set(left.saturating_sub(1));
            // None overtakes another of its sender.
            let waits = left > 0 || self.holds_of(own.faults().held.get(), head.message.from.get());
            self.append(if waits { &own.faults().held } else { &own.backlog }, cell);
            cell = next;
        }
        if own.faults().held.get() != NIL {
            // The next poll looks again.
            port.revocations.tell();
        }
    }

    /// Whether one of these is a sender's.
    fn holds_of(&self, mut cell: u32, from: u64) -> bool {
        while cell != NIL {
            let head = self.cell(cell);
            if head.message.from.get() == from {
                return true;
            }
            cell = head.link.load(Ordering::Relaxed);
        }
        false
    }

    /// Appends cells that are linked to others that are.
    fn append(&self, list: &core::cell::Cell<u32>, cells: u32) {
        if list.get() == NIL {
            return list.set(cells);
        }
        let mut last = self.cell(list.get());
        loop {
            match last.link.load(Ordering::Relaxed) {
                NIL => return last.link.store(cells, Ordering::Relaxed),
                next => last = self.cell(next),
            }
        }
    }
}
