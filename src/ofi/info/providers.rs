#![allow(unsafe_code, reason = "calls `fi_getinfo`")]

use core::fmt;
use core::iter::FusedIterator;
use core::ptr;

use loom_core::transport::Name;
use loom_core::vocabulary::Version;

use super::RawInfo;
use super::list::RawList;
use super::query::{HEADERS, QueryError, found};
use crate::ofi::library::Library;
use crate::ofi::sys;

/// Returns libfabric's providers, usable on this machine or not.
///
/// ```
/// use loom_fabric::ofi;
///
/// let mut providers = ofi::providers()?;
/// let sockets = providers.find(|provider| provider.name() == "sockets").expect("this libfabric has it");
/// println!("{} {}", sockets.name(), sockets.version());
/// # Ok::<_, loom_fabric::Error>(())
/// ```
///
/// # Errors
/// [`QueryError::NoMatch`] without a provider, those of [`Library::get`], or libfabric's.
///
/// # References
/// - `man fi_getinfo`, `FI_PROV_ATTR_ONLY`
#[doc(alias = "FI_PROV_ATTR_ONLY")]
pub fn providers() -> Result<Providers, QueryError> {
    let library = Library::get()?;
    let mut raw = ptr::null_mut();
    // SAFETY: no strings and no hints. `raw` receives a list that we own.
    let code = unsafe {
        library.fi_getinfo(
            HEADERS.as_raw(),
            ptr::null(),
            ptr::null(),
            sys::FI_PROV_ATTR_ONLY,
            ptr::null(),
            &raw mut raw,
        )
    };
    Ok(Providers(found(code, raw)?))
}

/// Providers, see [`providers`].
#[must_use]
#[derive(Debug)]
pub struct Providers(RawList);

/// Provider.
pub struct Provider(RawInfo);

impl Provider {
    /// Name, or an empty string.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name(Name::Provider).unwrap_or("")
    }

    /// Version of the provider.
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.attributes().provider_version
    }
}

impl Iterator for Providers {
    type Item = Provider;

    fn next(&mut self) -> Option<Provider> {
        self.0.pop().map(Provider)
    }
}

impl FusedIterator for Providers {}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("name", &self.name()).field("version", &self.version()).finish()
    }
}
