//! [`Ready`]: the tasks that were woken, as a lock-free list through the tasks' nodes.
//!
//! Any thread pushes with compare-and-swap; the executor takes the list whole with one swap and turns it round, so there is no ABA
//! and tasks come out in the order in which they were woken. A node is in the list at most once: its state says whether it is.
//!
//! No thread waits for another one. But a thread that is preempted between marking a node and pushing it delays the next poll of this one task until it
//! runs again, also if other threads wake the task meanwhile. Other tasks are not delayed.
//!
//! # Rules
//! 1. Who changes a node's state from idle to woken pushes the node, and owns its link until then.
//! 2. A pushed node's link belongs to the executor as soon as the executor has taken the list.
//! 3. The executor makes a node idle before it polls the task. A wake-up before that is answered by this poll, a wake-up after that pushes
//!    the node again. So no wake-up is lost.

use crate::sync::{AtomicU32, Ordering};

/// No node.
pub(crate) const NIL: u32 = u32::MAX;

/// States of a node.
const IDLE: u32 = 0;
const WOKEN: u32 = 1;

/// The list of tasks that were woken, newest first.
#[derive(Debug)]
pub(crate) struct Ready(AtomicU32);

/// What a waker points to: a task's place in the list.
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

    /// Takes the node, which the executor has taken with a list, out of that; says which node is next.
    #[inline]
    pub(crate) fn leave(&self) -> u32 {
        let after = self.after.load(Ordering::Relaxed);
        // Acquire: pairs with the wake-ups that found the node woken and did not push it; the poll sees what they tell of.
        // Release: the link was read before the next waker writes it.
        self.state.swap(IDLE, Ordering::AcqRel);
        after
    }
}

impl Ready {
    pub(crate) fn new() -> Self {
        Ready(AtomicU32::new(NIL))
    }

    /// Wakes a task. Any thread may.
    #[inline]
    pub(crate) fn wake(&self, node: &Node) {
        // Release: the task's next poll sees what its waker did before. Acquire: the link belongs to this thread now.
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
            // Release: publishes the link. A later push continues this one's release sequence, so one acquire covers every node.
            match self.0.compare_exchange_weak(first, node.index, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => first = seen,
            }
        }
    }

    /// Takes all nodes, and links them oldest first. Returns the first. For the executor alone.
    #[inline]
    pub(crate) fn take(&self, nodes: &[Node]) -> u32 {
        // Nothing is lost where this is out of date: the next round looks again.
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
        // This one has not left: the poll that is still to come answers.
        ready.wake(&nodes[1]);
        assert_eq!(nodes[1].leave(), NIL);
        assert_eq!(taken(&ready, &nodes), [0]);
    }
}
