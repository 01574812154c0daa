use core::fmt;

/// Defines conversions and hexadecimal text of a newtype over `u64`.
macro_rules! hexadecimal {
    ($($Value:ident),+) => {$(
        impl From<u64> for $Value {
            fn from(number: u64) -> Self {
                Self(number)
            }
        }

        impl From<$Value> for u64 {
            fn from(value: $Value) -> Self {
                value.0
            }
        }

        impl fmt::Display for $Value {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::Debug for $Value {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($Value), "({:#x})"), self.0)
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $Value {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                crate::util::serial::hexadecimal::serialize(&self.0, serializer)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $Value {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::util::serial::hexadecimal::deserialize(deserializer).map(Self)
            }
        }
    )+};
}

hexadecimal!(Tag, MemoryKey, RemoteAddr, ImmediateData);

/// Address of a peer in operations, as returned by an address vector.
///
/// ```
/// use loom_core::vocabulary::FabricAddr;
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// // Raw calls name a peer by its fabric address. Operations of loom take the `Peer`.
/// let raw = av.peer_table().addr(to_bob).expect("bob is in the vector");
/// assert_eq!(av.peer(raw), Some(to_bob));
/// # let _: &loom_core::Endpoint<'_, _, Vec<u8>> = &alice;
/// assert_eq!(FabricAddr::default(), FabricAddr::UNSPEC, "zero is an ordinary address");
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
///
/// - `fi_av(3)`
#[doc(alias = "fi_addr_t")]
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FabricAddr(pub u64);

impl FabricAddr {
    /// No particular peer: any sender, in a receive.
    #[doc(alias = "FI_ADDR_UNSPEC")]
    pub const UNSPEC: Self = Self(u64::MAX);

    /// Unknown address: a sender that is not in the address vector, in a completion. Equal to
    /// [`UNSPEC`](Self::UNSPEC).
    #[doc(alias = "FI_ADDR_NOTAVAIL")]
    pub const NOTAVAIL: Self = Self::UNSPEC;

    /// Address of a receive context of the endpoint with this address, in a vector with
    /// `rx_ctx_bits` bits for contexts. `None` if the number does not fit the bits, or the bits are
    /// in use in the address.
    #[doc(alias = "fi_rx_addr")]
    #[must_use]
    pub const fn rx_context(self, index: u16, rx_ctx_bits: u8) -> Option<Self> {
        match rx_ctx_bits {
            // A shift of 64 bits by 64 is not defined.
            0 if index == 0 => Some(self),
            bits @ 1..=16 if (index as u32) < 1 << bits && self.0 >> (64 - bits) == 0 => {
                Some(Self((index as u64) << (64 - bits) | self.0))
            }
            _ => None,
        }
    }
}

impl Default for FabricAddr {
    /// [`UNSPEC`](Self::UNSPEC): zero is an ordinary address.
    fn default() -> Self {
        Self::UNSPEC
    }
}

impl From<u64> for FabricAddr {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl From<FabricAddr> for u64 {
    fn from(addr: FabricAddr) -> Self {
        addr.0
    }
}

impl fmt::Display for FabricAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UNSPEC => f.write_str("unspecified"),
            Self(number) => write!(f, "{number:#x}"),
        }
    }
}

impl fmt::Debug for FabricAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FabricAddr({self})")
    }
}

/// Tag of a tagged message.
///
/// The endpoint's `mem_tag_format` determines the usable bits.
///
/// ```
/// use loom_core::Tag;
///
/// /// The upper half is the kind of a message, the lower half the sender's rank.
/// const fn tag(kind: u32, rank: u32) -> Tag {
///     Tag((kind as u64) << 32 | rank as u64)
/// }
///
/// assert_eq!(tag(1, 0x2a).to_string(), "0x10000002a");
/// ```
///
/// # References
///
/// - `fi_tagged(3)`
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// Tags that a receive accepts: those equal to `tag` in every bit that `ignore` does not set.
///
/// ```
/// use loom_core::{Forever, Source, Tag, TagMatch};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// // The receive takes kind 1 from every rank: the rank is in the lower half.
/// let kind_one = TagMatch { tag: Tag(1 << 32), ignore: 0xffff_ffff };
/// assert!(kind_one.accepts(Tag(1 << 32 | 7)) && !kind_one.accepts(Tag(2 << 32 | 7)));
/// let received = bob.tagged_recv(Source::Any, kind_one, vec![0; 5])?;
/// for tag in [Tag(2 << 32), Tag(1 << 32 | 7)] {
///     cq.retry(Forever, || alice.tagged_inject(to_bob, tag, b"hello"))?;
/// }
/// assert_eq!(cq.finish(received, Forever)?.result()?.tag, Some(Tag(1 << 32 | 7)));
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
///
/// - `fi_tagged(3)`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TagMatch {
    /// The tag to compare with.
    pub tag: Tag,
    /// Bits that are not compared.
    pub ignore: u64,
}

