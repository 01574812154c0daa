#![allow(unsafe_code, reason = "calls `fi_getinfo` and owns the list that it returns")]

use core::cell::LazyCell;
use core::fmt;
use core::ptr;

use loom_core::Error;
use loom_core::info::Hints;
use loom_core::vocabulary::{DomainAttributes, Errno, Excerpt, Version};

use super::RawInfo;
use super::list::{InfoList, RawList};
use super::request::{Names, Request, addresses_are_sound, pointer};
use super::{encode, names};
use crate::ofi::ffi::call::errno;
use crate::ofi::ffi::text::{CText, TextError};
use crate::ofi::library::{self, Library};
use crate::ofi::quirks::overrun;
use crate::ofi::threading::Level;
use crate::ofi::transport::Ofi;
use crate::ofi::{quirks, sys};

pub(crate) const HEADERS: Version = {
    const fn narrow(number: u32) -> u16 {
        assert!(number <= u16::MAX as u32);
        #[expect(clippy::cast_possible_truncation, reason = "compared above")]
        let number = number as u16;
        number
    }
    Version::new(narrow(sys::FI_MAJOR_VERSION), narrow(sys::FI_MINOR_VERSION))
};

/// Before it, registration modes have other meanings.
const OLDEST: Version = Version::new(1, 5);

/// Version of the headers that loom calls libfabric by: 1.17, or with the feature
/// `libfabric-linked` the version at build time.
#[must_use]
pub const fn headers_version() -> Version {
    HEADERS
}

/// Text of [`Hints`] that an error concerns.
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

impl TextField {
    const fn as_str(self) -> &'static str {
        match self {
            TextField::Provider => "provider",
            TextField::Fabric => "fabric",
            TextField::Domain => "domain",
            TextField::Node => "host",
            TextField::Service => "service",
        }
    }
}

impl fmt::Display for TextField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reason why a query returns no infos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryError {
    /// No provider matches the hints.
    NoMatch,
    /// No provider matches this name, even without the other hints.
    Unknown {
        /// Kind of the name. A layered provider's name has that of each layer.
        field: TextField,
        /// Name.
        name: Excerpt,
        /// [`Hints::listen`], with which a node must be this host.
        listen: bool,
    },
    /// The dynamic loader gives no libfabric.
    LibraryNotFound,
    /// The library has no such function, in the version with 1.17's structures: it is not
    /// libfabric, too new, or incomplete.
    LibrarySymbol {
        /// Name of the function.
        symbol: &'static str,
        /// Version of the function.
        version: &'static str,
        /// Version of the library, if it is libfabric.
        library: Option<Version>,
    },
    /// The library is older than the [headers](headers_version): structures may differ.
    LibraryTooOld {
        /// Version of the headers.
        headers: Version,
        /// Version of the library.
        library: Version,
    },
    /// [`Hints::api_version`] is older than loom supports, or newer than the
    /// [headers](headers_version).
    ApiVersion {
        /// Requested version.
        asked: Version,
        /// Oldest supported version.
        oldest: Version,
        /// Newest supported version.
        newest: Version,
    },
    /// [`Hints::source`] or [`Hints::destination`] does not match its format, differs in format
    /// from the other or [`Hints::addr_format`], or is neither a socket address nor a string.
    Address,
    /// A text contains a zero byte.
    InteriorNul(TextField),
    /// A text is too long.
    TooLong {
        /// Text.
        field: TextField,
        /// Maximum length in bytes.
        max: usize,
    },
    /// [`Hints::listen`] is set without a node or service.
    NothingToListenOn,
    /// [`Hints::listen`] or [`Hints::source`] would name endpoints of shared memory (`shm`, `sm2`),
    /// and no other provider matches. Processes with one name crash, or do not reach each other.
    ChosenName,
    /// `FI_OFI_RXM_SAR_LIMIT` exceeds 1 MiB, or is no decimal number, and only `ofi_rxm` matches.
    SegmentLimit,
    /// Another error of libfabric.
    Errno(Errno),
}

