#![allow(unsafe_code, reason = "owns a list that libfabric allocated")]

use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use loom_core::info::Info;

use super::RawInfo;
use crate::ofi::library::Library;
use crate::ofi::threading::Level;
use crate::ofi::transport::Ofi;
use crate::ofi::{quirks, sys};

pub(crate) struct RawList {
    head: Option<NonNull<sys::fi_info>>,
}

// SAFETY: plain memory of the C allocator, like `RawInfo`. Pointers to open objects in it are not
// followed, and `RawInfo::adopt` clears them.
unsafe impl Send for RawList {}
// SAFETY: a shared list is only counted.
unsafe impl Sync for RawList {}

impl RawList {
    /// # Safety
    /// libfabric has allocated the list, and no other code frees or uses it from now on.
    pub(crate) unsafe fn adopt(head: *mut sys::fi_info) -> Self {
        RawList { head: NonNull::new(head) }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    fn len(&self) -> usize {
        let (mut count, mut at) = (0, self.head);
        while let Some(element) = at {
            count += 1;
            // SAFETY: the list is owned, and its elements are valid.
            at = NonNull::new(unsafe { (*element.as_ptr()).next });
        }
        count
    }

    pub(crate) fn pop(&mut self) -> Option<RawInfo> {
        let head = self.head?;
        // SAFETY: the list is owned, and its elements are valid.
        self.head = NonNull::new(unsafe { (*head.as_ptr()).next });
        // SAFETY: the element is not in the list any more.
        Some(unsafe { RawInfo::adopt(head) })
    }

    pub(crate) fn retain(&mut self, wanted: impl Fn(&RawInfo) -> bool) {
        let mut kept = None;
        let mut last: Option<NonNull<sys::fi_info>> = None;
        while let Some(info) = self.pop() {
            if !wanted(&info) {
                continue;
            }
            let info = ManuallyDrop::new(info);
            let element = NonNull::new(info.as_ptr());
            match (last, element) {
                // SAFETY: `kept` owns the last element, and is not shared.
                (Some(last), Some(element)) => unsafe { (*last.as_ptr()).next = element.as_ptr() },
                _ => kept = element,
            }
            last = element;
        }
        self.head = kept;
    }
}

impl Drop for RawList {
    fn drop(&mut self) {
        if let Some(head) = self.head {
            // SAFETY: the rest of the list is owned, and freed here.
            unsafe { Library::of_object().fi_freeinfo(head.as_ptr()) };
        }
    }
}

impl fmt::Debug for RawList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} infos", self.len())
    }
}

/// Result of a query, in libfabric's order of preference. Removing an info does not allocate.
#[must_use]
pub struct InfoList<L: Level> {
    raw: RawList,
    level: PhantomData<L>,
}

impl<L: Level> InfoList<L> {
    pub(crate) const fn new(raw: RawList) -> Self {
        InfoList { raw, level: PhantomData }
    }
}

impl<L: Level> Iterator for InfoList<L> {
    type Item = Info<Ofi<L>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut info = self.raw.pop()?;
        quirks::correct(&mut info);
        Some(Info::from_raw(info))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.raw.len();
        (count, Some(count))
    }
}

impl<L: Level> ExactSizeIterator for InfoList<L> {}
impl<L: Level> FusedIterator for InfoList<L> {}

impl<L: Level> fmt::Debug for InfoList<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InfoList({:?})", self.raw)
    }
}
