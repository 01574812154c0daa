//! Records of TLS 1.3 (RFC 8446, section 5).

use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, MAX_TAG_LEN, Nonce, UnboundKey};
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{ConnectionTrafficSecrets, Error};

/// Maximum length of a record's content in bytes.
const CONTENT: usize = 1 << 14;

/// Type and version, then the length of the rest.
const HEADER: usize = 5;

/// Maximum length of a record in bytes, of any implementation.
pub(super) const MAX_RECORD: usize = HEADER + CONTENT + 256;

/// Bytes of a record beside its content.
const EXTRA: usize = HEADER + 1 + MAX_TAG_LEN;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// Fatal alert.
const BAD_CERTIFICATE: [u8; 2] = [2, 42];

/// `KeyUpdate` without a request for the peer's.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// Reason to end a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The peer does not speak this protocol over TLS.
    Protocol,
    Certificate,
    /// The peer has sent an alert.
    Alert,
    /// Malformed or altered record.
    Record,
    /// This side has failed.
    Local,
}

impl Fault {
    pub(crate) const LOCAL: Self = Fault::Local;

    pub(crate) const fn code(self) -> i32 {
        match self {
            Fault::Protocol => 40,
            Fault::Certificate => 41,
            Fault::Alert => 42,
            Fault::Record => 43,
            Fault::Local => 44,
        }
    }

    pub(crate) const fn text(code: i32) -> Option<&'static str> {
        Some(match code {
            40 => "the peer does not speak TLS 1.3 with this protocol: is its endpoint one of query_with_tls?",
            41 => "the peer's certificate is not of an authority of Tls::new, has another name or has expired",
            42 => "the peer has refused the TLS handshake, or ended it: does it trust the certificate of Tls::new?",
            43 => "a TLS record of the peer is malformed, or was altered on its way",
            44 => {
                "TLS of this side has failed: no clock, no random bytes, or certificates longer than a socket's buffer"
            }
            _ => return None,
        })
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => Fault::Certificate,
            Error::AlertReceived(_) => Fault::Alert,
            Error::DecryptError => Fault::Record,
            Error::General(_) | Error::FailedToGetRandomBytes | Error::FailedToGetCurrentTime => Fault::Local,
            _ => Fault::Protocol,
        }
    }
}

/// Length of the first record in bytes, or `None` if it has not arrived whole.
pub(super) fn whole(bytes: &[u8]) -> Result<Option<usize>, Fault> {
    let Some((&[_, version, _, high, low], _)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
    let len = HEADER + usize::from(u16::from_be_bytes([high, low]));
    if version != 3 || len > MAX_RECORD {
        return Err(Fault::Protocol);
    }
    Ok((len <= bytes.len()).then_some(len))
}

/// Key of one direction, and the number of the next record.
struct Direction {
    key: LessSafeKey,
    iv: [u8; 12],
    number: u64,
}

impl Direction {
    fn new((number, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, Fault> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(Fault::Protocol),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| Fault::Protocol)?;
        let iv = iv.as_ref().try_into().map_err(|_| Fault::Protocol)?;
        Ok(Direction { key: LessSafeKey::new(key), iv, number })
    }

    fn next_nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, of_number) in nonce[4..].iter_mut().zip(self.number.to_be_bytes()) {
            *byte ^= of_number;
        }
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Encrypts a record of type `kind`. Its content of `len` bytes lies behind the header.
    fn seal(&mut self, kind: u8, len: usize, record: &mut [u8]) -> Result<usize, Fault> {
        let whole = len + EXTRA;
        let (header, body) = record.get_mut(..whole).ok_or(Fault::Record)?.split_at_mut(HEADER);
        #[expect(clippy::cast_possible_truncation, reason = "at most `MAX_RECORD`")]
        let [high, low] = ((whole - HEADER) as u16).to_be_bytes();
        header.copy_from_slice(&[APPLICATION_DATA, 3, 3, high, low]);
        let (content, tag) = body.split_at_mut(len + 1);
        content[len] = kind;
        let nonce = self.next_nonce();
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::from(header), content);
        tag.copy_from_slice(sealed.map_err(|_| Fault::Record)?.as_ref());
        Ok(whole)
    }

    /// Decrypts a record. Returns its type, and the length of its content behind the header.
    fn open(&mut self, record: &mut [u8]) -> Result<(u8, usize), Fault> {
        let (header, body) = record.split_at_mut_checked(HEADER).ok_or(Fault::Record)?;
        if header[0] != APPLICATION_DATA {
            return Err(Fault::Record);
        }
        let nonce = self.next_nonce();
        let plain = self.key.open_in_place(nonce, Aad::from(header), body).map_err(|_| Fault::Record)?;
        // Zeros may follow the type.
        let len = plain.iter().rposition(|byte| *byte != 0).ok_or(Fault::Record)?;
        Ok((plain[len], len))
    }
}

