//! Members of a group on one thread, and elements of a plain computation.

use allocator_api2::alloc::Global;
use loom_core::atomic::{Complex, Element};
use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{CollectiveGroup, Endpoint};
use loom_core::engine::address_table::AddressSet;
use loom_core::error::{PostError, Rejected};
use loom_core::soft::{Network, NetworkAttr, Plan, Soft};
use loom_core::vocabulary::AtomicOp;
use loom_core::{Caps, Hints, Info, OpKey, Spins};

pub(crate) type Buf = Vec<u8>;
pub(crate) type Queue = Cq<'static, Soft<'static>, Buf>;
pub(crate) type Member = Endpoint<'static, Soft<'static>, Buf>;
pub(crate) type Group = CollectiveGroup<'static, Soft<'static>, Buf>;

/// Limit of polls, which no test here reaches.
pub(crate) const LIMIT: Spins = Spins(100_000);

/// Opens a network for this number of members, with few messages.
pub(crate) fn network(members: u16, groups: u16) -> Network<'static> {
    let attr = NetworkAttr {
        endpoints: members,
        tx_depth: 2,
        rx_depth: 2,
        eager_size: 0,
        regions: 0,
        lanes: 0,
        groups,
        ..NetworkAttr::DEFAULT
    };
    Network::new(attr).expect("memory")
}

