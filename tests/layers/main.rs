//! Layers over the transports: deferred work, protocols, media flows, tagged messages, transfers,
//! updates, and a server of many clients on tokio.

#![allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and share modules with fuzz targets"
)]

mod deferred;
mod echo_server;
mod media;
mod protocols;
mod tagged;
mod transfer;
mod updates;
