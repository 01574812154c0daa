//! Formats of MXL (Media eXchange Layer).

mod definition;
mod error;
mod info;
mod wire;

pub use self::definition::{FlowDefinition, FlowFormat, FlowId};
pub use self::error::MxlError;
pub use self::info::{Region, TargetInfo};
pub use self::wire::{BounceBuffer, GrainHeader, Immediate};
