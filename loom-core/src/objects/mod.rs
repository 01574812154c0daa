//! The safe objects, written once over [`Transport`](crate::transport::Transport).
//!
//! A module uses only what stands above it in the list of this file; `.ci/run layers` looks.

pub mod deadline;

pub mod options;

pub mod info;

pub mod query;

mod remote_region;

mod deferred_close;

mod left_open;

pub mod domain;

pub mod atomic;

pub mod av;

pub mod counter;

pub mod cq;

pub mod eq;

pub mod endpoint;

pub mod deferred;

pub mod driver;

pub mod mr;

pub mod registered;

pub mod scope;
