//! Addresses as text, `scheme://body`, in the style of `fi_av_straddr`.
//!
//! The body is a socket address, with a `:`, or hexadecimal digits. A string address is printed
//! unchanged if its own scheme cannot be taken for a format.

use core::fmt::{self, Write};
use core::net::SocketAddr;
use core::str::FromStr;

use super::socket::families;
use super::{AddressError, AddressFormat, EndpointAddr};

const SEPARATOR: &str = "://";

/// Scheme of formats without a name, followed by the number.
const NUMBERED: &str = "fi_format_";

/// Prefixes that a string address must not have, in any case.
const RESERVED: [&str; 3] = ["fi_sockaddr", "fi_addr_", NUMBERED];

impl fmt::Display for EndpointAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(string) = self.own_text() {
            return f.write_str(string);
        }
        write_scheme(f, self.format())?;
        f.write_str(SEPARATOR)?;
        if let Some(socket) = self.plain_socket() {
            return write!(f, "{socket}");
        }
        for byte in self.bytes() {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for EndpointAddr {
    type Err = AddressError;

    /// Reads the forms of [`Display`](fmt::Display), and a plain socket address.
    ///
    /// # Errors
    ///
    /// - [`AddressError::Malformed`] for any other form.
    /// - [`AddressError::TooLong`] for more than [`MAX_LEN`](EndpointAddr::MAX_LEN) bytes.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let Some((scheme, body)) = text.split_once(SEPARATOR) else {
            let socket: SocketAddr = text.parse().map_err(|_| AddressError::Malformed)?;
            return Ok(socket.into());
        };
        let Some(format) = format_of(scheme) else {
            return from_string(text);
        };
        if let Ok(socket) = body.parse::<SocketAddr>() {
            let (v4, v6) = families(format);
            return match socket {
                SocketAddr::V4(_) if v4 => Ok(Self::from_socket(format, socket)),
                SocketAddr::V6(_) if v6 => Ok(Self::from_socket(format, socket)),
                _ => Err(AddressError::Malformed),
            };
        }
        from_hexadecimal(format, body)
    }
}

impl EndpointAddr {
    fn plain_socket(&self) -> Option<SocketAddr> {
        let socket = SocketAddr::try_from(self).ok()?;
        let mut printed = socket;
        if let SocketAddr::V6(v6) = &mut printed {
            v6.set_flowinfo(0);
        }
        (Self::from_socket(self.format(), printed) == *self).then_some(socket)
    }

    fn own_text(&self) -> Option<&str> {
        if self.format() != AddressFormat::ADDR_STR {
            return None;
        }
        let (0, string) = self.bytes().split_last()? else {
            return None;
        };
        core::str::from_utf8(string).ok().filter(|s| is_own_text(s))
    }
}

fn is_own_text(string: &str) -> bool {
    string.bytes().all(|byte| byte.is_ascii_graphic())
        && string
            .split_once(SEPARATOR)
            .is_some_and(|(scheme, _)| !RESERVED.iter().any(|start| starts_with(scheme, start)))
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start))
}

fn write_scheme(f: &mut fmt::Formatter<'_>, format: AddressFormat) -> fmt::Result {
    let Some(name) = format.name() else {
        return write!(f, "{NUMBERED}{}", format.as_raw());
    };
    f.write_str("fi_")?;
    name.chars().try_for_each(|c| f.write_char(c.to_ascii_lowercase()))
}

fn format_of(scheme: &str) -> Option<AddressFormat> {
    let name = scheme.strip_prefix("fi_")?;
    let mut named = AddressFormat::NAMED.iter();
    if let Some(format) = named.find(|f| f.name().is_some_and(|n| n.eq_ignore_ascii_case(name))) {
        return Some(*format);
    }
    let number = scheme.strip_prefix(NUMBERED)?.parse().ok()?;
    Some(AddressFormat::from_raw(number))
}

fn from_string(string: &str) -> Result<EndpointAddr, AddressError> {
    if !is_own_text(string) {
        return Err(AddressError::Malformed);
    }
    let mut addr = EndpointAddr::new(AddressFormat::ADDR_STR, string.as_bytes())?;
    addr.bytes.push(0).map_err(|_| AddressError::TooLong)?;
    Ok(addr)
}

fn from_hexadecimal(format: AddressFormat, digits: &str) -> Result<EndpointAddr, AddressError> {
    let mut bytes = [0; EndpointAddr::MAX_LEN];
    let (pairs, odd) = digits.as_bytes().as_chunks();
    if !odd.is_empty() {
        return Err(AddressError::Malformed);
    }
    let used = bytes.get_mut(..pairs.len()).ok_or(AddressError::TooLong)?;
    for (place, [high, low]) in used.iter_mut().zip(pairs) {
        *place = digit(*high)? << 4 | digit(*low)?;
    }
    EndpointAddr::new(format, used)
}

fn digit(character: u8) -> Result<u8, AddressError> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        b'A'..=b'F' => Ok(character - b'A' + 10),
        _ => Err(AddressError::Malformed),
    }
}