const CHOSEN_NAME: &str = "endpoints of shared memory choose their names themselves: leave out `listen` and `source`";

const NOT_FOUND: &str = "libfabric is not found: install it (Debian and Ubuntu: `apt-get install libfabric1`), or name its file in LOOM_LIBFABRIC";

const SEGMENT_LIMIT: &str =
    "messages are divided that a receiver may not have room for: set FI_OFI_RXM_SAR_LIMIT to 1048576 at most";

impl QueryError {
    /// Returns `true` if libfabric was queried, and no provider matches.
    ///
    /// ```
    /// use loom_fabric::Hints;
    /// use loom_fabric::ofi::{Local, Ofi};
    ///
    /// let shm = Hints { provider: Some("shm"), ..Hints::default() };
    /// let info = match Ofi::<Local>::query(&shm) {
    ///     Ok(mut infos) => infos.next(),
    ///     // The program goes on without.
    ///     Err(error) if error.is_no_match() => None,
    ///     Err(error) => return Err(error.into()),
    /// };
    /// # let _ = info;
    /// # Ok::<_, loom_fabric::Error>(())
    /// ```
    #[must_use]
    pub const fn is_no_match(self) -> bool {
        matches!(self, QueryError::NoMatch | QueryError::Unknown { .. })
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::NoMatch => f.write_str("no provider offers the requested features: `loom info` lists the offers, `FI_LOG_LEVEL=warn` gives the reason"),
            QueryError::Unknown { field: TextField::Provider, name, .. } => {
                write!(f, "libfabric has no provider `{name}`: it has ")?;
                names::write_providers(f)?;
                f.write_str(" (a layered one has both names, as in `tcp;ofi_rxm`)")
            }
            QueryError::Unknown { field: TextField::Node, name, listen: false } => {
                write!(f, "the host `{name}` is unknown, or not reached")
            }
            QueryError::Unknown { field: TextField::Node, name, listen: true } => {
                write!(f, "the host `{name}` is unknown, or not this host, which has the addresses ")?;
                names::write_addresses(f)
            }
            QueryError::Unknown { field: TextField::Service, name, .. } => {
                write!(f, "the service `{name}` is unknown: give the number of a port")
            }
            QueryError::Unknown { field, name, .. } => {
                write!(f, "the {field} `{name}` is unknown: `loom info` lists those of each provider")
            }
            QueryError::LibraryNotFound => {
                write!(f, "{NOT_FOUND} (")?;
                library::write_reasons(f)?;
                f.write_str(")")
            }
            QueryError::LibrarySymbol { symbol, version, library: None } => {
                write!(f, "the library that is found has no {symbol} of version {version}: it is not libfabric")
            }
            QueryError::LibrarySymbol { symbol, version, library: Some(library) } => {
                write!(f, "libfabric {library} has no {symbol} of version {version}: it is too new for this program, or incomplete")
            }
            QueryError::LibraryTooOld { headers, library } => {
                write!(f, "libfabric {library} is running, older than {headers}, which this program was built for")
            }
            QueryError::ApiVersion { asked, oldest, newest } => {
                write!(f, "version {asked} of the interface cannot be requested, but {oldest} to {newest} can")
            }
            QueryError::Address => {
                f.write_str("an address does not match its format, or of another format than the rest")
            }
            QueryError::InteriorNul(field) => write!(f, "the {field} has a zero byte in it"),
            QueryError::TooLong { field, max } => write!(f, "the {field} is longer than {max} bytes"),
            QueryError::NothingToListenOn => f.write_str("listening needs a node or a service"),
            QueryError::ChosenName => f.write_str(CHOSEN_NAME),
            QueryError::SegmentLimit => f.write_str(SEGMENT_LIMIT),
            QueryError::Errno(errno) if f.alternate() => write!(f, "fi_getinfo: {errno}"),
            QueryError::Errno(_) => f.write_str("fi_getinfo failed"),
        }
    }
}

impl core::error::Error for QueryError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            QueryError::Errno(errno) => Some(errno),
            _ => None,
        }
    }
}

