//! Network interfaces by name, and their addresses (`rtnetlink`).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use loom_core::error::OpenError;
use loom_core::vocabulary::Errno;
use rustix::fd::OwnedFd;
use rustix::io;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice};

const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`
const DUMP: u16 = 0x301;
/// Lengths in bytes: `struct nlmsghdr`, `struct ifaddrmsg`, and both.
const HEADER: usize = 16;
const ADDRESS: usize = 8;
const REQUEST: u32 = 24;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_F_DEPRECATED: u8 = 0x20;
/// `IFA_F_DADFAILED | IFA_F_TENTATIVE`
const UNUSABLE: u8 = 0x08 | 0x40;

pub(crate) fn index_of(name: &str) -> Option<u32> {
    // The kernel ignores a colon and the rest.
    let is_whole = !name.contains(':');
    open().and_then(|socket| netdevice::name_to_index(socket, name)).ok().filter(|_| is_whole)
}

/// Address of an interface that fits, if possible IPv4, or else global.
pub(crate) fn address_of(name: &str, fits: impl Fn(IpAddr) -> bool) -> Result<SocketAddr, OpenError> {
    let index = index_of(name).ok_or(OpenError::NotOffered("domain"))?;
    let mut best = None;
    let choose = |of: u32, flags: u8, ip: IpAddr| {
        let address = match ip {
            IpAddr::V6(v6) => SocketAddrV6::new(v6, 0, 0, of).into(),
            IpAddr::V4(_) => SocketAddr::new(ip, 0),
        };
        let rank = (ip.is_ipv6(), is_link_local(ip), flags & IFA_F_DEPRECATED);
        if of == index && flags & UNUSABLE == 0 && fits(ip) && best.is_none_or(|(least, _)| rank < least) {
            best = Some((rank, in_scope(address, 0)));
        }
    };
    each_address(choose).map_err(|error| OpenError::Errno(Errno::from_raw(error.raw_os_error())))?;
    best.map(|(_, address)| address).ok_or(OpenError::NoAddress)
}

pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// Address as the kernel returns it. Link-local ones get the scope unless it is zero, because
/// numbers of interfaces differ between hosts.
pub(crate) fn in_scope(address: SocketAddr, scope: u32) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if is_link_local(address.ip()) => {
            let scope = if scope == 0 { v6.scope_id() } else { scope };
            SocketAddrV6::new(*v6.ip(), v6.port(), 0, scope).into()
        }
        _ => SocketAddr::new(address.ip(), address.port()),
    }
}

pub(crate) fn scope_of(address: SocketAddr) -> u32 {
    if let SocketAddr::V6(v6) = address { v6.scope_id() } else { 0 }
}

fn open() -> io::Result<OwnedFd> {
    net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// Passes the interface, flags and value of each address of this host.
fn each_address(mut found: impl FnMut(u32, u8, IpAddr)) -> io::Result<()> {
    let socket = open()?;
    let mut request = [0; REQUEST as usize];
    request[..4].copy_from_slice(&REQUEST.to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETADDR.to_ne_bytes());
    request[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    net::send(&socket, &request, SendFlags::empty())?;
    // Maximum length of an answer.
    let mut answer = [0; 8192];
    loop {
        // The kernel makes the next answer before it returns one.
        let (len, whole) = net::recv(&socket, &mut answer[..], RecvFlags::TRUNC)?;
        if len < whole {
            return Err(io::Errno::MSGSIZE);
        }
        let mut messages = &answer[..len];
        while let Some(len) = word(messages, 0)
            && let Some(kind) = half(messages, 4)
            && let Some(body) = take(&mut messages, len as usize, HEADER)
        {
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => {
                    let code = word(body, 0).unwrap_or_default().cast_signed();
                    return Err(io::Errno::from_raw_os_error(code.wrapping_neg()));
                }
                RTM_NEWADDR => {
                    if let (Some(index), Some(ip)) = (word(body, 4), ip_of(body)) {
                        found(index, body[2], ip);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Own address in a message. `IFA_ADDRESS` may be the other end's.
fn ip_of(message: &[u8]) -> Option<IpAddr> {
    let mut attributes = message.get(ADDRESS..)?;
    let mut own = None;
    while let Some(len) = half(attributes, 0)
        && let Some(kind) = half(attributes, 2)
        && let Some(value) = take(&mut attributes, len.into(), 4)
    {
        if kind == IFA_LOCAL || kind == IFA_ADDRESS && own.is_none() {
            own = Some(value);
        }
    }
    let own = own?;
    let v4 = own.try_into().map(|octets: [u8; 4]| IpAddr::V4(Ipv4Addr::from(octets)));
    v4.or_else(|_| own.try_into().map(|octets: [u8; 16]| IpAddr::V6(Ipv6Addr::from(octets)))).ok()
}

/// Takes a record, and returns its bytes behind the header.
fn take<'b>(records: &mut &'b [u8], len: usize, header: usize) -> Option<&'b [u8]> {
    let body = records.get(header..len)?;
    *records = records.get(len.next_multiple_of(4)..).unwrap_or_default();
    Some(body)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
