//! The safe objects, written once over [`Transport`](crate::transport::Transport).

pub mod av;
mod count;
pub mod counter;
pub mod cq;
pub mod deadline;
pub mod domain;
pub mod endpoint;
pub mod eq;
pub mod info;
mod lingering;
pub mod mr;
pub mod options;
pub mod registered;
mod users;
