//! Addresses as text, `scheme://body`, in the style of `fi_av_straddr`. Every address reads back
//! unchanged.
//!
//! The body is a socket address, which always has a `:`, or hexadecimal digits, which never have
//! one. A string address is printed unchanged if its own scheme cannot be taken for a format.

use core::fmt::{self, Write};
use core::net::SocketAddr;
use core::str::FromStr;

use super::socket::families;
use super::{AddressError, AddressFormat, EndpointAddr};

const SEPARATOR: &str = "://";

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

    /// Reads every form that [`Display`](fmt::Display) prints, and a plain socket address.
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
    let mut bytes = [0; EndpointAddr::MAX_LEN];
    let with_end = bytes.get_mut(..=string.len()).ok_or(AddressError::TooLong)?;
    for (place, byte) in with_end.iter_mut().zip(string.bytes()) {
        *place = byte;
    }
    EndpointAddr::new(AddressFormat::ADDR_STR, with_end)
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

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv6Addr, SocketAddrV6};
    use std::{format, string::String, string::ToString, vec::Vec};

    fn addr(format: AddressFormat, bytes: &[u8]) -> EndpointAddr {
        EndpointAddr::new(format, bytes).unwrap()
    }

    fn socket(text: &str) -> EndpointAddr {
        text.parse::<SocketAddr>().unwrap().into()
    }

    #[track_caller]
    fn round_trip(addr: &EndpointAddr) -> String {
        let text = addr.to_string();
        assert_eq!(text.parse().as_ref(), Ok(addr), "{text}");
        text
    }

    #[test]
    fn sockets() {
        for (plain, full) in [
            ("127.0.0.1:4242", "fi_sockaddr_in://127.0.0.1:4242"),
            ("[::1]:4242", "fi_sockaddr_in6://[::1]:4242"),
            ("[fe80::1%3]:1", "fi_sockaddr_in6://[fe80::1%3]:1"),
            ("[::ffff:10.0.0.1]:1", "fi_sockaddr_in6://[::ffff:10.0.0.1]:1"),
        ] {
            assert_eq!(round_trip(&socket(plain)), full);
            assert_eq!(plain.parse(), Ok(socket(plain)));
        }
        let general = addr(AddressFormat::SOCKADDR, socket("10.0.0.1:80").bytes());
        assert_eq!(round_trip(&general), "fi_sockaddr://10.0.0.1:80");
        let general = addr(AddressFormat::SOCKADDR_IP, socket("[::]:0").bytes());
        assert_eq!(round_trip(&general), "fi_sockaddr_ip://[::]:0");
    }

    #[test]
    fn sockets_that_text_does_not_tell_are_hexadecimal() {
        let flow = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 1, 9, 0));
        assert!(round_trip(&flow.into()).starts_with("fi_sockaddr_in6://0a00"));
        let mut padded = socket("127.0.0.1:4242").bytes().to_vec();
        padded[15] = 1;
        let text = round_trip(&addr(AddressFormat::SOCKADDR_IN, &padded));
        assert_eq!(text, "fi_sockaddr_in://020010927f0000010000000000000001");
        assert_eq!(round_trip(&addr(AddressFormat::SOCKADDR_IN, &padded[..3])), "fi_sockaddr_in://020010");
        let family = addr(AddressFormat::SOCKADDR_IN6, socket("1.2.3.4:5").bytes());
        assert!(round_trip(&family).starts_with("fi_sockaddr_in6://0200"));
    }

    #[test]
    fn strings() {
        let string = |bytes: &[u8]| round_trip(&addr(AddressFormat::ADDR_STR, bytes));
        assert_eq!(string(b"fi_shm://1234:0\0"), "fi_shm://1234:0");
        assert_eq!(string(b"://\0"), "://");
        assert_eq!(string(b"a://b"), "fi_addr_str://613a2f2f62");
        assert_eq!(string(b"a://\0\0"), "fi_addr_str://613a2f2f0000");
        assert_eq!(string(b"a\0://\0"), "fi_addr_str://61003a2f2f00");
        assert_eq!(string(b"\0"), "fi_addr_str://00");
        assert_eq!(string(b""), "fi_addr_str://");
        assert_eq!(string(b"name\0"), "fi_addr_str://6e616d6500");
        assert!(string(b"127.0.0.1:1\0").starts_with("fi_addr_str://3132"));
        assert!(string(b"fi_addr_efa://00\0").starts_with("fi_addr_str://6669"));
        assert!(string(b"fi_addr_new://00\0").starts_with("fi_addr_str://6669"));
        assert!(string(b"fi_sockaddr_in://1.2.3.4:5\0").starts_with("fi_addr_str://"));
        assert!(string(b"fi_format_7://\0").starts_with("fi_addr_str://"));
        assert!(string(b"fi_sockaddR_in://\0").starts_with("fi_addr_str://"));
        assert_eq!(string(b"a://\xff\0"), "fi_addr_str://613a2f2fff00");
        assert_eq!(string(b"a:// \n\0"), "fi_addr_str://613a2f2f200a00");
        let mut longest = b"a://".to_vec();
        longest.resize(511, b'x');
        longest.push(0);
        assert_eq!(string(&longest).len(), 511);
        longest[511] = b'x';
        string(&longest);
        let too_long = String::from_utf8(longest).unwrap();
        assert_eq!(too_long.parse::<EndpointAddr>(), Err(AddressError::TooLong));
    }

    #[test]
    fn every_format_comes_back() {
        let samples: [&[u8]; 4] = [b"", b"\0", b"a://b\0", &[0xff; EndpointAddr::MAX_LEN]];
        for number in (0..40).chain([4242, u32::MAX]) {
            for bytes in samples {
                round_trip(&addr(AddressFormat::from_raw(number), bytes));
            }
        }
        let text = |format, bytes| addr(format, bytes).to_string();
        assert_eq!(text(AddressFormat::ADDR_EFA, &[0xfe, 0x80]), "fi_addr_efa://fe80");
        assert_eq!(text(AddressFormat::UNSPEC, &[1]), "fi_format_unspec://01");
        assert_eq!(text(AddressFormat::from_raw(4242), &[1]), "fi_format_4242://01");
    }

    #[test]
    fn arbitrary_bytes_come_back() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        };
        for _ in 0..2000 {
            let format = AddressFormat::from_raw(u32::from(next() % 20));
            let len = usize::from(next() % 40);
            let bytes: Vec<u8> = (0..len).map(|_| next() & next()).collect();
            round_trip(&addr(format, &bytes));
        }
    }

    #[test]
    fn other_text_is_an_error() {
        for text in [
            "",
            "name",
            "127.0.0.1",
            "::1",
            "fi_addr_efa://f",
            "fi_addr_efa://xy",
            "fi_addr_efa://+1",
            "fi_addr_efa://1.2.3.4:5",
            "fi_addr_efa://é",
            "fi_addr_none://00",
            "fi_sockaddr_in://[::1]:4242",
            "fi_sockaddr_in6://127.0.0.1:4242",
            "fi_sockaddr_in://127.0.0.1",
            "fi_format_://00",
            "fi_format_4294967296://00",
            "fi_shm:// ",
            "fi_shm://\0",
        ] {
            assert_eq!(text.parse::<EndpointAddr>(), Err(AddressError::Malformed), "{text:?}");
        }
        let long = format!("fi_addr_efa://{}", "00".repeat(EndpointAddr::MAX_LEN + 1));
        assert_eq!(long.parse::<EndpointAddr>(), Err(AddressError::TooLong));
    }
}
