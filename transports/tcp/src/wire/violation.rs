//! [`Violation`].

/// Reason to end a connection whose peer does not keep the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Version of a connect message other than 3.
    Version(u8),
    /// Kind of connect message that is unknown, or not expected in this state.
    ConnectKind(u8),
    /// More than 256 bytes of connection data.
    ConnectData(u16),
    /// Connection data of an RDM endpoint with a length other than 8 bytes.
    RdmData(usize),
    /// Unknown operation.
    Operation(u8),
    /// Header shorter than its operation requires, or longer than 120 bytes.
    HeaderSize(u8),
    /// Frame shorter than its header, or of another length than its operation requires.
    FrameSize(u64),
    /// More than 4 ranges of remote memory.
    Parts(u8),
    /// Lengths of ranges that differ in sum from the payload.
    PartLengths,
    /// Acknowledgement, read response or rendezvous frame without a request.
    Unsolicited(u8),
    /// Key of no open region, a range outside the region, or a forbidden access.
    RemoteMemory,
    /// Payload for memory that was closed while it arrived.
    RegionClosed,
    /// Words of shared memory that contradict each other.
    SharedMemory,
}

impl Violation {
    /// Number of the kind of violation, from 16 on.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Violation::Version(_) => 16,
            Violation::ConnectKind(_) => 17,
            Violation::ConnectData(_) => 18,
            Violation::RdmData(_) => 19,
            Violation::Operation(_) => 20,
            Violation::HeaderSize(_) => 21,
            Violation::FrameSize(_) => 22,
            Violation::Parts(_) => 23,
            Violation::PartLengths => 24,
            Violation::Unsolicited(_) => 25,
            Violation::RemoteMemory => 26,
            Violation::RegionClosed => 27,
            Violation::SharedMemory => 28,
        }
    }

    /// Text for a number of [`code`](Self::code).
    #[must_use]
    pub const fn text(code: u8) -> Option<&'static str> {
        Some(match code {
            16 => "the peer speaks another version of the protocol",
            17 => "unexpected connect message of the peer",
            18 => "connect message of the peer with too much data",
            19 => "the peer is not an RDM endpoint",
            20 => "unknown operation of the peer",
            21 => "malformed header of the peer",
            22 => "malformed frame of the peer",
            23 => "operation of the peer with too many ranges",
            24 => "ranges of the peer of another length than the payload",
            25 => "answer of the peer without a request",
            26 => "the peer named remote memory with a wrong key, range or access",
            27 => "remote memory was closed during a transfer of the peer",
            28 => "the peer has written inconsistent positions to shared memory",
            _ => return None,
        })
    }
}
