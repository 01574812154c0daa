//! Layers over every transport: protocols, updates, and a server of many clients on tokio.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests: they fail by panicking")]

mod echo_server;
mod protocols;
mod updates;
