use core::iter::FusedIterator;

use loom_core::RemoteRegion;

/// Regions of a [`Record`](super::Record), in the order of their owner.
#[derive(Clone, Copy, Debug)]
pub struct Regions<'r>(Source<'r>);

#[derive(Clone, Copy, Debug)]
enum Source<'r> {
    Listed(&'r [RemoteRegion]),
    Encoded(&'r [[u8; RemoteRegion::WIRE_LEN]]),
}

impl<'r> Regions<'r> {
    pub(super) const fn listed(regions: &'r [RemoteRegion]) -> Self {
        Regions(Source::Listed(regions))
    }

    pub(super) const fn encoded(regions: &'r [[u8; RemoteRegion::WIRE_LEN]]) -> Self {
        Regions(Source::Encoded(regions))
    }

    /// Region at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<RemoteRegion> {
        match self.0 {
            Source::Listed(regions) => regions.get(index).copied(),
            Source::Encoded(regions) => regions.get(index).map(RemoteRegion::from_bytes),
        }
    }
}

impl Iterator for Regions<'_> {
    type Item = RemoteRegion;

    fn next(&mut self) -> Option<RemoteRegion> {
        match &mut self.0 {
            Source::Listed(regions) => regions.split_off_first().copied(),
            Source::Encoded(regions) => regions.split_off_first().map(RemoteRegion::from_bytes),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = match self.0 {
            Source::Listed(regions) => regions.len(),
            Source::Encoded(regions) => regions.len(),
        };
        (len, Some(len))
    }
}

impl ExactSizeIterator for Regions<'_> {}
impl FusedIterator for Regions<'_> {}

impl PartialEq for Regions<'_> {
    fn eq(&self, other: &Self) -> bool {
        Iterator::eq(*self, *other)
    }
}

impl Eq for Regions<'_> {}
