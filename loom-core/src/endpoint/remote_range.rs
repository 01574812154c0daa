use heapless::Vec;

use super::opened::Opened;
use crate::buffer::{Buffer, IoVecs};
use crate::error::PostError;
use crate::transport::{RemotePart, RmaTarget, Transport};
use crate::vocabulary::remote_region::RemoteRegion;
use crate::vocabulary::{Access, FabricAddr};

pub(super) type Parts = Vec<RemotePart, { IoVecs::MOST }>;

impl<T: Transport, B: Buffer> Opened<'_, T, B> {
    /// Checks a peer's parts: at most `rma_iov_limit`, together as long as the buffer, each with
    /// access `needed`.
    pub(super) fn remote_parts(
        &self,
        remote: &[RemoteRegion],
        total: usize,
        needed: Access,
    ) -> Result<Parts, PostError> {
        let limit = self.limits.rma_iov_limit.min(IoVecs::MOST);
        let too_many = PostError::TooManyPieces { limit };
        if remote.is_empty() || remote.len() > limit {
            return Err(too_many);
        }
        let (mut parts, mut left) = (Parts::new(), total);
        for region in remote {
            check_grant(region, needed)?;
            let len = usize::try_from(region.len).map_err(|_| PostError::OutOfBounds)?;
            left = left.checked_sub(len).ok_or(PostError::OutOfBounds)?;
            let part = RemotePart { addr: region.base, len, key: region.key };
            parts.push(part).map_err(|_| too_many)?;
        }
        if left == 0 { Ok(parts) } else { Err(PostError::OutOfBounds) }
    }
}

#[inline(always)]
pub(super) fn rma_target(
    to: FabricAddr,
    (region, offset): (&RemoteRegion, u64),
    len: usize,
    needed: Access,
) -> Result<RmaTarget, PostError> {
    check_grant(region, needed)?;
    let addr = region.range(offset, len as u64).ok_or_else(|| PostError::OutOfBounds.cold())?;
    Ok(RmaTarget { to, addr, key: region.key })
}

#[inline]
fn check_grant(region: &RemoteRegion, needed: Access) -> Result<(), PostError> {
    let missing = needed.difference(region.access);
    if missing.is_empty() { Ok(()) } else { Err(PostError::RemoteAccess(missing).cold()) }
}
