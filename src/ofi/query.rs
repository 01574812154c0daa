//! Asking libfabric what there is: `fi_getinfo`.

#![allow(unsafe_code, reason = "calls `fi_getinfo` and owns the list that it returns")]

use core::error::Error;
use core::ffi::c_char;
use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use loom_core::objects::info::{Hints, Info};
use loom_core::vocabulary::{Errno, Mode, MrMode, Version};

use super::call::errno;
use super::info::RawInfo;
use super::level::Level;
use super::quirks;
use super::sys;
use super::text::{CText, TextError};
use super::transport::Ofi;

/// The version of the headers that the bindings were made from; also the API version that is asked for.
const HEADERS: Version = {
    const fn narrow(number: u32) -> u16 {
        assert!(number <= u16::MAX as u32);
        #[expect(clippy::cast_possible_truncation, reason = "compared above")]
        let number = number as u16;
        number
    }
    Version::new(narrow(sys::FI_MAJOR_VERSION), narrow(sys::FI_MINOR_VERSION))
};

/// The version of the libfabric that is running, which may be newer than the headers at build time.
///
/// # References
/// - `man fi_version`
#[doc(alias = "fi_version")]
#[must_use]
pub fn library_version() -> Version {
    // SAFETY: no arguments, no state.
    Version::from_raw(unsafe { sys::fi_version() })
}

/// Which text of [`Hints`] an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextField {
    /// [`Hints::provider`]
    Provider,
    /// [`Hints::fabric`]
    Fabric,
    /// [`Hints::domain`]
    Domain,
    /// [`Hints::node`]
    Node,
    /// [`Hints::service`]
    Service,
}

impl fmt::Display for TextField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TextField::Provider => "provider",
            TextField::Fabric => "fabric",
            TextField::Domain => "domain",
            TextField::Node => "node",
            TextField::Service => "service",
        })
    }
}

/// Why a query has no infos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryError {
    /// No provider offers what the hints ask for.
    NoMatch,
    /// The libfabric that is running is older than the headers at build time, so structures may differ.
    LibraryTooOld {
        /// Version of the headers.
        headers: Version,
        /// Version of the library.
        library: Version,
    },
    /// A text has a zero byte in it.
    InteriorNul(TextField),
    /// A text is too long.
    TooLong {
        /// Which.
        field: TextField,
        /// The longest that is possible, in bytes.
        max: usize,
    },
    /// [`Hints::listen`] names this side's own address, but there is neither node nor service.
    NothingToListenOn,
    /// Something else that libfabric reports.
    Errno(Errno),
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::NoMatch => f.write_str("no provider offers what is asked for"),
            QueryError::LibraryTooOld { headers, library } => {
                write!(f, "libfabric {library} is running, older than {headers}, which this program was built with")
            }
            QueryError::InteriorNul(field) => write!(f, "the {field} has a zero byte in it"),
            QueryError::TooLong { field, max } => write!(f, "the {field} is longer than {max} bytes"),
            QueryError::NothingToListenOn => f.write_str("listening needs a node or a service"),
            QueryError::Errno(errno) => write!(f, "fi_getinfo: {errno}"),
        }
    }
}

impl Error for QueryError {}

