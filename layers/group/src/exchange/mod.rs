//! Endpoint descriptions that peers exchange as bytes.
//!
//! A [`bootstrap`](crate::bootstrap) distributes each [`Record`].
//!
//! ```
//! use loom_core::vocabulary::{Access, AddressFormat, EndpointAddr, MemoryKey, RemoteAddr};
//! use loom_core::RemoteRegion;
//! use loom_group::exchange::Record;
//!
//! let address = EndpointAddr::new(AddressFormat::ADDR_STR, b"fi_shm://1\0").unwrap();
//! let regions = [RemoteRegion { base: RemoteAddr(0), len: 4096, key: MemoryKey(7), access: Access::REMOTE_READ }];
//! let record = Record::new(address, 4, 0x5eed, &regions);
//!
//! let mut bytes = [0; Record::max_len(1)];
//! let len = record.encode(&mut bytes)?;
//! let read = Record::decode(&bytes[..len]).unwrap();
//! assert_eq!(read.address(), record.address());
//! assert_eq!(read.regions().collect::<Vec<_>>(), regions);
//! # Ok::<_, loom_core::Error>(())
//! ```

mod record;
mod regions;

pub use self::record::Record;
pub use self::regions::Regions;