/// An info with collective operations, which a strict network only grants on request.
pub(crate) fn info(network: &Network<'static>) -> Info<Soft<'static>> {
    let hints = Hints { caps: Caps::MSG | Caps::COLLECTIVE, ..Hints::default() };
    network.query(&hints).expect("it has collective operations")
}

pub(crate) struct Members {
    pub(crate) network: Network<'static>,
    pub(crate) domain: Domain<'static, Soft<'static>>,
    pub(crate) av: Av<'static, Soft<'static>>,
    pub(crate) cq: Queue,
    pub(crate) endpoints: Vec<Member>,
}

impl Members {
    pub(crate) fn new(size: usize) -> Self {
        Self::with_faults(size, None)
    }

    /// Opens the world with this plan, if any, for every endpoint.
    pub(crate) fn with_faults(size: usize, plan: Option<Plan>) -> Self {
        let places = u16::try_from(size).expect("few");
        let network = network(places, 2);
        let info = plan.map_or_else(|| info(&network), |plan| network.info_with_faults(plan));
        let domain = Domain::open(&info).expect("a domain");
        let av = Av::open(&domain, size).expect("a vector");
        let cq = Cq::open(&domain, CqAttr { endpoints: places, ..CqAttr::new(size * 8) }).expect("a queue");
        let endpoints: Vec<_> = (0..size).map(|_| cq.endpoint(&av).expect("an endpoint")).collect();
        for endpoint in &endpoints {
            av.insert(&endpoint.address().expect("an address")).expect("a place");
        }
        Members { network, domain, av, cq, endpoints }
    }

    pub(crate) fn set(&self) -> AddressSet<Global> {
        let mut set = self.av.set_in(self.av.peer_table().iter().count(), Global).expect("memory");
        self.av.peer_table().iter().for_each(|peer| assert!(set.insert(peer).expect("room")));
        set
    }

    pub(crate) fn join(&self) -> Vec<Group> {
        let groups = join(self);
        for (rank, group) in groups.iter().enumerate() {
            assert_eq!((group.rank(), group.size(), group.is_joined()), (rank, groups.len(), Ok(true)));
        }
        groups
    }

    pub(crate) fn post(&self, buf: Buf, post: impl Fn(Buf) -> Result<OpKey, Rejected<Buf>>) -> OpKey {
        self.cq.post(buf, LIMIT, post).expect("the post is taken")
    }

    pub(crate) fn retry(&self, post: impl Fn() -> Result<OpKey, PostError>) -> OpKey {
        self.cq.retry(LIMIT, post).expect("the post is taken")
    }

    pub(crate) fn all(&self, keys: Vec<OpKey>) -> Vec<Buf> {
        let finish = |key| {
            let (buf, result) = self.cq.finish(key, LIMIT).expect("it ends").into_parts();
            assert_eq!(result.expect("it succeeds").len, buf.len());
            buf
        };
        keys.into_iter().map(finish).collect()
    }
}

pub(crate) fn join(members: &Members) -> Vec<Group> {
    let set = members.set();
    members.endpoints.iter().map(|member| member.join_collective(&set).expect("room")).collect()
}

/// Elements and their operations, independent of the transport.
pub(crate) trait Plain: Element + PartialEq {
    /// Derives a small element from a number. Products of a few elements stay within the exact
    /// range of a type.
    fn drawn(number: u64) -> Self;
    fn combined(self, op: AtomicOp, other: Self) -> Self;
    fn to_bytes(self) -> Vec<u8>;
}

macro_rules! integers {
    ($($Type:ty),*) => {$(
        impl Plain for $Type {
            fn drawn(number: u64) -> Self {
                #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_lossless, reason = "any bits will do")]
                { number as $Type }
            }

            fn combined(self, op: AtomicOp, other: Self) -> Self {
                let truth = |holds: bool| <$Type>::from(holds);
                match op {
                    AtomicOp::MIN => if other < self { other } else { self },
                    AtomicOp::MAX => if other > self { other } else { self },
                    AtomicOp::SUM => self.wrapping_add(other),
                    AtomicOp::PROD => self.wrapping_mul(other),
                    AtomicOp::LOR => truth(self != 0 || other != 0),
                    AtomicOp::LAND => truth(self != 0 && other != 0),
                    AtomicOp::LXOR => truth((self != 0) != (other != 0)),
                    AtomicOp::BOR => self | other,
                    AtomicOp::BAND => self & other,
                    AtomicOp::BXOR => self ^ other,
                    _ => panic!("{op} is no reduction"),
                }
            }

            fn to_bytes(self) -> Vec<u8> {
                self.to_ne_bytes().to_vec()
            }
        }
    )*};
}
integers!(i8, u8, i16, u16, i32, u32, i64, u64, i128, u128);

macro_rules! floats {
    ($($Type:ty),*) => {$(
        impl Plain for $Type {
            fn drawn(number: u64) -> Self {
                <$Type>::from(i8::try_from(number % 7).expect("less than seven")) / 2.0 - 1.0
            }

            #[allow(clippy::float_cmp, reason = "zero has one representation that compares")]
            fn combined(self, op: AtomicOp, other: Self) -> Self {
                let truth = |holds: bool| if holds { 1.0 } else { 0.0 };
                match op {
                    AtomicOp::MIN => if other < self { other } else { self },
                    AtomicOp::MAX => if other > self { other } else { self },
                    AtomicOp::SUM => self + other,
                    AtomicOp::PROD => self * other,
                    AtomicOp::LOR => truth(self != 0.0 || other != 0.0),
                    AtomicOp::LAND => truth(self != 0.0 && other != 0.0),
                    AtomicOp::LXOR => truth((self != 0.0) != (other != 0.0)),
                    _ => panic!("{op} is no reduction of floats"),
                }
            }

            fn to_bytes(self) -> Vec<u8> {
                self.to_ne_bytes().to_vec()
            }
        }

        impl Plain for Complex<$Type> {
            fn drawn(number: u64) -> Self {
                Complex { re: Plain::drawn(number), im: Plain::drawn(number >> 8) }
            }

            fn combined(self, op: AtomicOp, other: Self) -> Self {
                let is = |of: Self| of.re != 0.0 || of.im != 0.0;
                let truth = |holds: bool| Complex { re: if holds { 1.0 } else { 0.0 }, im: 0.0 };
                match op {
                    AtomicOp::SUM => Complex { re: self.re + other.re, im: self.im + other.im },
                    AtomicOp::PROD => Complex {
                        re: self.re * other.re - self.im * other.im,
                        im: self.re * other.im + self.im * other.re,
                    },
                    AtomicOp::LOR => truth(is(self) || is(other)),
                    AtomicOp::LAND => truth(is(self) && is(other)),
                    AtomicOp::LXOR => truth(is(self) != is(other)),
                    _ => panic!("{op} is no reduction of complex numbers"),
                }
            }

            fn to_bytes(self) -> Vec<u8> {
                [self.re.to_ne_bytes(), self.im.to_ne_bytes()].concat()
            }
        }
    )*};
}
floats!(f32, f64);

/// Elements of each member, derived from a seed.
pub(crate) fn drawn<E: Plain>(seed: u64, members: usize, each: usize) -> Vec<Vec<E>> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        E::drawn(state >> 29)
    };
    (0..members).map(|_| (0..each).map(|_| next()).collect()).collect()
}

pub(crate) fn bytes<E: Plain>(elements: &[E]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_bytes()).collect()
}

/// Operands, with room for this number of results behind them.
pub(crate) fn with_room<E: Plain>(operands: &[E], results: usize) -> Buf {
    let mut buf = bytes(operands);
    // A byte that no result contains.
    buf.resize(buf.len() + results * size_of::<E>(), 0xa5);
    buf
}
