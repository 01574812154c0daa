//! Memory of the operating system (Linux): [`Mapping`].

mod error;
mod mapping;
mod sys;

pub use error::MapError;
pub use mapping::{Mapping, MappingAttr, PageSize};
