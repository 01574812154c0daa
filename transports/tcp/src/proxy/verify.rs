//! Comparison of a session's results with its bytes.

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use loom_core::Tag;
use loom_core::endpoint::{Receives, Transmits};

use super::ledger::{Outcome, Posted};
use super::plan::{Lens, Message, Payload, Step, areas};
use super::session::Session;
use crate::Tcp;

fn check(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text()) }
}

/// Verifies that each success has moved its bytes, and that other bytes are unchanged. All
/// operations of a whole session have succeeded.
pub(super) fn operations<K>(session: &Session<'_, K>, is_whole: bool) -> Result<(), String>
where
    K: Transmits<Tcp> + Receives<Tcp>,
{
    for side in 0..2 {
        if is_whole {
            for Outcome { posted, result, .. } in &session.ledgers[side].outcomes {
                check(result.is_ok(), || format!("{posted:?} of side {side}: {result:?}"))?;
            }
        }
        messages(session, side, is_whole)?;
        writes(session, side, is_whole)?;
        reads(session, side)?;
    }
    Ok(())
}

fn messages<K>(session: &Session<'_, K>, side: usize, is_whole: bool) -> Result<(), String>
where
    K: Transmits<Tcp> + Receives<Tcp>,
{
    let messages: Vec<_> = session.messages().collect();
    let is_of = |index: usize, message: Message, Outcome { result, buf, .. }: &Outcome| {
        let Ok(transfer) = result else { return false };
        let data = transfer.data.map(|data| data.0);
        buf[..message.len] == session.payload(side, Payload::Message(index), message.len)
            && buf[message.len..].iter().all(|byte| *byte == 0)
            && transfer.len == message.len
            && transfer.tag == message.tag.map(Tag)
            && data == message.has_data.then_some(index as u64)
    };
    let mut arrived = Vec::new();
    let mut untagged = messages.iter().filter(|(_, message)| message.tag.is_none());
    for (index, outcome) in session.ledgers[1 - side].received() {
        if outcome.result.is_err() {
            continue;
        }
        // Messages without tags are received in their order, though some may be lost.
        let is_tagged = messages.iter().any(|(other, message)| *other == index && message.tag.is_some());
        let found = if is_tagged {
            messages.iter().find(|(other, message)| *other == index && is_of(index, *message, outcome))
        } else {
            untagged.find(|(other, message)| is_of(*other, *message, outcome))
        };
        let (found, _) = found.ok_or_else(|| format!("receive {index} of side {} has other bytes", 1 - side))?;
        arrived.push(*found);
    }
    for (index, message) in messages {
        let is_sent = session.ledgers[side].has_succeeded(Posted::Step(Step::Message(index)));
        check(!(is_whole || is_sent && message.is_delivered) || arrived.contains(&index), || {
            format!("message {index} of side {side} is not delivered")
        })?;
    }
    Ok(())
}

fn writes<K>(session: &Session<'_, K>, side: usize, is_whole: bool) -> Result<(), String>
where
    K: Transmits<Tcp> + Receives<Tcp>,
{
    let areas = areas(session.lens);
    let events = &session.ledgers[1 - side].events;
    let is_reported = events == &[session.seed as u64];
    check(is_reported || events.is_empty() && !is_whole, || format!("events from side {side}: {events:?}"))?;
    let are_written = session.ledgers[side].has_succeeded(Posted::Step(Step::WriteRanges));
    let mut rest = session.region(1 - side);
    let [first, second] = areas.ranges;
    for (payload, ranges, must_be_whole) in [
        (Payload::WriteRanges, vec![first, second], are_written),
        (Payload::WriteData, vec![areas.data], is_reported),
        (Payload::InjectWrite, vec![areas.injected], false),
        (Payload::Source, vec![areas.source], true),
    ] {
        let owner = if matches!(payload, Payload::Source) { 1 - side } else { side };
        let len = ranges.iter().map(ExactSizeIterator::len).sum();
        let expected = session.payload(owner, payload, len);
        let bytes: Vec<u8> = ranges.iter().flat_map(|range| rest[range.clone()].to_vec()).collect();
        let written = expected.iter().zip(&bytes).take_while(|(expected, byte)| expected == byte).count();
        let is_begun = bytes[written..].iter().all(|byte| *byte == 0);
        check(is_begun && (written == len || !is_whole && !must_be_whole), || {
            format!("{written} of {len} bytes in {ranges:?} of side {}", 1 - side)
        })?;
        ranges.into_iter().for_each(|range| rest[range].fill(0));
    }
    check(rest.iter().all(|byte| *byte == 0), || format!("bytes between the ranges of side {}", 1 - side))
}

fn reads<K>(session: &Session<'_, K>, side: usize) -> Result<(), String>
where
    K: Transmits<Tcp> + Receives<Tcp>,
{
    let Lens { short, long } = session.lens;
    let source = session.payload(1 - side, Payload::Source, long);
    let rotated = [&source[long - short..], &source[..long - short]].concat();
    for (step, expected) in [(Step::Read, source), (Step::ReadRanges, rotated)] {
        let of_step = |outcome: &&Outcome| outcome.posted == Posted::Step(step) && outcome.result.is_ok();
        for outcome in session.ledgers[side].outcomes.iter().filter(of_step) {
            check(outcome.buf == expected, || format!("{step:?} of side {side} has other bytes"))?;
        }
    }
    Ok(())
}
