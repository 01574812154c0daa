//! Memory of the operating system (Linux): [`Mapping`].

mod mapping;
mod sys;

pub use mapping::{Mapping, MappingAttr, PageSize, Words};