impl TagMatch {
    /// Accepts this tag only.
    #[must_use]
    pub const fn exact(tag: Tag) -> Self {
        Self { tag, ignore: 0 }
    }

    /// Accepts every tag.
    pub const ANY: Self = Self { tag: Tag(0), ignore: u64::MAX };

    /// Returns `true` if a message with the tag `sent` is accepted.
    #[must_use]
    #[inline]
    pub const fn accepts(self, sent: Tag) -> bool {
        (sent.0 ^ self.tag.0) & !self.ignore == 0
    }
}

impl From<Tag> for TagMatch {
    fn from(tag: Tag) -> Self {
        Self::exact(tag)
    }
}

impl fmt::Display for TagMatch {
    /// `0x2a`, `0x2a ignoring 0xff`, or `any`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ignore {
            0 => write!(f, "{}", self.tag),
            u64::MAX => f.write_str("any"),
            ignore => write!(f, "{} ignoring {ignore:#x}", self.tag),
        }
    }
}

/// Key of a registered region, used by peers.
///
/// ```
/// use loom_core::{Access, Mr, RemoteRegion};
///
/// # fixture::domain!(network, domain);
/// let region = Mr::open(&domain, vec![7; 64], Access::REMOTE_READ)?;
/// // The key goes to the peers with the rest of what names the region.
/// let remote = RemoteRegion::from_bytes(&region.remote().to_bytes());
/// assert_eq!(remote.key, region.remote().key);
/// // Each region has another key.
/// let other = Mr::open(&domain, vec![7; 64], Access::REMOTE_READ)?;
/// assert_ne!(other.remote().key, region.remote().key);
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
///
/// - `fi_mr(3)`
#[doc(alias = "fi_mr_key")]
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryKey(pub u64);

impl MemoryKey {
    /// No key: reported by the provider for a region with a key longer than 64 bits.
    #[doc(alias = "FI_KEY_NOTAVAIL")]
    pub const NOTAVAIL: Self = Self(u64::MAX);
}

/// Start of an operation in a peer's region, in bytes.
///
/// With [`MrMode::VIRT_ADDR`](crate::vocabulary::MrMode::VIRT_ADDR) a virtual address of the peer,
/// else an offset into the region.
///
/// ```
/// use loom_core::vocabulary::RemoteAddr;
///
/// assert_eq!(RemoteAddr(4096).checked_add(16), Some(RemoteAddr(4112)));
/// assert_eq!(RemoteAddr(u64::MAX).checked_add(1), None);
/// ```
///
/// # References
///
/// - `fi_rma(3)`
#[doc(alias = "fi_rma_iov")]
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemoteAddr(pub u64);

impl RemoteAddr {
    /// Address `bytes` further on, or `None` past the end of the address space.
    #[must_use]
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(place) => Some(Self(place)),
            None => None,
        }
    }
}

/// Data in a completion instead of in memory.
///
/// ```
/// use loom_core::{Forever, ImmediateData, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let data = ImmediateData(0x1_0000);
/// assert!(data.fits(domain.info().attributes().domain.cq_data_size) && !data.fits(2));
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// cq.post(b"hello".to_vec(), Forever, |message| alice.send_data(to_bob, data, message))?;
/// assert_eq!(cq.finish(received, Forever)?.result()?.data, Some(data));
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
///
/// - `fi_cq(3)`
/// - `fi_domain(3)`, section *CQ data size*
#[doc(alias = "FI_REMOTE_CQ_DATA")]
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImmediateData(pub u64);

impl ImmediateData {
    /// Returns `true` if `bytes` (a domain's `cq_data_size`) can carry this value.
    ///
    /// A size of zero carries no value, not even zero.
    #[must_use]
    pub const fn fits(self, bytes: usize) -> bool {
        // First the case of most providers.
        bytes >= size_of::<u64>() || bytes > 0 && self.0 >> (8 * bytes) == 0
    }
}
