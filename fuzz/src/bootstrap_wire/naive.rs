//! Addresses, read and written by their documentation in the simplest way.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use loom_core::vocabulary::{AddressError, EndpointAddr};

/// Format and bytes.
pub type Parts = (u32, Vec<u8>);

const LONGEST: usize = 512;
const STRING: u32 = 9;

/// Schemes by number, and two of strings.
pub const SCHEMES: [(u32, &str); 21] = [
    (0, "fi_format_unspec"),
    (1, "fi_sockaddr"),
    (2, "fi_sockaddr_in"),
    (3, "fi_sockaddr_in6"),
    (4, "fi_sockaddr_ib"),
    (5, "fi_addr_psmx"),
    (6, "fi_addr_gni"),
    (7, "fi_addr_bgq"),
    (8, "fi_addr_mlx"),
    (9, "fi_addr_str"),
    (10, "fi_addr_psmx2"),
    (11, "fi_addr_ib_ud"),
    (12, "fi_addr_efa"),
    (13, "fi_addr_psmx3"),
    (14, "fi_addr_opx"),
    (15, "fi_addr_cxi"),
    (16, "fi_addr_ucx"),
    (17, "fi_sockaddr_ip"),
    (4242, "fi_format_4242"),
    (STRING, "fi_shm"),
    (STRING, "soft"),
];
/// Number of formats with a name.
const NAMED: usize = 18;

pub fn parts(addr: &EndpointAddr) -> Parts {
    (addr.format().as_raw(), addr.bytes().to_vec())
}

/// Encodes a socket address as `struct sockaddr_in` or `struct sockaddr_in6`.
pub fn socket(socket: SocketAddr) -> Parts {
    match socket {
        SocketAddr::V4(v4) => {
            let parts = [&2_u16.to_ne_bytes()[..], &v4.port().to_be_bytes(), &v4.ip().octets(), &[0; 8]];
            (2, parts.concat())
        }
        SocketAddr::V6(v6) => {
            let (flow, scope) = (v6.flowinfo().to_ne_bytes(), v6.scope_id().to_ne_bytes());
            let parts = [&10_u16.to_ne_bytes()[..], &v6.port().to_be_bytes(), &flow, &v6.ip().octets(), &scope];
            (3, parts.concat())
        }
    }
}

/// Address families of a format.
fn families(format: u32) -> &'static [u32] {
    match format {
        2 => &[2],
        3 => &[3],
        1 | 17 => &[2, 3],
        _ => &[],
    }
}

pub fn as_socket(addr: &EndpointAddr) -> Option<SocketAddr> {
    let (format, bytes) = parts(addr);
    let number = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let family = u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]);
    let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    match (family, bytes.len()) {
        (2, 16) if families(format).contains(&2) => {
            Some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]), port)))
        }
        (10, 28) if families(format).contains(&3) => {
            let octets: [u8; 16] = bytes[8..24].try_into().expect("sixteen bytes");
            Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(octets), port, number(4), number(24))))
        }
        _ => None,
    }
}

pub fn decode(bytes: &[u8]) -> Result<(Parts, usize), AddressError> {
    if bytes.len() < 8 {
        return Err(AddressError::Truncated);
    }
    let number = |at: usize| (0..4).rev().fold(0, |number, byte| number << 8 | u64::from(bytes[at + byte]));
    let (format, len) = (number(0) as u32, number(4));
    match len {
        513.. => Err(AddressError::TooLong),
        len if (bytes.len() as u64) < 8 + len => Err(AddressError::Truncated),
        len => Ok(((format, bytes[8..8 + len as usize].to_vec()), 8 + len as usize)),
    }
}

/// Returns `true` for a valid scheme of a string address.
fn is_free(scheme: &str) -> bool {
    let scheme = scheme.to_ascii_lowercase();
    !["fi_sockaddr", "fi_addr_", "fi_format_"].iter().any(|taken| scheme.starts_with(taken))
}

fn is_visible(text: &str) -> bool {
    text.chars().all(|character| ('!'..='~').contains(&character))
}

pub fn read(text: &str) -> Result<Parts, AddressError> {
    let Some(at) = text.find("://") else {
        return text.parse().map(socket).map_err(|_| AddressError::Malformed);
    };
    let (scheme, body) = (&text[..at], &text[at + 3..]);
    let named = SCHEMES[..NAMED].iter().find(|(_, name)| {
        // Names are read in any case, and prefixes are not.
        scheme.starts_with("fi_") && scheme.to_ascii_lowercase() == *name
    });
    let numbered = || scheme.strip_prefix("fi_format_").and_then(|number| number.parse().ok());
    let Some(format) = named.map(|(format, _)| *format).or_else(numbered) else {
        let allowed = is_free(scheme) && is_visible(text);
        return match text.len() {
            _ if !allowed => Err(AddressError::Malformed),
            LONGEST.. => Err(AddressError::TooLong),
            _ => Ok((STRING, [text.as_bytes(), &[0]].concat())),
        };
    };
    if let Ok(found) = body.parse::<SocketAddr>() {
        let (family, bytes) = socket(found);
        return if families(format).contains(&family) { Ok((format, bytes)) } else { Err(AddressError::Malformed) };
    }
    if body.len() % 2 == 1 {
        return Err(AddressError::Malformed);
    }
    if body.len() / 2 > LONGEST {
        return Err(AddressError::TooLong);
    }
    let digits: Option<Vec<u32>> = body.bytes().map(|digit| char::from(digit).to_digit(16)).collect();
    let digits = digits.ok_or(AddressError::Malformed)?;
    Ok((format, digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()))
}

pub fn print(addr: &EndpointAddr) -> String {
    let (format, bytes) = parts(addr);
    if format == STRING
        && bytes.last() == Some(&0)
        && let Ok(text) = std::str::from_utf8(&bytes[..bytes.len() - 1])
        && is_visible(text)
        && text.split_once("://").is_some_and(|(scheme, _)| is_free(scheme))
    {
        return text.to_owned();
    }
    let named = SCHEMES[..NAMED].iter().find(|(number, _)| *number == format);
    let scheme = named.map_or_else(|| format!("fi_format_{format}"), |(_, name)| (*name).to_owned());
    // A socket address in text has no flow information, and its unused bytes are zero.
    let plain =
        as_socket(addr).filter(|found| found.to_string().parse().map(socket).is_ok_and(|(_, same)| same == bytes));
    match plain {
        Some(found) => format!("{scheme}://{found}"),
        None => format!("{scheme}://{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}
