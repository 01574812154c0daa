use core::net::{IpAddr, SocketAddr};

/// Range of consecutive ports (services) at consecutive addresses (nodes).
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::engine::address_table::{AddressTableAttr, AddressTableMemory, SymmetricRange};
///
/// // Four services at each of 250 nodes: 10.0.0.1 to 10.0.0.250, ports 7471 to 7474.
/// let range = SymmetricRange::new("10.0.0.1:7471".parse()?, 250, 4).ok_or("the ports or the addresses end")?;
/// let mut memory = AddressTableMemory::new_in(AddressTableAttr::new(1000), Global)?;
/// let mut table = memory.table();
/// assert_eq!(table.insert_symmetric(range, |_| ())?, 1000);
/// // All of them take one record.
/// assert_eq!(table.ranges(), 1);
/// let peer = table.find("10.0.0.2:7473".parse::<std::net::SocketAddr>()?).ok_or("it is one of them")?;
/// assert_eq!(peer.index(), 4 + 2);
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
///
/// # References
/// - `man fi_av`
#[doc(alias = "fi_av_insertsym")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymmetricRange {
    first: SocketAddr,
    nodes: u32,
    services: u16,
}

/// Member of a range.
///
/// ```
/// use loom_core::engine::address_table::SymmetricRange;
///
/// let range = SymmetricRange::new("10.0.0.255:80".parse()?, 2, 2).ok_or("the ports or the addresses end")?;
/// let sockets = range.members().map(|member| member.socket().to_string());
/// // All services of a node, then the next node.
/// assert!(sockets.eq(["10.0.0.255:80", "10.0.0.255:81", "10.0.1.0:80", "10.0.1.0:81"]));
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangePeer {
    range: SymmetricRange,
    number: u64,
    socket: SocketAddr,
}

impl RangePeer {
    /// Address of the member.
    #[must_use]
    pub const fn socket(&self) -> SocketAddr {
        self.socket
    }
}

impl SymmetricRange {
    /// Creates a range of `services` ports at each of `nodes` addresses, from `first` on. `None` if
    /// the first port is 0, or the range exceeds the last port or address.
    #[must_use]
    pub fn new(first: SocketAddr, nodes: u32, services: u16) -> Option<Self> {
        let nodes = if services == 0 { 0 } else { nodes };
        let range = SymmetricRange { first, nodes, services };
        let whole = nodes == 0 || range.at(nodes - 1, services - 1).is_some();
        (first.port() != 0 && whole).then_some(range)
    }

    /// Number of addresses.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a range is not a collection")]
    pub const fn len(&self) -> u64 {
        self.nodes as u64 * self.services as u64
    }

    /// Members: all services of a node, then the next node.
    pub fn members(self) -> impl Iterator<Item = RangePeer> {
        (0..self.len()).filter_map(move |number| self.member(number))
    }

    fn member(self, number: u64) -> Option<RangePeer> {
        let services = u64::from(self.services);
        let service = u16::try_from(number.checked_rem(services)?).ok()?;
        let socket = self.at(u32::try_from(number / services).ok()?, service)?;
        Some(RangePeer { range: self, number, socket })
    }

    fn at(self, node: u32, service: u16) -> Option<SocketAddr> {
        let mut socket = self.first;
        socket.set_port(self.first.port().checked_add(service)?);
        socket.set_ip(match self.first.ip() {
            IpAddr::V4(ip) => IpAddr::V4(u32::from(ip).checked_add(node)?.into()),
            IpAddr::V6(ip) => IpAddr::V6(u128::from(ip).checked_add(node.into())?.into()),
        });
        Some(socket)
    }

    fn number_of(&self, socket: &SocketAddr) -> Option<u64> {
        let service = socket.port().checked_sub(self.first.port()).filter(|service| *service < self.services)?;
        let node = match (self.first, *socket) {
            (SocketAddr::V4(first), SocketAddr::V4(other)) => other.ip().to_bits().checked_sub(first.ip().to_bits())?,
            (SocketAddr::V6(first), SocketAddr::V6(other)) => {
                if (first.flowinfo(), first.scope_id()) != (other.flowinfo(), other.scope_id()) {
                    return None;
                }
                u32::try_from(other.ip().to_bits().checked_sub(first.ip().to_bits())?).ok()?
            }
            _ => return None,
        };
        (node < self.nodes).then(|| u64::from(node) * u64::from(self.services) + u64::from(service))
    }
}

