use core::fmt;

/// Version as packed by libfabric: `FI_VERSION(major, minor)`.
///
/// ```
/// use loom_core::vocabulary::Version;
///
/// let version = Version::new(1, 17);
/// assert_eq!(Version::from_raw(version.as_raw()), version);
/// assert!(version < Version::new(2, 5));
/// assert_eq!(version.to_string(), "1.17");
/// ```
///
/// # References
///
/// - `fi_version(3)`
#[doc(alias = "FI_VERSION")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major number.
    #[doc(alias = "FI_MAJOR")]
    pub major: u16,
    /// Minor number.
    #[doc(alias = "FI_MINOR")]
    pub minor: u16,
}

impl Version {
    /// Version `major.minor`.
    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// Unpacks libfabric's number, with the major number in the high half.
    #[must_use]
    pub const fn from_raw(number: u32) -> Self {
        let [major_high, major_low, minor_high, minor_low] = number.to_be_bytes();
        Self { major: u16::from_be_bytes([major_high, major_low]), minor: u16::from_be_bytes([minor_high, minor_low]) }
    }

    /// Packs into libfabric's number.
    #[must_use]
    pub const fn as_raw(self) -> u32 {
        (self.major as u32) << 16 | self.minor as u32
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Text (`1.17`) in formats for people, else libfabric's number.
#[cfg(feature = "serde")]
impl serde::Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u32(self.as_raw())
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Version {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return <u32 as serde::Deserialize>::deserialize(deserializer).map(Self::from_raw);
        }
        crate::util::serial::text(deserializer, "a version such as 1.17", |text| {
            let (major, minor) = text.split_once('.')?;
            Some(Self { major: crate::util::serial::decimal(major)?, minor: crate::util::serial::decimal(minor)? })
        })
    }
}
