use loom_core::transport::{Closing, InFlight};
use loom_core::vocabulary::Errno;

use super::scalable::ScalableContext;
use crate::ofi::info::RawInfo;
use crate::ofi::quirks::av_lock::AvLock;
use crate::ofi::quirks::known_behaviour::Facts;
use crate::ofi::quirks::shm_registry::Group;
use crate::ofi::raw::Raw;
use crate::ofi::sys;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Closable {
    hindered_by: Hindrances,
    among: Among,
}

#[derive(Clone, Copy, Debug)]
struct Hindrances {
    receives: bool,
    /// Those of [`InFlight::transmits`].
    transmits: bool,
    /// Maximum length of reads in bytes.
    reads_above: usize,
    /// Maximum length of truncated messages in bytes.
    truncated_above: usize,
}

#[derive(Clone, Copy, Debug)]
enum Among {
    None,
    /// Insertions into its address vector.
    Vector(AvLock),
    /// Endpoints that have communicated with it.
    Neighbours(Group),
    /// Contexts of its scalable endpoint.
    Contexts(ScalableContext),
}

impl Hindrances {
    const NONE: Self =
        Hindrances { receives: false, transmits: false, reads_above: usize::MAX, truncated_above: usize::MAX };

    fn of(facts: Facts, inject_size: usize) -> Self {
        let limit = |short, long| match (facts.contains(short), facts.contains(long)) {
            (true, true) => usize::MAX,
            (true, false) => inject_size,
            (false, _) => 0,
        };
        Hindrances {
            receives: !facts.contains(Facts::CLOSES_WITH_RECEIVES),
            transmits: !facts.contains(Facts::CLOSES_WITH_SENDS),
            reads_above: limit(Facts::CLOSES_WITH_SHORT_READS, Facts::CLOSES_WITH_LONG_READS),
            // 16 KiB for `ofi_rxm` unless its buffers are set smaller: an injected message fits
            // into one.
            truncated_above: limit(Facts::CLOSES_AFTER_SHORT_TRUNCATED, Facts::CLOSES_AFTER_LONG_TRUNCATED),
        }
    }

    const fn hinder(self, in_flight: InFlight) -> bool {
        self.receives && in_flight.receives > 0
            || self.transmits && in_flight.transmits > 0
            || in_flight.longest_read > self.reads_above
            || in_flight.longest_truncated > self.truncated_above
    }
}

impl Closable {
    pub(crate) const ALWAYS: Self = Closable { hindered_by: Hindrances::NONE, among: Among::None };

    pub(crate) fn of(facts: Facts, info: &RawInfo, group: Option<Group>) -> Self {
        let hindered_by = Hindrances::of(facts, info.attributes().tx.inject_size);
        Closable { hindered_by, among: group.map_or(Among::None, Among::Neighbours) }
    }

    pub(crate) const fn in_turn(self, turn: AvLock) -> Self {
        Closable { among: Among::Vector(turn), ..self }
    }

    pub(crate) const fn context(member: ScalableContext) -> Self {
        Closable { hindered_by: Hindrances::NONE, among: Among::Contexts(member) }
    }

    pub(crate) fn close(
        self,
        in_flight: InFlight,
        fid: Raw<sys::fid>,
        close: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<Closing, Errno> {
        let hindered = self.hindered_by.hinder(in_flight);
        match self.among {
            Among::Neighbours(group) => group.close(fid.pointer(), hindered, close),
            Among::None | Among::Vector(_) | Among::Contexts(_) if hindered => Ok(Closing::Retired),
            Among::None => close().map(|()| Closing::Closed),
            Among::Vector(turn) => turn.take(close).map(|()| Closing::Closed),
            Among::Contexts(member) => member.close(in_flight, close),
        }
    }

    pub(crate) fn leave(self, fid: Raw<sys::fid>, for_good: bool) -> bool {
        match self.among {
            Among::Neighbours(group) => group.leave(fid.pointer(), for_good),
            // A domain's connections, and those of a scalable endpoint's contexts, are driven
            // together.
            Among::None | Among::Vector(_) | Among::Contexts(_) => true,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use core::ptr::NonNull;

    use super::*;

    const INJECT: usize = 4096;

    fn closes(facts: Facts, in_flight: InFlight) -> bool {
        let closable = Closable { hindered_by: Hindrances::of(facts, INJECT), among: Among::None };
        closable.close(in_flight, Raw::opened(NonNull::dangling()), || Ok(())).unwrap() == Closing::Closed
    }

    fn each() -> [InFlight; 6] {
        let nothing = InFlight::NOTHING;
        [
            InFlight { receives: 1, ..nothing },
            InFlight { transmits: 1, ..nothing },
            InFlight { longest_read: 1, ..nothing },
            InFlight { longest_read: INJECT + 1, ..nothing },
            InFlight { longest_truncated: 1, ..nothing },
            InFlight { longest_truncated: INJECT + 1, ..nothing },
        ]
    }

    #[test]
    fn endpoint_of_an_untested_provider_closes_only_without_operations() {
        assert!(closes(Facts::empty(), InFlight::NOTHING));
        assert_eq!(each().map(|in_flight| closes(Facts::empty(), in_flight)), [false; 6]);
    }

    #[test]
    fn endpoint_with_every_fact_is_closed_at_any_time() {
        assert_eq!(each().map(|in_flight| closes(Facts::all(), in_flight)), [true; 6]);
    }

    #[test]
    fn each_missing_fact_prevents_its_kind_of_close() {
        let without = |fact| each().map(|in_flight| closes(Facts::all().difference(fact), in_flight));
        assert_eq!(without(Facts::CLOSES_WITH_RECEIVES), [false, true, true, true, true, true]);
        assert_eq!(without(Facts::CLOSES_WITH_SENDS), [true, false, true, true, true, true]);
        assert_eq!(without(Facts::CLOSES_WITH_SHORT_READS), [true, true, false, false, true, true]);
        assert_eq!(without(Facts::CLOSES_WITH_LONG_READS), [true, true, true, false, true, true]);
        assert_eq!(without(Facts::CLOSES_AFTER_SHORT_TRUNCATED), [true, true, true, true, false, false]);
        assert_eq!(without(Facts::CLOSES_AFTER_LONG_TRUNCATED), [true, true, true, true, true, false]);
    }
}