/// Consecutive members of a range in consecutive slots: one record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    range: SymmetricRange,
    from: u64,
    /// Number of members that got slots.
    count: u32,
    place: u32,
    /// Number of members still present.
    live: u32,
}

impl Segment {
    pub(super) const EMPTY: Segment = Segment {
        range: SymmetricRange {
            first: SocketAddr::V4(core::net::SocketAddrV4::new(core::net::Ipv4Addr::UNSPECIFIED, 0)),
            nodes: 0,
            services: 0,
        },
        from: 0,
        count: 0,
        place: 0,
        live: 0,
    };

    fn covers(&self, place: u32) -> bool {
        place.checked_sub(self.place).is_some_and(|offset| offset < self.count)
    }

    fn is_before(&self, member: &RangePeer, place: u32) -> bool {
        self.range == member.range
            && self.from + u64::from(self.count) == member.number
            && self.place + self.count == place
    }

    fn without(&self, place: u32, is_there: impl Fn(u32) -> bool) -> [Segment; 2] {
        let part = |first: u32, end: u32| Segment {
            from: self.from + u64::from(first - self.place),
            count: end - first,
            place: first,
            ..*self
        };
        let (mut before, mut behind) = (part(self.place, place), part(place + 1, self.place + self.count));
        let others = self.live - u32::from(is_there(place));
        let (short, long) =
            if before.count < behind.count { (&mut before, &mut behind) } else { (&mut behind, &mut before) };
        short.live = (short.place..short.place + short.count).map(|place| u32::from(is_there(place))).sum();
        long.live = others - short.live;
        [before, behind]
    }
}

/// Segments of a table: few enough to check all of them.
#[derive(Debug)]
pub(super) struct Segments<'s> {
    all: &'s mut [Segment],
    pub(super) count: usize,
}

impl<'s> Segments<'s> {
    pub(super) fn new(all: &'s mut [Segment]) -> Self {
        Segments { all, count: 0 }
    }

    #[inline]
    fn used(&self) -> &[Segment] {
        self.all.get(..self.count).unwrap_or_default()
    }

    #[inline]
    pub(super) fn places(&self, socket: SocketAddr) -> impl Iterator<Item = u32> {
        self.used().iter().filter_map(move |segment| {
            let number = segment.range.number_of(&socket)?.checked_sub(segment.from)?;
            let offset = u32::try_from(number).ok().filter(|offset| *offset < segment.count)?;
            Some(segment.place + offset)
        })
    }

    pub(super) fn socket(&self, place: u32) -> Option<SocketAddr> {
        let segment = self.used().iter().find(|segment| segment.covers(place))?;
        Some(segment.range.member(segment.from + u64::from(place - segment.place))?.socket)
    }

    pub(super) fn end_over(&self, place: u32) -> Option<u32> {
        let segment = self.used().iter().find(|segment| segment.covers(place))?;
        Some(segment.place + segment.count)
    }

    pub(super) fn takes(&self, member: &RangePeer, place: u32, is_there: impl Fn(u32) -> bool) -> bool {
        let cut = self.used().iter().find(|segment| segment.covers(place));
        let parts = cut.map(|segment| segment.without(place, is_there));
        let parts = parts.iter().flatten().filter(|part| part.live > 0).count();
        let follows = self.used().iter().any(|segment| segment.is_before(member, place));
        self.count - usize::from(cut.is_some()) + parts + usize::from(!follows) <= self.all.len()
    }

    /// A slot is never in two segments, nor twice in one: a removed member would reappear.
    pub(super) fn add(&mut self, member: &RangePeer, place: u32, is_there: impl Fn(u32) -> bool) {
        self.cut(place, is_there);
        let at = self.used().iter().position(|segment| segment.is_before(member, place)).unwrap_or(self.count);
        let Some(segment) = self.all.get_mut(at) else { return };
        if at < self.count {
            segment.count += 1;
            segment.live += 1;
        } else {
            *segment = Segment { range: member.range, from: member.number, count: 1, place, live: 1 };
            self.count += 1;
        }
    }

    fn cut(&mut self, place: u32, is_there: impl Fn(u32) -> bool) {
        let Some((at, segment)) = self.over(place) else { return };
        let parts = segment.without(place, is_there);
        self.count -= 1;
        self.all.swap(at, self.count);
        for part in parts.into_iter().filter(|part| part.live > 0) {
            let Some(segment) = self.all.get_mut(self.count) else { return };
            *segment = part;
            self.count += 1;
        }
    }

    pub(super) fn come_back(&mut self, place: u32) {
        if let Some((_, segment)) = self.over(place) {
            segment.live += 1;
        }
    }

