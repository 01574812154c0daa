use loom_core::{Access, Error};
use loom_transfer::RemoteMemory;

use crate::layout::FlowLayout;
use crate::message::{decode_layout, encode_layout};

const MAGIC: [u8; 8] = *b"loomMT\x01\0";
const HEAD: usize = MAGIC.len() + 4 + 28 + RemoteMemory::WIRE_LEN;

/// Description of a flow, which its target's program sends to initiators.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetRecord<'a> {
    pub(crate) flow: u32,
    pub(crate) layout: FlowLayout,
    pub(crate) memory: RemoteMemory,
    pub(crate) address: &'a [u8],
}

impl<'a> TargetRecord<'a> {
    /// Writes the record without the addresses, and returns the room for these.
    pub(crate) fn head<'o>(
        flow: u32,
        layout: &FlowLayout,
        memory: &RemoteMemory,
        out: &'o mut [u8],
    ) -> Option<&'o mut [u8]> {
        let (head, rest) = out.split_at_mut_checked(HEAD)?;
        let (magic, head) = head.split_at_mut(MAGIC.len());
        let (number, head) = head.split_at_mut(4);
        let (shape, keys) = head.split_at_mut(28);
        magic.copy_from_slice(&MAGIC);
        number.copy_from_slice(&flow.to_le_bytes());
        shape.copy_from_slice(&encode_layout(layout));
        keys.copy_from_slice(&memory.to_bytes());
        Some(rest)
    }

    pub(crate) const HEAD: usize = HEAD;

    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Error> {
        const OTHER: Error =
            Error::Invalid("not a record of a media flow, or of another version of loom: use that of `Target::record`");
        let (magic, rest) = bytes.split_first_chunk().ok_or(OTHER)?;
        let (flow, rest) = rest.split_first_chunk().ok_or(OTHER)?;
        let (layout, rest) = rest.split_first_chunk().ok_or(OTHER)?;
        let (memory, address) = rest.split_at_checked(RemoteMemory::WIRE_LEN).ok_or(OTHER)?;
        if *magic != MAGIC {
            return Err(OTHER);
        }
        let layout = decode_layout(*layout)
            .ok_or(Error::Invalid("the record of a media flow has an empty layout: use that of `Target::record`"))?;
        let memory = RemoteMemory::from_bytes(memory)?;
        if memory.len() < layout.bytes() || !memory.access().contains(Access::REMOTE_WRITE) {
            return Err(Error::Invalid(
                "the memory of a media flow is shorter than its ring, or not writable: use the record of `Target::record`",
            ));
        }
        Ok(TargetRecord { flow: u32::from_le_bytes(*flow), layout, memory, address })
    }
}
