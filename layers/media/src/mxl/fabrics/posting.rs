use loom_core::error::{OpenError, PostError};
use loom_core::vocabulary::{ImmediateData, MemoryKey, RemoteAddr};
use loom_core::{Access, Buffer, CompletionLevel, Error, RemoteRegion, SendOptions, Transport};
use loom_transfer::Plan;

use super::super::{BounceBuffer, Immediate, Region};
use super::initiator::{FabricsInitiator, NO_SAMPLES};
use super::links::Sending;
use super::{Part, Source};
use crate::backlog;
use crate::flow::Samples;
use crate::layout::{FlowLayout, SampleLayout};
use crate::link::TargetStatus;
use crate::span::{Blocks, Span};

pub(super) struct Posting {
    pub(super) sending: usize,
    span: Span,
    /// Region of the target, and the immediate data of the last write.
    remote: RemoteRegion,
    data: u64,
    /// Next block, and bytes of it that are posted.
    block: usize,
    at: u64,
}

pub(super) const fn block_len(layout: &SampleLayout, count: u32) -> u64 {
    BounceBuffer::HEADER_LEN + layout.word as u64 * layout.channels as u64 * count as u64
}

impl<T: Transport, M: Buffer + Send> FabricsInitiator<'_, T, M> {
    /// Returns `true` if it has posted writes.
    pub(super) fn post(&mut self, index: usize) -> bool {
        let mut has_posted = false;
        let failed = loop {
            let posting = match self.posting(index) {
                Ok(true) => self.post_next(index),
                Ok(false) => return has_posted,
                Err(error) => break error,
            };
            match posting {
                Ok(true) => has_posted = true,
                Ok(false) => return has_posted,
                Err(Error::Post(error)) if error.is_transient() => return has_posted,
                Err(error) => break error,
            }
        };
        self.fail(index, failed, None);
        has_posted
    }

    /// Begins the next transfer of the backlog. Returns `false` if the target has none, or too
    /// many.
    fn posting(&mut self, index: usize) -> Result<bool, Error> {
        let Some((_, Some(link))) = self.links.get_mut(index) else { return Ok(false) };
        if link.status != TargetStatus::Ready {
            return Ok(false);
        }
        if link.posting.is_some() {
            return Ok(true);
        }
        if let Some(files) = &self.source {
            link.backlog.pass_below(files.oldest(files.head()));
        }
        // Slices without the header of their grain, which was not sent on this connection.
        while let Some(backlog::Part::Slices { index, start, .. }) = link.backlog.first()
            && start > 0
            && link.position != Some((index, start))
        {
            link.backlog.pass();
        }
        let in_flight = self.sendings.iter().flatten().filter(|of| of.target == index && of.is_in_progress()).count();
        // Arrives in order.
        let most = if self.is_ordered { self.attr.transfers } else { 1 };
        let Some(part) = link.backlog.first().filter(|_| in_flight < most.into()) else {
            return Ok(false);
        };
        let Some(number) = self.sendings.iter().position(Option::is_none) else { return Ok(false) };
        let region = |at: u64| {
            let at = usize::try_from(at % link.info.regions.len() as u64).unwrap_or(0);
            let found = link.info.regions.get(at).copied();
            let Region { addr, len, rkey } =
                found.ok_or(Error::Invalid("the target has no region: use its newest info"))?;
            let (base, key) = (RemoteAddr(addr), MemoryKey(rkey));
            Ok::<_, Error>((RemoteRegion { base, len, key, access: Access::REMOTE_WRITE }, at as u64))
        };
        let (part, blocks, (remote, data)) = match (part, self.layout) {
            (backlog::Part::Slices { index, start, end, .. }, FlowLayout::Grains(layout, slots)) => {
                let (remote, slot) = region(index)?;
                let slot = u16::try_from(slot)
                    .map_err(|_| Error::Invalid("MXL's slots have numbers of 16 bits: use a shorter ring"))?;
                let local = index % u64::from(slots) * layout.stride();
                let data = Immediate { slot, end }.to_bits();
                (part, Blocks::Slices { layout, local, remote: 0, start, end }, (remote, data.into()))
            }
            (backlog::Part::Samples { start, count }, FlowLayout::Samples(layout)) => {
                let (remote, entry) = region(link.entry)?;
                let sample = u64::from(layout.word) * u64::from(layout.channels);
                let room = (remote.len.saturating_sub(BounceBuffer::HEADER_LEN)).checked_div(sample).unwrap_or(0);
                let most = u32::try_from(room).unwrap_or(u32::MAX).min(self.attr.batch).min(count);
                if most == 0 {
                    return Err(Error::Invalid("the target's entries are shorter than a sample: use its newest info"));
                }
                self.pack(number, &layout, start, most)?;
                if self.source.as_ref().is_some_and(|files| files.check(start).is_err()) {
                    // The next poll passes over them.
                    return Ok(false);
                }
                let part = backlog::Part::Samples { start, count: most };
                (part, Blocks::Samples { from: layout, to: layout, start, count: most }, (remote, entry))
            }
            _ => return Err(Error::Invalid("a part of another kind of flow: add the target again")),
        };
        let Some((_, Some(link))) = self.links.get_mut(index) else { return Ok(false) };
        link.backlog.remove(part);
        match part {
            backlog::Part::Slices { index, end, .. } => link.position = Some((index, end)),
            backlog::Part::Samples { .. } => link.entry = (data + 1) % link.info.regions.len() as u64,
        }
        link.posting =
            Some(Posting { sending: number, span: Span { sending: 0, blocks }, remote, data, block: 0, at: 0 });
        let (start, end) = (part.range().0, part.end(&self.layout));
        let sending =
            Sending { target: index, start, end, in_flight: 0, is_posted: false, is_reported: false, result: Ok(()) };
        if let Some(slot) = self.sendings.get_mut(number) {
            *slot = Some(sending);
        }
        Ok(true)
    }

    /// Copies samples to the block of a transfer, behind MXL's header.
    fn pack(&mut self, number: usize, layout: &SampleLayout, start: u64, count: u32) -> Result<(), Error> {
        let Source::Blocks(blocks) = &self.from else { return Err(NO_SAMPLES) };
        let samples = Samples { window: self.memory.window(), layout: *layout };
        let to_usize = |value| usize::try_from(value).map_err(|_| OpenError::Size);
        let block = number as u64 * block_len(layout, self.attr.batch);
        let window = blocks.window();
        window.copy_from(to_usize(block)?, &BounceBuffer::entry_header(start + u64::from(count), count.into()))?;
        let len = usize::from(layout.word) * count as usize;
        let part = self.scratch.get_mut(..len).ok_or(OpenError::Size)?;
        for channel in 0..layout.channels {
            samples.copy_to(channel, start, part)?;
            let at = block + BounceBuffer::HEADER_LEN + u64::from(channel) * len as u64;
            window.copy_from(to_usize(at)?, part)?;
        }
        Ok(())
    }

    /// Returns `false` if the write waits for others.
    fn post_next(&mut self, index: usize) -> Result<bool, Error> {
        let FabricsInitiator { links, sendings, from, attr, piece, outgoing, is_ordered, .. } = self;
        let Some((_, Some(link))) = links.get_mut(index) else { return Ok(false) };
        let Some(posting) = &mut link.posting else { return Ok(false) };
        let Some(Some(sending)) = sendings.get_mut(posting.sending) else { return Ok(false) };
        let (local, offset, len, blocks) = match posting.span.blocks {
            Blocks::Slices { .. } => {
                let block = posting.span.block(posting.block);
                (block.local, block.remote, block.len, posting.span.blocks())
            }
            Blocks::Samples { to, count, .. } => {
                (posting.sending as u64 * block_len(&to, attr.batch), 0, block_len(&to, count), 1)
            }
        };
        let rest = len - posting.at;
        let now = rest.min(*piece);
        let is_last = now == rest && posting.block + 1 == blocks;
        if is_last && !*is_ordered && sending.in_flight > 0 {
            return Ok(false);
        }
        let part = Part::new(from, local + posting.at, now, posting.sending).ok_or(PostError::OutOfBounds)?;
        let len = usize::try_from(now).map_err(|_| PostError::OutOfBounds)?;
        let remote = posting.remote.part(offset + posting.at, len).ok_or(PostError::OutOfBounds)?;
        let options = SendOptions {
            data: is_last.then_some(ImmediateData(posting.data)),
            level: Some(CompletionLevel::Delivery),
            ..SendOptions::default()
        };
        outgoing.write(index, &remote, options, part)?;
        sending.in_flight += 1;
        posting.at += now;
        if now == rest {
            (posting.block, posting.at) = (posting.block + 1, 0);
        }
        if is_last {
            sending.is_posted = true;
            link.posting = None;
        }
        Ok(true)
    }
}