impl<L: Level> Ofi<L> {
    /// What libfabric offers, the best first, as libfabric ranks it.
    ///
    /// Beyond the hints, the query says what loom is ready for by itself: contexts (`FI_CONTEXT`, `FI_CONTEXT2`),
    /// registration with virtual addresses, allocated memory and keys of the provider (`FI_MR_VIRT_ADDR`,
    /// `FI_MR_ALLOCATED`, `FI_MR_PROV_KEY`), and the threading of the level `L`.
    ///
    /// Names are names, not patterns: an info is returned only if its provider, fabric and domain are called exactly
    /// as asked, upper and lower case being the same. `tcp` is therefore never answered with `tcp;ofi_rxm`, and
    /// libfabric's `^provider` for exclusion matches nothing.
    ///
    /// # Errors
    /// - [`QueryError::NoMatch`] if nothing fits.
    /// - [`QueryError::LibraryTooOld`] if a library older than the headers was loaded.
    /// - The others if the hints cannot be handed to libfabric, or for what else it reports.
    ///
    /// # References
    /// - `man fi_getinfo`
    #[doc(alias = "fi_getinfo")]
    pub fn query(hints: &Hints<'_>) -> Result<InfoList<L>, QueryError> {
        let library = library_version();
        if library < HEADERS {
            return Err(QueryError::LibraryTooOld { headers: HEADERS, library });
        }
        if hints.listen && hints.node.is_none() && hints.service.is_none() {
            return Err(QueryError::NothingToListenOn);
        }
        let provider = c_text(hints.provider, TextField::Provider)?;
        let fabric = c_text(hints.fabric, TextField::Fabric)?;
        let domain = c_text(hints.domain, TextField::Domain)?;
        let node = c_text(hints.node, TextField::Node)?;
        let service = c_text(hints.service, TextField::Service)?;

        let mut request = Request::new(hints, L::THREADING.as_raw()).ok_or(QueryError::Errno(Errno::ENOMEM))?;
        request.name(provider.as_ref(), fabric.as_ref(), domain.as_ref());
        let flags = if hints.listen { sys::FI_SOURCE } else { 0 };
        let mut found = ptr::null_mut();
        // SAFETY: the strings and the hints outlive the call, which keeps none of them; `found` receives a list that is
        // ours to free.
        let code = unsafe {
            sys::fi_getinfo(
                HEADERS.as_raw(),
                pointer(node.as_ref()),
                pointer(service.as_ref()),
                flags,
                request.info.as_ptr(),
                &raw mut found,
            )
        };
        drop(request);
        if code != 0 {
            return Err(match errno(code as isize) {
                Errno::ENODATA => QueryError::NoMatch,
                other => QueryError::Errno(other),
            });
        }
        let mut list = InfoList { head: NonNull::new(found), level: PhantomData };
        list.retain(|info| info.is_named(hints.provider, hints.fabric, hints.domain));
        if list.head.is_none() { Err(QueryError::NoMatch) } else { Ok(list) }
    }
}

fn c_text(text: Option<&str>, field: TextField) -> Result<Option<CText>, QueryError> {
    text.map(CText::new).transpose().map_err(|error| match error {
        TextError::InteriorNul => QueryError::InteriorNul(field),
        TextError::TooLong => QueryError::TooLong { field, max: CText::MAX_LEN },
    })
}

fn pointer(text: Option<&CText>) -> *const c_char {
    text.map_or(ptr::null(), CText::as_ptr)
}

/// Hints in C's form.
///
/// The names in it are lent for the call of `fi_getinfo` only and taken out before libfabric frees the rest, so that
/// nothing of ours is handed to C's `free`, and nothing needs `malloc`.
struct Request<'a> {
    info: RawInfo,
    names: PhantomData<&'a CText>,
}

impl<'a> Request<'a> {
    fn new(hints: &Hints<'_>, threading: u32) -> Option<Self> {
        let mut request = Request { info: RawInfo::empty()?, names: PhantomData };
        let info = request.fields();
        info.caps = hints.caps.bits();
        info.mode = (Mode::CONTEXT | Mode::CONTEXT2).bits();
        info.addr_format = hints.addr_format.as_raw();
        let tx = info.tx_attr;
        let rx = info.rx_attr;
        let endpoint = info.ep_attr;
        let domain = info.domain_attr;
        // SAFETY: an empty info has all its parts, or none for lack of memory; they belong to it alone.
        unsafe { tx.as_mut() }?.msg_order = hints.msg_order.bits();
        // SAFETY: as above.
        unsafe { rx.as_mut() }?.msg_order = hints.msg_order.bits();
        // SAFETY: as above.
        unsafe { endpoint.as_mut() }?.type_ = hints.endpoint.as_raw();
        // SAFETY: as above.
        let domain = unsafe { domain.as_mut() }?;
        domain.threading = threading;
        domain.control_progress = hints.control_progress.as_raw();
        domain.data_progress = hints.data_progress.as_raw();
        domain.resource_mgmt = hints.resource_mgmt.as_raw();
        let mr_mode = MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY | hints.mr_mode;
        domain.mr_mode = mr_mode.bits().cast_signed();
        Some(request)
    }

