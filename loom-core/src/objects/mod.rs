//! The safe objects, written once over [`Transport`](crate::transport::Transport).

pub mod av;
pub mod counter;
pub mod cq;
pub mod deadline;
pub mod domain;
pub mod endpoint;
pub mod eq;
pub mod info;
mod left_open;
mod lingering;
pub mod mr;
pub mod options;
pub mod registered;
pub mod scope;
