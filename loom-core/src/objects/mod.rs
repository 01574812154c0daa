//! The safe objects, written once over [`Transport`](crate::transport::Transport).

pub mod av;
mod count;
pub mod counter;
pub mod cq;
pub mod deadline;
pub mod domain;
pub mod endpoint;
mod endpoint_options;
pub mod eq;
pub mod info;
mod lingering;
pub mod mr;
pub mod msg_endpoint;
pub mod multicast;
pub mod options;
mod port;
pub mod registered;
pub mod scalable;
mod users;
