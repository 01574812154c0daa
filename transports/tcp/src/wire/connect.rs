//! Connect messages: [`ConnectMessage`], and the data of RDM endpoints in them.

use super::{ByteOrder, Violation};

/// Maximum number of bytes of connection data (`FI_OPT_CM_DATA_SIZE`).
pub const MAX_CONNECT_DATA: usize = 256;

/// Maximum length of a connect message in bytes.
pub const MAX_CONNECT_MESSAGE: usize = HEADER + MAX_CONNECT_DATA;

const HEADER: usize = 32;
const VERSION: u8 = 3;
const REQUEST: u8 = 0;
const RESPONSE: u8 = 1;
const REJECT: u8 = 6;

/// Kind of a connect message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectKind {
    /// Request of the initiator.
    Request,
    /// Acceptance.
    Response,
    /// Rejection.
    Reject,
}

impl ConnectKind {
    /// Byte 1 of a message.
    pub(crate) const fn number(self) -> u8 {
        match self {
            ConnectKind::Request => REQUEST,
            ConnectKind::Response => RESPONSE,
            ConnectKind::Reject => REJECT,
        }
    }
}

/// Message that opens, accepts or rejects a connection.
///
/// ```
/// use loom_tcp::wire::{ByteOrder, ConnectKind, ConnectMessage, MAX_CONNECT_MESSAGE};
///
/// let mut bytes = [0; MAX_CONNECT_MESSAGE];
/// let request = ConnectMessage { kind: ConnectKind::Request, data: b"hello" };
/// let len = request.encode(&mut bytes).expect("at most 256 bytes of data");
///
/// // The message is incomplete without its last byte.
/// assert_eq!(ConnectMessage::parse(&bytes[..len - 1]), Ok(None));
/// let (message, order, used) = ConnectMessage::parse(&bytes[..len])?.expect("complete");
/// assert_eq!((message, order, used), (request, ByteOrder::NATIVE, len));
/// # Ok::<_, loom_tcp::wire::Violation>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectMessage<'a> {
    /// Kind.
    pub kind: ConnectKind,
    /// Connection data, at most [`MAX_CONNECT_DATA`] bytes.
    pub data: &'a [u8],
}

impl<'a> ConnectMessage<'a> {
    /// Writes the message and returns its length in bytes, or `None` if the data exceeds
    /// [`MAX_CONNECT_DATA`].
    #[must_use]
    pub fn encode(&self, out: &mut [u8; MAX_CONNECT_MESSAGE]) -> Option<usize> {
        let len = u16::try_from(self.data.len()).ok().filter(|len| usize::from(*len) <= MAX_CONNECT_DATA)?;
        let order = u64::from(self.kind != ConnectKind::Reject);
        let (header, data) = out.split_at_mut(HEADER);
        header.fill(0);
        header[0] = VERSION;
        header[1] = self.kind.number();
        header[2..4].copy_from_slice(&len.to_be_bytes());
        header[24..].copy_from_slice(&order.to_ne_bytes());
        data[..self.data.len()].copy_from_slice(self.data);
        Some(HEADER + self.data.len())
    }

    /// Reads a message from the front of `bytes`. Returns it with the order of numbers in later
    /// frames of the connection, and its length in bytes. `Ok(None)` if `bytes` is the beginning of
    /// a message.
    ///
    /// # Errors
    /// [`Violation::Version`], [`Violation::ConnectKind`], [`Violation::ConnectData`].
    pub fn parse(bytes: &'a [u8]) -> Result<Option<(Self, ByteOrder, usize)>, Violation> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else {
            // The first bytes are judged at once.
            return match *bytes {
                [version, ..] if version != VERSION => Err(Violation::Version(version)),
                _ => Ok(None),
            };
        };
        if header[0] != VERSION {
            return Err(Violation::Version(header[0]));
        }
        let kind = match header[1] {
            REQUEST => ConnectKind::Request,
            RESPONSE => ConnectKind::Response,
            REJECT => ConnectKind::Reject,
            other => return Err(Violation::ConnectKind(other)),
        };
        let len = u16::from_be_bytes([header[2], header[3]]);
        if usize::from(len) > MAX_CONNECT_DATA {
            return Err(Violation::ConnectData(len));
        }
        // A peer of the same order has written a one in its own order.
        let same = header[24..] == 1_u64.to_ne_bytes();
        let order = if same { ByteOrder::NATIVE } else { ByteOrder::Big };
        let len = usize::from(len);
        Ok(rest.get(..len).map(|data| (ConnectMessage { kind, data }, order, HEADER + len)))
    }
}

/// Connection data of RDM endpoints.
///
/// ```
/// use loom_tcp::wire::RdmData;
///
/// let data = RdmData { version: 1, features: 0, port: 35237, pid: 0x1c5c };
/// assert_eq!(data.encode(), [1, 0, 0x89, 0xa5, 0, 0, 0x1c, 0x5c]);
/// assert_eq!(RdmData::parse(&data.encode()), Ok(data));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdmData {
    /// Version of the protocol above frames. In a response, bit 7 confirms version 1.
    pub version: u8,
    /// Features. Bit 0 is set by senders behind a firewall.
    pub features: u8,
    /// Port on which the sender listens.
    pub port: u16,
    /// Process id of the sender.
    pub pid: u32,
}

impl RdmData {
    /// Writes the data.
    #[must_use]
    pub fn encode(&self) -> [u8; 8] {
        let [p0, p1] = self.port.to_be_bytes();
        let [i0, i1, i2, i3] = self.pid.to_be_bytes();
        [self.version, self.features, p0, p1, i0, i1, i2, i3]
    }

    /// Reads the data of a connect message.
    ///
    /// # Errors
    /// [`Violation::RdmData`] for another length.
    pub fn parse(data: &[u8]) -> Result<Self, Violation> {
        let [version, features, p0, p1, i0, i1, i2, i3] = *data else {
            return Err(Violation::RdmData(data.len()));
        };
        let (port, pid) = (u16::from_be_bytes([p0, p1]), u32::from_be_bytes([i0, i1, i2, i3]));
        Ok(RdmData { version, features, port, pid })
    }
}