    fn fields(&mut self) -> &mut sys::fi_info {
        // SAFETY: the info is owned, and borrowed exclusively.
        unsafe { &mut *self.info.as_ptr() }
    }

    fn name(&mut self, provider: Option<&'a CText>, fabric: Option<&'a CText>, domain: Option<&'a CText>) {
        self.set_names(pointer(provider), pointer(fabric), pointer(domain));
    }

    fn set_names(&mut self, provider: *const c_char, fabric: *const c_char, domain: *const c_char) {
        let (fabric_attr, domain_attr) = (self.fields().fabric_attr, self.fields().domain_attr);
        // SAFETY: null, or a part of the info, which is borrowed exclusively.
        if let Some(attr) = unsafe { fabric_attr.as_mut() } {
            attr.prov_name = provider.cast_mut();
            attr.name = fabric.cast_mut();
        }
        // SAFETY: as above.
        if let Some(attr) = unsafe { domain_attr.as_mut() } {
            attr.name = domain.cast_mut();
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.set_names(ptr::null(), ptr::null(), ptr::null());
    }
}

/// What a query found, the best first. Taking an info out of it allocates nothing.
#[must_use]
pub struct InfoList<L: Level> {
    /// The list that `fi_getinfo` returned, less what was taken out; owned.
    head: Option<NonNull<sys::fi_info>>,
    level: PhantomData<L>,
}

// SAFETY: as for `RawInfo`: plain memory of the C allocator. The pointers to open objects that libfabric may have put
// into it are not followed; `RawInfo::adopt` clears them.
unsafe impl<L: Level> Send for InfoList<L> {}
// SAFETY: a shared list is only counted.
unsafe impl<L: Level> Sync for InfoList<L> {}

impl<L: Level> InfoList<L> {
    fn pop(&mut self) -> Option<RawInfo> {
        let head = self.head?;
        // SAFETY: the list is owned; its elements are valid.
        self.head = NonNull::new(unsafe { (*head.as_ptr()).next });
        // SAFETY: the element is not in the list any more.
        Some(unsafe { RawInfo::adopt(head) })
    }

    /// Frees the infos that are not wanted.
    fn retain(&mut self, wanted: impl Fn(&RawInfo) -> bool) {
        let mut kept = None;
        let mut last: Option<NonNull<sys::fi_info>> = None;
        while let Some(info) = self.pop() {
            if !wanted(&info) {
                continue;
            }
            let info = core::mem::ManuallyDrop::new(info);
            let element = NonNull::new(info.as_ptr());
            match (last, element) {
                // SAFETY: the last element that was kept is owned by `kept`, a list which nobody else knows.
                (Some(last), Some(element)) => unsafe { (*last.as_ptr()).next = element.as_ptr() },
                _ => kept = element,
            }
            last = element;
        }
        self.head = kept;
    }
}

impl<L: Level> Iterator for InfoList<L> {
    type Item = Info<Ofi<L>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut info = self.pop()?;
        quirks::have_keys_checked(&mut info);
        Some(Info::from_raw(info))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let mut count = 0;
        let mut at = self.head;
        while let Some(element) = at {
            count += 1;
            // SAFETY: the list is owned; its elements are valid.
            at = NonNull::new(unsafe { (*element.as_ptr()).next });
        }
        (count, Some(count))
    }
}

impl<L: Level> ExactSizeIterator for InfoList<L> {}
impl<L: Level> FusedIterator for InfoList<L> {}

impl<L: Level> Drop for InfoList<L> {
    fn drop(&mut self) {
        if let Some(head) = self.head {
            // SAFETY: the rest of the list is owned, and freed here only.
            unsafe { sys::fi_freeinfo(head.as_ptr()) };
        }
    }
}

impl<L: Level> fmt::Debug for InfoList<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InfoList({} infos)", self.len())
    }
}
