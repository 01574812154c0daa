//! Wakers write relaxed flags, which only the list orders: every wake-up leads to a poll that sees
//! them.

#![allow(clippy::unwrap_used, reason = "tests: they use `std`, and fail by panicking")]

use std::vec::Vec;

use loom::sync::Arc;
use loom::thread;

use super::{IDLE, NIL, Node, Ready, WOKEN};
use crate::sync::{AtomicU32, Ordering};

struct World {
    ready: Ready,
    nodes: [Node; 2],
    done: [AtomicU32; 2],
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            ready: Ready::new(),
            nodes: [Node::new(0), Node::new(1)],
            done: [AtomicU32::new(0), AtomicU32::new(0)],
        })
    }

    fn wake(&self, task: usize, bit: u32, wake: fn(&Ready, &Node)) {
        self.done[task].fetch_or(bit, Ordering::Relaxed);
        wake(&self.ready, &self.nodes[task]);
    }

    /// Omits the first load of [`Ready::take`], after which the checker skips some orders of
    /// visibility.
    fn round(&self, leave: fn(&Node) -> u32, mut poll: impl FnMut(usize, u32)) {
        let mut at = self.ready.take_all(&self.nodes);
        let mut polls = 0;
        while let Some(node) = self.nodes.get(at as usize) {
            let task = at as usize;
            at = leave(node);
            poll(task, self.done[task].load(Ordering::Relaxed));
            polls += 1;
            assert!(polls <= self.nodes.len(), "a node is in the list twice");
        }
    }
}

fn wake(ready: &Ready, node: &Node) {
    ready.wake(node);
}

fn woken_by_two(wake: fn(&Ready, &Node), leave: fn(&Node) -> u32) {
    loom::model(move || {
        let world = World::new();
        let threads: Vec<_> = [1, 2]
            .map(|bit| {
                let world = world.clone();
                thread::spawn(move || world.wake(0, bit, wake))
            })
            .into();
        let mut seen = 0;
        world.round(leave, |_, done| seen = done);
        for thread in threads {
            thread.join().unwrap();
        }
        world.round(leave, |_, done| seen = done);
        assert_eq!(seen, 3, "a wake-up was lost");
    });
}

fn woken_while_polled(wake: fn(&Ready, &Node), leave: fn(&Node) -> u32) {
    loom::model(move || {
        let world = World::new();
        let over = Arc::new(AtomicU32::new(0));
        let other = thread::spawn({
            let (world, over) = (world.clone(), over.clone());
            move || {
                world.wake(0, 2, wake);
                over.store(1, Ordering::Relaxed);
            }
        });
        world.wake(0, 1, wake);
        let is_over = over.load(Ordering::Relaxed) == 1;
        let mut seen = 0;
        world.round(leave, |_, done| seen = done);
        if is_over {
            assert_eq!(seen, 3, "a wake-up was lost");
        }
        other.join().unwrap();
        world.round(leave, |_, done| seen = done);
        assert_eq!(seen, 3, "a wake-up was lost");
    });
}

#[test]
fn model_two_threads_that_wake_a_task_both_take_effect() {
    woken_by_two(wake, Node::leave);
}

#[test]
fn model_wake_up_of_a_node_that_is_woken_is_seen_by_its_poll() {
    woken_while_polled(wake, Node::leave);
}

#[test]
fn model_two_tasks_are_woken_while_the_list_is_taken() {
    loom::model(|| {
        let world = World::new();
        let threads: Vec<_> = [0, 1]
            .map(|task| {
                let world = world.clone();
                thread::spawn(move || world.wake(task, 1, wake))
            })
            .into();
        let mut polls = [0; 2];
        world.round(Node::leave, |task, done| polls[task] += done);
        for thread in threads {
            thread.join().unwrap();
        }
        world.round(Node::leave, |task, done| polls[task] += done);
        assert_eq!(polls, [1, 1]);
    });
}

#[test]
fn model_stale_waker_takes_no_wake_up_from_the_next_task_of_the_place() {
    loom::model(|| {
        let world = World::new();
        let stale = thread::spawn({
            let world = world.clone();
            move || wake(&world.ready, &world.nodes[0])
        });
        world.round(Node::leave, |_, _| {});
        world.wake(0, 1, wake);
        let mut seen = 0;
        world.round(Node::leave, |_, done| seen = done);
        stale.join().unwrap();
        world.round(Node::leave, |_, done| seen = done);
        assert_eq!(seen, 1, "the new task was not polled");
        assert_eq!(world.ready.take(&world.nodes), NIL);
    });
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn model_control_a_node_that_is_made_idle_after_the_poll() {
    loom::model(|| {
        let world = World::new();
        let other = thread::spawn({
            let world = world.clone();
            move || world.wake(0, 2, wake)
        });
        world.wake(0, 1, wake);
        let mut seen = 0;
        if world.ready.take(&world.nodes) == 0 {
            seen = world.done[0].load(Ordering::Relaxed);
            world.nodes[0].leave();
        }
        other.join().unwrap();
        if world.ready.take(&world.nodes) == 0 {
            seen = world.done[0].load(Ordering::Relaxed);
        }
        assert_eq!(seen, 3, "a wake-up was lost");
    });
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn model_control_a_wake_up_without_release() {
    woken_while_polled(
        |ready, node| {
            if node.state.swap(WOKEN, Ordering::Acquire) == IDLE {
                ready.push(node);
            }
        },
        Node::leave,
    );
}

#[test]
#[should_panic(expected = "a wake-up was lost")]
fn model_control_a_poll_without_acquire() {
    woken_while_polled(wake, |node| {
        let after = node.after.load(Ordering::Relaxed);
        node.state.swap(IDLE, Ordering::Release);
        after
    });
}

#[test]
#[should_panic(expected = "a node is in the list twice")]
fn model_control_a_wake_up_that_always_pushes() {
    woken_by_two(|ready, node| ready.push(node), Node::leave);
}
