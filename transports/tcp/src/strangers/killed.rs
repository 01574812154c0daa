//! Processes with shared memory that are killed at any moment.

use core::ops::Range;
use core::time::Duration;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::string::String;
use std::time::Instant;
use std::vec;
use std::vec::Vec;
use std::{env, println};

use loom_core::{Deadline, OpKey, Peer, Source};

use super::shared::mappings;
use super::sides::{LIMIT, Node, Random, SMALL, pattern};
use crate::TcpAttr;

/// A ring of a length that no other test has.
const RING: u32 = 1 << 17;
const LENGTHS: Range<usize> = 2 * RING as usize..3 * RING as usize;
const SHARING: TcpAttr = TcpAttr { shared_memory: RING, connect_timeout: 5000, ..SMALL };
const LONGEST: usize = 40_000;
/// Operations of each kind in flight.
const WINDOW: usize = 8;
/// Address of the node of the process that kills.
const KILLER: &str = "LOOM_KILLER";
/// Number of processes, for longer runs.
const KILLS: &str = "LOOM_KILLS";

/// Mostly short, as messages are.
fn len_of_next(random: &mut Random) -> usize {
    let longest = [64, 64, 1000, LONGEST as u64][random.below(4) as usize];
    random.below(longest) as usize
}

/// Messages in both directions, with a pattern of their length.
#[derive(Default)]
struct Traffic {
    sends: Vec<OpKey>,
    receives: Vec<OpKey>,
    received: usize,
    failed: usize,
}

impl Traffic {
    fn go_on(&mut self, node: &Node, to: Peer, random: &mut Random) {
        if self.sends.len() < WINDOW {
            let len = len_of_next(random);
            self.sends.extend(node.endpoint.send(to, pattern(len, len)).ok());
        }
        self.receive(node);
    }

    fn receive(&mut self, node: &Node) {
        while self.receives.len() < WINDOW {
            let room = vec![0; LONGEST];
            self.receives.push(node.endpoint.recv(Source::Any, room).expect("posted"));
        }
        self.poll(node);
    }

    fn poll(&mut self, node: &Node) {
        node.poll();
        self.sends.retain(|key| !is_over(node, *key, |_, result| self.failed += usize::from(result.is_none())));
        self.receives.retain(|key| {
            !is_over(node, *key, |bytes, result| {
                let Some(len) = result else { return };
                assert!(bytes[..len] == pattern(len, len), "{len} bytes");
                self.received += 1;
            })
        });
    }
}

/// Returns `true` if an operation is over, with its buffer and, of a success, its length.
fn is_over(node: &Node, key: OpKey, then: impl FnOnce(&[u8], Option<usize>)) -> bool {
    if node.cq.has_succeeded(key).expect("a known key").is_none() {
        return false;
    }
    let (bytes, result) = node.cq.finish(key, Instant::now() + LIMIT).expect("over").into_parts();
    then(&bytes, result.ok().map(|transfer| transfer.len));
    true
}

/// Process that the other test kills.
#[test]
#[ignore = "runs in processes that another test kills"]
fn killed_process() {
    let Ok(killer) = env::var(KILLER) else { return };
    let node = Node::with(SHARING);
    let to = node.av.insert(&killer.parse().expect("an address")).expect("inserted");
    println!("\naddress {}", node.endpoint.address().expect("address"));
    let (mut traffic, mut random) = (Traffic::default(), Random(u64::from(std::process::id()) << 20 | 1));
    // Its parent may have been killed itself.
    let mut until = Instant::now() + LIMIT;
    while !until.passed() {
        traffic.go_on(&node, to, &mut random);
    }
}

fn start(node: &Node) -> (Child, Peer) {
    let name = "strangers::killed::killed_process";
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args([name, "--exact", "--ignored", "--nocapture"]);
    command.env(KILLER, std::format!("{}", node.endpoint.address().expect("address")));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("started");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let address = lines.filter_map(|line| line.strip_prefix("address ").map(String::from)).next();
    let peer = node.av.insert(&address.expect("an address").parse().expect("of an endpoint")).expect("inserted");
    (child, peer)
}

#[test]
fn processes_killed_at_any_moment_leave_no_operation_buffer_or_mapping() {
    let kills = env::var(KILLS).map_or(60, |kills| kills.parse().expect("a number"));
    let node = Node::with(SHARING);
    let (mut random, mut received, mut failed, mut shared) = (Random(0x9e37_79b9_7f4a_7c15), 0, 0, 0);
    for number in 0..kills {
        let (mut child, peer) = start(&node);
        let mut traffic = Traffic::default();
        let killed_at = Instant::now() + Duration::from_micros(random.below(10_000));
        while Instant::now() < killed_at {
            traffic.go_on(&node, peer, &mut random);
        }
        shared += usize::from(mappings(LENGTHS) > 0);
        child.kill().expect("it runs");
        child.wait().expect("it was started");
        let mut until = Instant::now() + LIMIT;
        while !traffic.sends.is_empty() || mappings(LENGTHS) > 0 {
            assert!(!until.passed(), "process {number}: {} sends are left", traffic.sends.len());
            // Messages that it has sent before.
            traffic.receive(&node);
        }
        traffic.receives.iter().for_each(|key| node.endpoint.cancel(*key).expect("in flight"));
        while !traffic.receives.is_empty() {
            assert!(!until.passed(), "process {number}: {} receives are left", traffic.receives.len());
            traffic.poll(&node);
        }
        assert!(node.av.remove(peer));
        (received, failed) = (received + traffic.received, failed + traffic.failed);
    }
    println!("{kills} processes: {shared} with shared memory, {received} messages received, {failed} sends failed");
    assert!(shared > 0 && received > 0 && failed > 0, "{shared} {received} {failed}");
    node.talks_to(&Node::open());
}
