//! Contents of completions of messages.

use loom_core::completion::{OpError, Transfer};
use loom_core::vocabulary::{CompletionFlags, Errno, FabricAddr};

/// Report of a receive.
#[derive(Debug, PartialEq)]
pub struct Got {
    pub tag: Option<u64>,
    pub data: Option<u64>,
    pub bytes: Vec<u8>,
    pub overflow: usize,
    /// Source. `None` for a truncated message.
    pub source: Option<FabricAddr>,
    /// Number of received bytes of an operation that was reported as failed.
    pub failed: Option<usize>,
}

impl Got {
    pub fn whole(transfer: Transfer, bytes: &[u8]) -> Self {
        assert_eq!(transfer.len, bytes.len());
        Got {
            tag: transfer.tag.map(|tag| tag.0),
            data: transfer.data.map(|data| data.0),
            bytes: bytes.to_vec(),
            overflow: 0,
            source: transfer.source,
            failed: None,
        }
    }

    /// Returns the report of a truncated message, or of one that was received and reported as
    /// failed.
    pub fn not_whole(error: OpError, bytes: &[u8]) -> Self {
        let failed = (error.errno == Errno::EIO).then_some(error.len.unwrap_or(0));
        assert!(failed.is_some() || error.errno == Errno::ETRUNC, "received, with {error:#}");
        let bytes = failed.map_or(bytes, |len| &bytes[..len.min(bytes.len())]);
        Got {
            tag: error.flags.contains(CompletionFlags::TAGGED).then_some(error.tag.0),
            data: error.flags.contains(CompletionFlags::REMOTE_CQ_DATA).then_some(error.data.0),
            bytes: bytes.to_vec(),
            overflow: error.overflow.unwrap_or(0),
            source: None,
            failed,
        }
    }

    /// Number of used bytes of the buffer, as reported.
    pub fn used(&self) -> usize {
        self.failed.unwrap_or(self.bytes.len())
    }
}