/// Drops the versions and lengths of a `QueryError`.
impl From<QueryError> for Error {
    fn from(error: QueryError) -> Self {
        Self::Invalid(match error {
            QueryError::NoMatch => "no provider offers the requested features",
            QueryError::LibraryNotFound => NOT_FOUND,
            QueryError::LibrarySymbol { library: None, .. } => "the library that is found is not libfabric",
            QueryError::LibrarySymbol { library: Some(_), .. } => {
                "the libfabric that is found is too new for this program, or incomplete"
            }
            QueryError::LibraryTooOld { .. } => "the libfabric that runs is older than the headers of the program",
            QueryError::ApiVersion { .. } => "this version of the interface cannot be requested",
            QueryError::Address => {
                "an address of the hints does not match its format, or of another format than the rest"
            }
            QueryError::InteriorNul(_) => "a text of the hints has a zero byte in it",
            QueryError::TooLong { .. } => "a text of the hints is too long",
            QueryError::NothingToListenOn => "listening needs a node or a service",
            QueryError::ChosenName => CHOSEN_NAME,
            QueryError::Unknown { field, name, .. } => return Self::Unknown { what: field.as_str(), name },
            QueryError::SegmentLimit => SEGMENT_LIMIT,
            QueryError::Errno(errno) => return Self::Provider(errno),
        })
    }
}

impl<L: Level> Ofi<L> {
    /// Queries the infos of libfabric, in its order of preference.
    ///
    /// ```
    /// use loom_fabric::ofi::{Local, Ofi, QueryError, TextField};
    /// use loom_fabric::{Caps, Hints};
    ///
    /// let hints = Hints { caps: Caps::MSG | Caps::TAGGED, provider: Some("tcp;ofi_rxm"), ..Hints::default() };
    /// let info = Ofi::<Local>::query(&hints)?.next().expect("a list is not empty");
    /// assert!(info.caps().contains(Caps::TAGGED));
    ///
    /// let hints = Hints { provider: Some("no such provider"), ..Hints::default() };
    /// let error = Ofi::<Local>::query(&hints).map(drop).unwrap_err();
    /// assert!(matches!(error, QueryError::Unknown { field: TextField::Provider, .. }));
    /// assert!(error.to_string().starts_with("libfabric has no provider `no such provider`: it has "));
    /// # Ok::<_, loom_fabric::Error>(())
    /// ```
    ///
    /// The query adds the modes that loom supports: contexts (`FI_CONTEXT`, `FI_CONTEXT2`),
    /// receives that peers' writes use up (`FI_RX_CQ_DATA`), lasting arrays (`FI_ASYNC_IOV`), the
    /// registration modes `FI_MR_VIRT_ADDR`, `FI_MR_ALLOCATED`, `FI_MR_PROV_KEY`, `FI_MR_RMA_EVENT`
    /// and `FI_MR_COLLECTIVE`, and the threading of the level `L`. The program adds its own to
    /// [`Hints::domain_attr`](loom_core::info::Hints::domain_attr): registered buffers
    /// (`FI_MR_LOCAL`, `FI_MR_HMEM`), regions of an endpoint (`FI_MR_ENDPOINT`), and refreshing
    /// them (`FI_MR_MMU_NOTIFY`).
    ///
    /// An info matches only with exactly the requested provider, fabric and domain, without regard
    /// to case: `tcp` does not match `tcp;ofi_rxm`, and `^provider` never matches.
    ///
    /// # Errors
    /// - [`QueryError::NoMatch`] without a match, or [`QueryError::Unknown`] if a name is the
    ///   reason.
    /// - Those of [`Library::get`].
    /// - [`QueryError::ChosenName`] if the hints would name the endpoints of every matching
    ///   provider.
    /// - Others if libfabric cannot take the hints, or reports another error.
    ///
    /// # References
    /// - `man fi_getinfo`
    #[doc(alias = "fi_getinfo")]
    pub fn query(hints: &Hints<'_>) -> Result<InfoList<L>, QueryError> {
        match Self::query_list(hints) {
            Err(error @ (QueryError::NoMatch | QueryError::ChosenName)) => {
                Err(names::unknown::<L>(hints).unwrap_or(error))
            }
            answer => answer,
        }
    }

