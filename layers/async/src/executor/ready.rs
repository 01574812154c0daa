//! [`Ready`]: the woken tasks, as a lock-free list of nodes.
//!
//! Any thread pushes a node. The executor swaps out the whole list and reverses it, which excludes
//! ABA.
//!
//! # Rules
//! 1. The thread that changes a node's state from idle to woken pushes it, and owns its link until
//!    then.
//! 2. The link of a pushed node belongs to the executor once it has taken the list.
//! 3. The executor makes a node idle before it polls the task, which answers earlier wake-ups.
//!    Later ones push the node again, so wake-ups are not lost.

use crate::sync::{AtomicU32, Ordering};

pub(crate) const NIL: u32 = u32::MAX;

const IDLE: u32 = 0;
const WOKEN: u32 = 1;

#[derive(Debug)]
pub(crate) struct Ready(AtomicU32);

#[derive(Debug)]
pub(crate) struct Node {
    index: u32,
    state: AtomicU32,
    after: AtomicU32,
}

impl Node {
    pub(crate) fn new(index: u32) -> Self {
        Node { index, state: AtomicU32::new(IDLE), after: AtomicU32::new(NIL) }
    }

    #[inline]
    pub(crate) const fn index(&self) -> u32 {
        self.index
    }

    #[inline]
    pub(crate) fn leave(&self) -> u32 {
        let after = self.after.load(Ordering::Relaxed);
        // Acquire: pairs with wake-ups that did not push the woken node, so the poll sees their
        // writes. Release: the link is read before the next waker writes it.
        self.state.swap(IDLE, Ordering::AcqRel);
        after
    }
}

impl Ready {
    pub(crate) fn new() -> Self {
        Ready(AtomicU32::new(NIL))
    }

    #[inline]
    pub(crate) fn wake(&self, node: &Node) {
        // Release: the task's next poll sees the waker's writes. Acquire: the link now belongs to
        // this thread.
        if node.state.swap(WOKEN, Ordering::AcqRel) == IDLE {
            self.push(node);
        }
    }

    /// Rule 1.
    #[inline]
    fn push(&self, node: &Node) {
        let mut first = self.0.load(Ordering::Relaxed);
        loop {
            node.after.store(first, Ordering::Relaxed);
            // Release: publishes the link. Later pushes continue the release sequence, so one
            // acquire covers all nodes.
            match self.0.compare_exchange_weak(first, node.index, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => first = seen,
            }
        }
    }

    #[inline]
    pub(crate) fn take(&self, nodes: &[Node]) -> u32 {
        // May be stale. The next round loads again.
        if self.0.load(Ordering::Relaxed) == NIL { NIL } else { self.take_all(nodes) }
    }

    #[inline]
    fn take_all(&self, nodes: &[Node]) -> u32 {
        // Acquire: pairs with the pushes.
        let mut newest = self.0.swap(NIL, Ordering::Acquire);
        let mut oldest = NIL;
        while let Some(node) = nodes.get(newest as usize) {
            let before = node.after.load(Ordering::Relaxed);
            node.after.store(oldest, Ordering::Relaxed);
            oldest = newest;
            newest = before;
        }
        oldest
    }
}

#[cfg(all(test, loom_model))]
mod model;

#[cfg(all(test, not(loom_model)))]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn nodes(count: u32) -> Vec<Node> {
        (0..count).map(Node::new).collect()
    }

    fn taken(ready: &Ready, nodes: &[Node]) -> Vec<u32> {
        let mut at = ready.take(nodes);
        let mut order = Vec::new();
        while let Some(node) = nodes.get(at as usize) {
            order.push(at);
            at = node.leave();
        }
        order
    }

    #[test]
    fn nodes_come_out_in_the_order_in_which_they_were_woken_and_once() {
        let (ready, nodes) = (Ready::new(), nodes(4));
        assert_eq!(taken(&ready, &nodes), []);
        for index in [2, 0, 2, 3, 0] {
            ready.wake(&nodes[index]);
        }
        assert_eq!(taken(&ready, &nodes), [2, 0, 3]);
        assert_eq!(taken(&ready, &nodes), []);
    }

    #[test]
    fn node_that_is_woken_after_it_was_taken_out_is_in_the_next_list() {
        let (ready, nodes) = (Ready::new(), nodes(2));
        ready.wake(&nodes[0]);
        ready.wake(&nodes[1]);
        let first = ready.take(&nodes);
        assert_eq!((first, nodes[0].leave()), (0, 1));
        ready.wake(&nodes[0]);
        ready.wake(&nodes[1]);
        assert_eq!(nodes[1].leave(), NIL);
        assert_eq!(taken(&ready, &nodes), [0]);
    }
}
