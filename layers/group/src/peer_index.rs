use core::fmt;

/// Number of a peer in a group, from 0. This side has one, too.
///
/// ```
/// use loom_core::Domain;
/// use loom_group::{PeerIndex, Prepared};
///
/// # fixture::domain!(network, domain);
/// # let prepared = Prepared::open(&domain, 2, 16)?;
/// # let itself = prepared.address()?;
/// # let prepared: Prepared<'_, _, Vec<u8>, _> = prepared;
/// // Both members are this side.
/// let group = prepared.connect([&itself; 2])?;
/// // All members but this one, which has the number 0.
/// let others = group.peers().filter(|peer| *peer != PeerIndex(0));
/// assert_eq!(others.collect::<Vec<_>>(), [PeerIndex(1)]);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIndex(pub u32);

impl PeerIndex {
    pub(crate) fn place(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for PeerIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {}", self.0)
    }
}
