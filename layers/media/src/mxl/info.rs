use core::fmt;
use std::string::String;
use std::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::wire::BounceBuffer;
use super::{FlowDefinition, MxlError};
use crate::layout::FlowLayout;

/// Memory region of a target: a slot, or a bounce buffer's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Virtual address, or 0.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Key.
    pub rkey: u64,
}

/// JSON by which an initiator reaches a target.
///
/// [`Display`](fmt::Display) writes the bytes that MXL writes.
///
/// ```
/// use loom_media::mxl::TargetInfo;
///
/// let json = r#"{"addressFormat":2,"fabricAddress":"AgCS838AAAEAAAAAAAAAAA==","id":"16974897559381723334",
///     "provider":"tcp","regions":[{"addr":"0","len":"5537792","rkey":"16519089648874756409"}]}"#;
/// let info = TargetInfo::parse(json)?;
/// // Family, port and address of IPv4.
/// assert_eq!(info.fabric_address[..8], [2, 0, 0x92, 0xf3, 127, 0, 0, 1]);
/// assert_eq!(info.to_string(), json.replace("\n    ", ""));
/// # Ok::<_, loom_media::mxl::MxlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetInfo {
    /// Format of the address, as in libfabric (`FI_SOCKADDR_IN`).
    pub address_format: u32,
    /// Bytes of the address (`fi_getname`).
    pub fabric_address: Vec<u8>,
    /// Identifier of the endpoint.
    pub id: u64,
    /// Provider: `tcp`, `verbs`, `efa` or `shm`.
    pub provider: String,
    /// Slots or entries, in order.
    pub regions: Vec<Region>,
    /// Bounce buffer of samples.
    pub bounce_buffer: Option<BounceBuffer>,
}

impl TargetInfo {
    /// Parses an info. Unknown keys are ignored.
    ///
    /// # Errors
    /// [`MxlError::TargetInfo`] with the key, or `JSON`. There are 1 to 65,536 regions of one length. The
    /// address has the length of its format. A bounce buffer consists of the regions.
    pub fn parse(json: &str) -> Result<Self, MxlError> {
        let root: Value = serde_json::from_str(json).map_err(|_| MxlError::TargetInfo("JSON"))?;
        let address = STANDARD.decode(text(&root, "fabricAddress")?).ok();
        let regions = root.get("regions").and_then(Value::as_array).ok_or(MxlError::TargetInfo("regions"))?;
        let region = |of: &Value| {
            Ok(Region { addr: decimal(of, "addr")?, len: decimal(of, "len")?, rkey: decimal(of, "rkey")? })
        };
        let bounce_buffer = root.get("bounceBufferInfo").map(|of| {
            Ok(BounceBuffer { entry_count: decimal(of, "entryCount")?, entry_size: decimal(of, "entrySize")? })
        });
        let format = root.get("addressFormat").and_then(Value::as_u64).and_then(|format| u32::try_from(format).ok());
        let info = TargetInfo {
            address_format: format.ok_or(MxlError::TargetInfo("addressFormat"))?,
            fabric_address: address.ok_or(MxlError::TargetInfo("fabricAddress"))?,
            id: decimal(&root, "id")?,
            provider: text(&root, "provider")?.into(),
            regions: regions.iter().map(region).collect::<Result<_, _>>()?,
            bounce_buffer: bounce_buffer.transpose()?,
        };
        info.check().map(|()| info)
    }

    fn check(&self) -> Result<(), MxlError> {
        let address_len = self.fabric_address.len();
        let fits = match self.address_format {
            // FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOCKADDR_IB.
            2 => address_len == 16,
            3 => address_len == 28,
            4 => address_len == 48,
            // FI_SOCKADDR, FI_ADDR_STR, FI_ADDR_EFA, FI_SOCKADDR_IP.
            1 | 9 | 12 | 17 => address_len > 0,
            _ => return Err(MxlError::TargetInfo("addressFormat")),
        };
        if !fits {
            return Err(MxlError::TargetInfo("fabricAddress"));
        }
        let (len, count) = (self.regions.first().map_or(0, |region| region.len), self.regions.len());
        let is_region = |region: &Region| region.len == len && region.addr.checked_add(len).is_some();
        if len == 0 || count > FlowDefinition::MAX_SLOTS as usize || !self.regions.iter().all(is_region) {
            return Err(MxlError::TargetInfo("regions"));
        }
        let is_of = |bounce: &BounceBuffer| {
            (bounce.entry_count, bounce.entry_size) == (count as u64, len) && len > BounceBuffer::HEADER_LEN
        };
        let is_valid = self.bounce_buffer.as_ref().is_none_or(is_of);
        if is_valid { Ok(()) } else { Err(MxlError::TargetInfo("bounceBufferInfo")) }
    }

    /// Verifies that a ring of any length can be sent to the target.
    ///
    /// # Errors
    /// [`MxlError::TargetInfo`] for slots of another length, entries with parts of samples, or another kind of
    /// flow.
    pub fn fits(&self, layout: &FlowLayout) -> Result<(), MxlError> {
        self.check()?;
        let len = self.regions.first().map_or(0, |region| region.len);
        match layout {
            FlowLayout::Grains(..) if self.bounce_buffer.is_some() => Err(MxlError::TargetInfo("bounceBufferInfo")),
            FlowLayout::Grains(layout, _) if len != layout.len() => Err(MxlError::TargetInfo("regions")),
            FlowLayout::Samples(layout) => {
                let sample = u64::from(layout.word) * u64::from(layout.channels);
                let is_whole = (len - BounceBuffer::HEADER_LEN.min(len)).checked_rem(sample) == Some(0);
                let fits = self.bounce_buffer.is_some() && is_whole;
                if fits { Ok(()) } else { Err(MxlError::TargetInfo("bounceBufferInfo")) }
            }
            FlowLayout::Grains(..) => Ok(()),
        }
    }
}

fn text<'v>(object: &'v Value, key: &'static str) -> Result<&'v str, MxlError> {
    object.get(key).and_then(Value::as_str).ok_or(MxlError::TargetInfo(key))
}

fn decimal(object: &Value, key: &'static str) -> Result<u64, MxlError> {
    let digits = text(object, key)?;
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain).ok_or(MxlError::TargetInfo(key))
}

impl fmt::Display for TargetInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // MXL escapes slashes.
        let escaped = |text: &str| std::format!("{}", Value::from(text)).replace('/', "\\/");
        write!(f, "{{\"addressFormat\":{}", self.address_format)?;
        if let Some(BounceBuffer { entry_count, entry_size }) = self.bounce_buffer {
            write!(f, ",\"bounceBufferInfo\":{{\"entryCount\":\"{entry_count}\",\"entrySize\":\"{entry_size}\"}}")?;
        }
        let (address, provider) = (escaped(&STANDARD.encode(&self.fabric_address)), escaped(&self.provider));
        write!(f, ",\"fabricAddress\":{address},\"id\":\"{}\",\"provider\":{provider},\"regions\":[", self.id)?;
        for (at, Region { addr, len, rkey }) in self.regions.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{{\"addr\":\"{addr}\",\"len\":\"{len}\",\"rkey\":\"{rkey}\"}}")?;
        }
        f.write_str("]}")
    }
}
