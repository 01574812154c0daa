//! Handshakes in memory, whose bytes a peer changes at random.

use std::vec;
use std::vec::Vec;

use super::super::handshake::{self, Advanced, Failed, Handshake};
use super::super::record::{Fault, Keys, MAX_RECORD, whole};
use super::trusted;

/// Handshakes. `LOOM_SOAK` sets another number.
const RUNS: u64 = 1500;

/// A side, and the bytes that it has received.
struct Side<H> {
    handshake: H,
    input: Vec<u8>,
    seen: usize,
    is_complete: bool,
}

impl<H: Handshake> Side<H> {
    fn new(handshake: H) -> Self {
        Side { handshake, input: Vec::new(), seen: 0, is_complete: false }
    }

    /// Handles bytes, and returns the answer.
    fn receive(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
        self.input.extend_from_slice(bytes);
        let mut output = vec![0; 1 << 16];
        if self.is_complete {
            return Ok(Vec::new());
        }
        match self.handshake.advance(&mut self.input, self.seen, &mut output, 0) {
            Ok(Advanced { used, seen, written, is_complete }) => {
                assert!(used + seen <= self.input.len());
                self.input.drain(..used);
                (self.seen, self.is_complete) = (seen, is_complete);
                output.truncate(written);
                Ok(output)
            }
            Err(Failed { fault, written }) => {
                assert!(written <= output.len());
                Err(fault)
            }
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).expect("53 bits") % limit.max(1)
    }

    /// Changes bytes on their way.
    fn disturb(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        match self.below(7) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_slice(&bytes.clone()[at..]),
            2 => bytes.splice(at..at, [22, 3, 3, 0, 1, 1]).for_each(drop),
            3 => bytes.splice(0..0, [20, 3, 3, 0, 1, 1]).for_each(drop),
            4 => bytes.splice(0..0, [21, 3, 3, 0, 2, 2, 40]).for_each(drop),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
            }
        }
    }
}

/// Returns whether both sides complete a handshake. `disturb` changes the bytes of each turn.
fn shake_hands(random: &mut Random, mut disturb: impl FnMut(&mut Random, &mut Vec<u8>)) -> bool {
    both_keys(random, &mut disturb).is_some()
}

/// Returns the keys of both sides after a handshake.
fn both_keys(random: &mut Random, disturb: &mut dyn FnMut(&mut Random, &mut Vec<u8>)) -> Option<[Keys; 2]> {
    const RECORDS: u64 = 3;
    let tls = trusted();
    let name = tls.name_of([127, 0, 0, 1].into());
    let mut client = Side::new(handshake::client(&tls, name).expect("a client"));
    let mut server = Side::new(handshake::server(&tls).expect("a server"));
    let mut to_server = client.receive(&[]).expect("the first message");
    for _ in 0..4 {
        disturb(random, &mut to_server);
        let mut to_client = Vec::new();
        while !to_server.is_empty() {
            let rest = to_server.split_off(1 + random.below(to_server.len()));
            match server.receive(&to_server) {
                Ok(answer) => to_client.extend(answer),
                Err(_) => return None,
            }
            to_server = rest;
        }
        disturb(random, &mut to_client);
        match client.receive(&to_client) {
            Ok(answer) => to_server = answer,
            Err(_) => return None,
        }
    }
    if !client.is_complete || !server.is_complete {
        return None;
    }
    Some([client.handshake.into_keys(RECORDS).ok()?, server.handshake.into_keys(RECORDS).ok()?])
}

/// Encrypts bytes, and returns their records: before a change of the key, one for it.
fn seal(keys: &mut Keys, bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut room = vec![0; 2 * MAX_RECORD];
    let fill = |room: &mut [u8]| {
        room[..bytes.len()].copy_from_slice(bytes);
        bytes.len()
    };
    let (len, count) = keys.seal(&mut room, fill).expect("sealed");
    assert_eq!(count, bytes.len());
    room.truncate(len);
    let mut records = Vec::new();
    while let Some(len) = whole(&room).expect("records") {
        records.push(room.drain(..len).collect());
    }
    assert!(room.is_empty());
    records
}

fn open(keys: &mut Keys, record: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut record = record.to_vec();
    keys.open(&mut record).map(|content| record[content].to_vec())
}

#[test]
fn keys_change_after_their_records() {
    let [mut client, mut server] = both_keys(&mut Random(1), &mut |_, _| {}).expect("a handshake");
    let mut changes = 0;
    for number in 0..12_u8 {
        let records = seal(&mut client, &[number; 100]);
        changes += records.len() - 1;
        let opened: Vec<u8> = records.iter().flat_map(|record| open(&mut server, record).expect("authentic")).collect();
        assert_eq!(opened, [number; 100]);
        // In the other direction.
        let answer = seal(&mut server, &[number; 9]);
        assert!(answer.iter().all(|record| open(&mut client, record).is_ok()));
    }
    assert_eq!(changes, 3);
    // Each record once.
    let records = seal(&mut client, &[1]);
    assert!(records.iter().all(|record| open(&mut server, record).is_ok()));
    assert_eq!(open(&mut server, &records[records.len() - 1]), Err(Fault::Record));
}

#[test]
fn altered_records_are_refused() {
    let mut random = Random(2);
    for at in 0..100 + 22 {
        let [mut client, mut server] = both_keys(&mut random, &mut |_, _| {}).expect("a handshake");
        let mut record = seal(&mut client, &[1; 100]).concat();
        assert_eq!(record.len(), 122);
        record[at] ^= 1 << random.below(8);
        // A length is one of the stream: its record does not arrive whole, or is another.
        let refused = open(&mut server, &record);
        assert_eq!(refused, Err(Fault::Record), "byte {at}");
    }
    let [_, mut server] = both_keys(&mut random, &mut |_, _| {}).expect("a handshake");
    // Without encryption.
    assert_eq!(open(&mut server, &[22, 3, 3, 0, 5, 24, 0, 0, 1, 0]), Err(Fault::Record));
    assert_eq!(open(&mut server, &[21, 3, 3, 0, 2, 2, 40]), Err(Fault::Record));
}

#[test]
fn altered_handshakes_fail_without_a_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let runs = std::env::var("LOOM_SOAK").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
    let mut failed = 0;
    for run in 0..runs {
        let turn = random.below(4);
        let mut now = 0;
        let is_complete = shake_hands(&mut random, |random, bytes| {
            if now == turn {
                random.disturb(bytes);
            }
            now += 1;
        });
        failed += u64::from(!is_complete);
        // Control: without a change, in pieces of any length.
        assert!(run % 20 != 0 || shake_hands(&mut random, |_, _| {}), "run {run}");
    }
    assert!(failed > runs / 3, "{failed} of {runs} fail");
}
