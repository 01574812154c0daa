//! The libfabric transport: [`Ofi`].
//!
//! [`Ofi<Local>`] and [`Ofi<Shared>`] implement [`Transport`](loom_core::transport::Transport) over every libfabric
//! provider. Start with [`Ofi::query`]; everything else is done with the safe objects of `loom_core`.
//!
//! # How it calls libfabric
//!
//! Most of libfabric's API is static inline C, which calls through an object's operation tables
//! (`ep->msg->send(...)`). This module calls through the same tables, from Rust: no C is compiled, and a post inlines
//! down to one indirect call. Where a provider has no table, or no entry in it, the answer is `ENOSYS`. Only the few
//! symbols which libfabric exports are linked: `fi_getinfo`, `fi_freeinfo`, `fi_dupinfo`, `fi_fabric`, `fi_version`,
//! `fi_tostr_r`, `fi_getparams`, `fi_freeparams`.
//!
//! # Files
//!
//! | file | what it holds |
//! |---|---|
//! | `sys` | the generated bindings |
//! | `call` | calling through operation tables; return values |
//! | `level` | threading levels; the handle type with the only `unsafe impl Send` and `Sync` of objects |
//! | `info`, `decode`, `nic` | one `fi_info`: ownership; reading it |
//! | `query`, `request`, `encode`, `list` | `fi_getinfo`: hints in, infos out |
//! | `providers`, `params` | which providers there are; the environment variables that they read |
//! | `text` | C strings without an allocator |
//! | `control` | fabric, domain, address vector, memory region |
//! | `queue` | completion queues |
//! | `endpoint`, `post` | endpoints; posting operations |
//! | `quirks`, `neighbours` | what providers do not survive, and how they are spared it |
//! | `transport` | the implementation of the trait, which names all of the above |

mod call;
mod control;
mod decode;
mod encode;
mod endpoint;
mod info;
mod level;
mod list;
mod neighbours;
mod nic;
mod params;
mod post;
mod providers;
mod query;
mod queue;
mod quirks;
mod request;
pub mod sys;
mod text;
mod transport;

pub use control::{Av, Domain, Fabric, Mr};
pub use endpoint::Endpoint;
pub use info::RawInfo;
pub use level::{Level, Local, Shared};
pub use list::InfoList;
pub use params::{Param, Params, params};
pub use providers::{Provider, Providers, providers};
pub use query::{QueryError, TextField, headers_version, library_version};
pub use queue::Cq;
pub use transport::Ofi;
