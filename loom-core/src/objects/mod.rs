//! The safe objects, written once over [`Transport`](crate::transport::Transport).

pub mod av;
pub mod cq;
pub mod deadline;
pub mod domain;
pub mod endpoint;
pub mod info;
mod lingering;
pub mod mr;
mod port;
mod users;