pub(super) enum Kernel {
    Client(KernelConnection<ClientConnectionData>),
    Server(KernelConnection<ServerConnectionData>),
}

/// Keys of a connection.
pub(super) struct Keys {
    pub(super) kernel: Kernel,
    tx: Direction,
    rx: Direction,
    /// Number of records that one key encrypts.
    records: u64,
    /// The peer has sent bytes of the program since its last change of the key.
    may_change: bool,
}

impl Keys {
    pub(super) fn new(kernel: Kernel, secrets: rustls::ExtractedSecrets, records: u64) -> Result<Self, Fault> {
        Ok(Keys { kernel, tx: Direction::new(secrets.tx)?, rx: Direction::new(secrets.rx)?, records, may_change: true })
    }

    /// Encrypts bytes that `fill` copies, in the room for a record. It returns their number, zero
    /// at the end. Returns the length of the record, and of those bytes.
    pub(super) fn seal(
        &mut self,
        room: &mut [u8],
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<(usize, usize), Fault> {
        let mut at = 0;
        if self.tx.number >= self.records {
            room.get_mut(HEADER..HEADER + KEY_UPDATE.len()).ok_or(Fault::Record)?.copy_from_slice(&KEY_UPDATE);
            at = self.tx.seal(HANDSHAKE, KEY_UPDATE.len(), room)?;
            self.tx = Direction::new(match &mut self.kernel {
                Kernel::Client(kernel) => kernel.update_tx_secret()?,
                Kernel::Server(kernel) => kernel.update_tx_secret()?,
            })?;
        }
        let record = &mut room[at..];
        let len = (record.len() - EXTRA).min(CONTENT);
        let len = fill(&mut record[HEADER..HEADER + len]);
        if len == 0 {
            return Ok((at, 0));
        }
        Ok((at + self.tx.seal(APPLICATION_DATA, len, record)?, len))
    }

    /// Encrypts an alert that refuses the peer's certificate, and returns its length.
    pub(super) fn seal_refusal(&mut self, room: &mut [u8]) -> Result<usize, Fault> {
        room.get_mut(HEADER..HEADER + BAD_CERTIFICATE.len()).ok_or(Fault::Local)?.copy_from_slice(&BAD_CERTIFICATE);
        self.tx.seal(ALERT, BAD_CERTIFICATE.len(), room)
    }

    /// Decrypts a record. Returns the range of the application's bytes in it, which may be empty.
    pub(super) fn open(&mut self, record: &mut [u8]) -> Result<core::ops::Range<usize>, Fault> {
        let (kind, len) = self.rx.open(record)?;
        let content = HEADER..HEADER + len;
        match kind {
            APPLICATION_DATA => {
                self.may_change = true;
                Ok(content)
            }
            HANDSHAKE if self.may_change && record[content.clone()] == KEY_UPDATE => {
                self.may_change = false;
                self.rx = Direction::new(match &mut self.kernel {
                    Kernel::Client(kernel) => kernel.update_rx_secret()?,
                    Kernel::Server(kernel) => kernel.update_rx_secret()?,
                })?;
                Ok(HEADER..HEADER)
            }
            ALERT => Err(Fault::Alert),
            _ => Err(Fault::Record),
        }
    }
}