    pub(super) fn remove(&mut self, place: u32) {
        let Some((at, segment)) = self.over(place) else { return };
        segment.live -= 1;
        if segment.live == 0 {
            self.count -= 1;
            self.all.swap(at, self.count);
        }
    }

    fn over(&mut self, place: u32) -> Option<(usize, &mut Segment)> {
        self.all.iter_mut().take(self.count).enumerate().find(|(_, segment)| segment.covers(place))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::string::{String, ToString};
    use std::vec::Vec;

    use super::*;

    fn range(first: &str, nodes: u32, services: u16) -> Option<Vec<String>> {
        let range = SymmetricRange::new(first.parse().unwrap(), nodes, services)?;
        let all: Vec<_> = range.members().collect();
        assert_eq!(all.len() as u64, range.len());
        for (number, member) in (0..).zip(&all) {
            assert_eq!(range.number_of(&member.socket), Some(number));
        }
        Some(all.iter().map(|member| member.socket.to_string()).collect())
    }

    #[test]
    fn taking_a_place_out_of_a_segment_looks_at_the_shorter_part() {
        let range = SymmetricRange::new("10.0.0.1:1".parse().unwrap(), 100, 1).unwrap();
        let segment = Segment { range, from: 0, count: 100, place: 7, live: 100 };
        for (place, others) in [(7, 0), (9, 2), (57, 49), (106, 0)] {
            let looks = core::cell::Cell::new(0);
            let parts = segment.without(place, |_| {
                looks.set(looks.get() + 1);
                true
            });
            assert_eq!(parts.map(|part| (part.count, part.live)), [(place - 7, place - 7), (106 - place, 106 - place)]);
            assert_eq!(looks.get(), others + 1, "the place itself, and the shorter part");
        }
    }

    #[test]
    fn services_of_a_node_come_before_the_next_node() {
        let wanted = ["10.1.1.1:5000", "10.1.1.1:5001", "10.1.1.2:5000", "10.1.1.2:5001"];
        assert_eq!(range("10.1.1.1:5000", 2, 2).unwrap(), wanted);
        assert_eq!(range("10.0.0.255:9", 2, 1).unwrap(), ["10.0.0.255:9", "10.0.1.0:9"]);
        assert_eq!(
            range("[fe80::fffe%3]:9", 3, 1).unwrap(),
            ["[fe80::fffe%3]:9", "[fe80::ffff%3]:9", "[fe80::1:0%3]:9"]
        );
        assert!(range("10.0.0.1:1", 0, u16::MAX).unwrap().is_empty());
        assert!(range("10.0.0.1:1", u32::MAX, 0).unwrap().is_empty());
    }

    #[test]
    fn ranges_end_with_the_last_port_and_the_last_address() {
        assert_eq!(range("127.0.0.1:65534", 1, 2).unwrap(), ["127.0.0.1:65534", "127.0.0.1:65535"]);
        assert_eq!(range("127.0.0.1:65534", 1, 3), None);
        assert_eq!(range("255.255.255.255:1", 1, 1).unwrap(), ["255.255.255.255:1"]);
        assert_eq!(range("255.255.255.255:1", 2, 1), None);
        assert_eq!(range("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:1", 2, 1), None);
        assert_eq!(range("127.0.0.1:0", 1, 1), None);
        let largest = SymmetricRange::new("[::]:1".parse().unwrap(), u32::MAX, u16::MAX).unwrap();
        assert_eq!(largest.len(), u64::from(u32::MAX) * u64::from(u16::MAX));
        assert_eq!(largest.number_of(&"[::ffff:fffe]:65535".parse().unwrap()), Some(largest.len() - 1));
    }

    #[test]
    fn addresses_beside_a_range_are_not_in_it() {
        let range = SymmetricRange::new("10.0.1.0:100".parse().unwrap(), 3, 4).unwrap();
        for other in ["10.0.0.255:100", "10.0.1.3:100", "10.0.1.0:99", "10.0.1.0:104", "[::ffff:10.0.1.0]:100"] {
            assert_eq!(range.number_of(&other.parse().unwrap()), None, "{other}");
        }
        let range = SymmetricRange::new("[fe80::1%3]:100".parse().unwrap(), 3, 4).unwrap();
        for other in ["[fe80::1]:100", "[fe80::1%4]:100", "[ff80::1%3]:100", "10.0.1.0:100"] {
            assert_eq!(range.number_of(&other.parse().unwrap()), None, "{other}");
        }
    }
}
