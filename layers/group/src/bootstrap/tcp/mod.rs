use core::fmt;
use core::net::SocketAddr;
use std::net::TcpListener;

use loom_core::deadline::Deadline;

use self::hub::Hub;
use self::spoke::Spoke;
use super::error::errno;
use super::{Bootstrap, BootstrapError, Round, check_rank};

mod frame;
mod hub;
mod link;
mod spoke;

/// Attributes of a [`Tcp`], equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpAttr {
    /// Listening address of rank 0.
    pub rendezvous: SocketAddr,
    /// Number of ranks.
    pub size: u32,
    /// Maximum number of bytes of a rank in a round.
    pub limit: usize,
    /// Job number: rank 0 refuses others. It gives no protection.
    pub job: u64,
}

/// Rank that exchanges bytes over TCP connections to rank 0.
///
/// A rank is missing at once when it is dropped or its process ends.
///
/// ```
/// use std::net::TcpListener;
/// use std::time::{Duration, Instant};
///
/// use loom_group::bootstrap::{Bootstrap, Tcp, TcpAttr};
///
/// let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
/// let attr = TcpAttr { rendezvous: listener.local_addr().unwrap(), size: 2, limit: 64, job: 7 };
/// let until = Instant::now() + Duration::from_secs(5);
/// let host = std::thread::spawn(move || {
///     let mut rank = Tcp::host(listener, &attr, &mut { until }).unwrap();
///     assert_eq!(rank.broadcast(0, &mut *b"hello".to_vec(), &mut { until }), Ok(5));
/// });
/// let mut bytes = [0; 64];
/// let mut rank = Tcp::open(&attr, 1, &mut { until }).unwrap();
/// assert_eq!(rank.broadcast(0, &mut bytes, &mut { until }), Ok(5));
/// assert_eq!(&bytes[..5], b"hello");
/// # host.join().unwrap();
/// ```
pub struct Tcp {
    rank: u32,
    size: u32,
    limit: usize,
    number: u32,
    ended: bool,
    side: Side,
}

impl Tcp {
    /// Joins as `rank`. Rank 0 listens at the rendezvous address until all have joined.
    ///
    /// Checks `until` every few milliseconds, and every 500 ms while an address does not answer.
    ///
    /// # Errors
    /// [`BootstrapError::Size`], [`BootstrapError::UnknownRank`], [`BootstrapError::Limit`],
    /// [`BootstrapError::Missing`], [`BootstrapError::Taken`], [`BootstrapError::OutOfMemory`] on
    /// rank 0, [`BootstrapError::Mismatch`] with rank 0, and [`BootstrapError::System`] if rank 0
    /// cannot listen at the address.
    pub fn open(attr: &TcpAttr, rank: u32, until: &mut dyn Deadline) -> Result<Self, BootstrapError> {
        check_rank(rank, attr.size)?;
        if rank > 0 {
            check_limit(attr)?;
            return Ok(Self::of(attr, rank, Side::Spoke(Spoke::open(attr, rank, until)?)));
        }
        let listener = TcpListener::bind(attr.rendezvous)
            .map_err(|error| BootstrapError::System { call: "bind", errno: errno(&error) })?;
        Self::host(listener, attr, until)
    }

    /// Joins as rank 0 with a listener, which closes after all ranks have joined.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open).
    pub fn host(listener: TcpListener, attr: &TcpAttr, until: &mut dyn Deadline) -> Result<Self, BootstrapError> {
        check_rank(0, attr.size)?;
        check_limit(attr)?;
        Ok(Self::of(attr, 0, Side::Hub(Hub::meet(&listener, attr, until)?)))
    }

    const fn of(attr: &TcpAttr, rank: u32, side: Side) -> Self {
        Tcp { rank, size: attr.size, limit: attr.limit, number: 0, ended: false, side }
    }
}

impl Bootstrap for Tcp {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn round(
        &mut self,
        round: Round,
        mine: &[u8],
        visit: &mut dyn FnMut(u32, &[u8]),
        until: &mut dyn Deadline,
    ) -> Result<(), BootstrapError> {
        if self.ended {
            return Err(BootstrapError::Ended);
        }
        let (len, limit) = (mine.len(), self.limit);
        if len > limit {
            return Err(BootstrapError::TooLong { rank: self.rank, len, limit });
        }
        self.number = self.number.wrapping_add(1);
        self.ended = true;
        match &mut self.side {
            Side::Hub(hub) => hub.round((self.number, round.code()), mine, visit, until)?,
            Side::Spoke(spoke) => spoke.round((self.number, round.code()), mine, visit, until)?,
        }
        self.ended = false;
        Ok(())
    }
}

impl fmt::Debug for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tcp").field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}

enum Side {
    Hub(Hub),
    Spoke(Spoke),
}

fn check_limit(attr: &TcpAttr) -> Result<u32, BootstrapError> {
    u32::try_from(attr.limit).map_err(|_| BootstrapError::Limit { limit: attr.limit })
}