    pub(crate) fn query_list(hints: &Hints<'_>) -> Result<InfoList<L>, QueryError> {
        let library = Library::get()?;
        if hints.listen && hints.node.is_none() && hints.service.is_none() {
            return Err(QueryError::NothingToListenOn);
        }
        if !addresses_are_sound(hints) {
            return Err(QueryError::Address);
        }
        if !encode::is_expressible(hints) {
            return Err(QueryError::NoMatch);
        }
        let provider = c_text(hints.provider, TextField::Provider)?;
        let fabric = c_text(hints.fabric, TextField::Fabric)?;
        let domain = c_text(hints.domain, TextField::Domain)?;
        let node = c_text(hints.node, TextField::Node)?;
        let service = c_text(hints.service, TextField::Service)?;

        let names = Names { provider: provider.as_ref(), fabric: fabric.as_ref(), domain: domain.as_ref() };
        let request = Request::new(hints, names, L::THREADING).ok_or(QueryError::Errno(Errno::ENOMEM))?;
        let version = requested_version(hints)?;
        let flags =
            if hints.listen { sys::FI_SOURCE } else { 0 } | if hints.numeric_host { sys::FI_NUMERICHOST } else { 0 };
        let mut raw = ptr::null_mut();
        // SAFETY: the strings and the hints outlive the call, which does not keep them. `raw`
        // receives a list that we own.
        let code = unsafe {
            library.fi_getinfo(
                version.as_raw(),
                pointer(node.as_ref()),
                pointer(service.as_ref()),
                flags,
                request.as_ptr(),
                &raw mut raw,
            )
        };
        drop(request);
        let mut list = found(code, raw)?;
        if hints.listen || hints.source.is_some() {
            list.retain(|info| !quirks::are_named_by_processes(info));
            if list.is_empty() {
                return Err(QueryError::ChosenName);
            }
        }
        let requested = hints.caps.union(hints.rx_attr.caps);
        list.retain(|info| {
            info.is_named(hints.provider, hints.fabric, hints.domain)
                && !quirks::untrue_caps(info).intersects(requested)
                && info.attributes().rx.iov_limit >= hints.rx_attr.iov_limit
                && has_keys_and_groups(info, &hints.domain_attr)
        });
        if list.is_empty() {
            return Err(QueryError::NoMatch);
        }
        let divides_longer = LazyCell::new(overrun::divides_longer);
        list.retain(|info| !(quirks::divides(info) && *divides_longer));
        if list.is_empty() { Err(QueryError::SegmentLimit) } else { Ok(InfoList::new(list)) }
    }
}

/// Providers ignore these hints.
fn has_keys_and_groups(info: &RawInfo, requested: &DomainAttributes) -> bool {
    let granted = info.attributes().domain;
    granted.max_ep_auth_key >= requested.max_ep_auth_key && granted.max_group_id >= requested.max_group_id
}

pub(crate) fn found(code: i32, raw: *mut sys::fi_info) -> Result<RawList, QueryError> {
    match code {
        // SAFETY: the call has succeeded, so that we own the list.
        0 => Ok(unsafe { RawList::adopt(raw) }),
        code => Err(match errno(code as isize) {
            Errno::ENODATA => QueryError::NoMatch,
            other => QueryError::Errno(other),
        }),
    }
}

fn requested_version(hints: &Hints<'_>) -> Result<Version, QueryError> {
    let asked = hints.api_version.unwrap_or(HEADERS);
    if (OLDEST..=HEADERS).contains(&asked) {
        Ok(asked)
    } else {
        Err(QueryError::ApiVersion { asked, oldest: OLDEST, newest: HEADERS })
    }
}

fn c_text(text: Option<&str>, field: TextField) -> Result<Option<CText>, QueryError> {
    text.map(CText::new).transpose().map_err(|error| match error {
        TextError::InteriorNul => QueryError::InteriorNul(field),
        TextError::TooLong => QueryError::TooLong { field, max: CText::MAX_LEN },
    })
}
