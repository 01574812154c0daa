//! The cache of registrations against its oracle.

use arbitrary::{Arbitrary, Unstructured};

use crate::cache_world::memory::{PAGE, Use};
use crate::cache_world::oracle::Limits;
use crate::cache_world::{Action, PAGES, play};

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Access {
    Read,
    Write,
    Both,
}

impl From<Access> for Use {
    fn from(access: Access) -> Self {
        match access {
            Access::Read => Use::Read,
            Access::Write => Use::Write,
            Access::Both => Use::Both,
        }
    }
}

/// Range: its pages, and the offsets of its begin and end in them.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Place {
    page: u8,
    pages: u8,
    begin: u8,
    end: i8,
}

impl Place {
    /// Begin and length in the memory.
    fn range(self) -> (usize, usize) {
        const ALL: usize = PAGES * PAGE;
        let begin = usize::from(self.page) % PAGES * PAGE + usize::from(self.begin);
        let end =
            begin.saturating_add_signed(usize::from(self.pages % 4) as isize * PAGE as isize + isize::from(self.end));
        (begin, end.min(ALL).saturating_sub(begin))
    }
}

#[derive(Arbitrary, Debug)]
enum Step {
    Register {
        place: Place,
        headroom: u8,
        access: Access,
    },
    /// Registers a buffer of pages that may be registered already.
    RegisterPage {
        page: u8,
        access: Access,
    },
    RegisterMeanwhile {
        place: Place,
        access: Access,
        gone: Place,
    },
    Use {
        nth: u8,
    },
    Release {
        nth: u8,
    },
    Forget {
        nth: u8,
    },
    Invalidate(Place),
    Flush,
    Notify(Place),
    Flood,
}

impl Step {
    fn action(self) -> Action {
        match self {
            Step::Register { place, headroom, access } => {
                let (at, len) = place.range();
                Action::Register { at, len, headroom: headroom.into(), use_: access.into() }
            }
            Step::RegisterPage { page, access } => {
                Action::Register { at: usize::from(page) % PAGES * PAGE, len: PAGE, headroom: 0, use_: access.into() }
            }
            Step::RegisterMeanwhile { place, access, gone } => {
                let (at, len) = place.range();
                Action::RegisterMeanwhile { at, len, use_: access.into(), pages: gone.range() }
            }
            Step::Use { nth } => Action::Use { nth: nth.into() },
            Step::Release { nth } => Action::Release { nth: nth.into() },
            Step::Forget { nth } => Action::Forget { nth: nth.into() },
            Step::Invalidate(place) => {
                let (at, len) = place.range();
                Action::Invalidate { at, len }
            }
            Step::Flush => Action::Flush,
            Step::Notify(place) => {
                let (at, len) = place.range();
                Action::Notify { at, len }
            }
            Step::Flood => Action::Flood,
        }
    }
}

/// Plays buffers that are registered, used, released and forgotten, over caches of one to eight
/// regions, with notices, and limits of the cache and the provider.
pub fn mr_cache(data: &[u8]) -> usize {
    /// Limit of steps. Longer stories add no states on a few pages.
    const MOST: usize = 100;
    let mut bytes = Unstructured::new(data);
    let Ok((capacity, limit, merged, regions)) = bytes.arbitrary::<(u8, u8, u8, u8)>() else { return 0 };
    // Mostly no limit.
    let pages = |number: u8| if number < 128 { usize::MAX } else { usize::from(number) % PAGES * PAGE };
    let limits = Limits {
        capacity: u32::from(capacity % 8) + 1,
        bytes: pages(limit),
        merged: pages(merged),
        regions: usize::from(regions % 8) + 1,
    };
    let steps = std::iter::from_fn(|| if bytes.is_empty() { None } else { bytes.arbitrary::<Step>().ok() });
    play(limits, steps.take(MOST).map(Step::action))
}
