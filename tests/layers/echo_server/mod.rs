//! Echo server of several hundred peers in one thread of tokio, beside a plain TCP socket. Every
//! byte of the echoes is verified. Clients die with messages in flight, processes are killed, and
//! the server drains while messages are in flight.
//!
//! Over libfabric's `tcp` the peers have connections. The software transport has no connections, so
//! each client gets its own endpoint at the server, and both exchange addresses and ends through
//! channels. The server code is the same.

mod admin;
mod client;
mod connection;
#[cfg(feature = "libfabric")]
mod libfabric;
mod self_test;
mod server;
mod soft;

/// Environment variable that makes a process a client: the address of its server.
#[cfg(feature = "libfabric")]
const SERVER: &str = "LOOM_ECHO_SERVER";
const CLIENTS: u16 = 200;

/// Cause of a failed test. Every error converts into it.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(format!("{error:#}"))
    }
}

fn report(tested: Result<String, Failure>) {
    match tested {
        Ok(report) => println!("{report}"),
        Err(Failure(text)) => panic!("{text}"),
    }
}

#[test]
fn clients_over_soft_are_served_and_drained() {
    report(soft::self_test(CLIENTS));
}

#[cfg(feature = "libfabric")]
#[test]
fn clients_over_tcp_are_served_and_drained() {
    if !libfabric::is_tested() {
        println!("skipped: tokio needs a descriptor of the queue, which a provider that is not tested is refused");
        return;
    }
    report(libfabric::self_test(CLIENTS));
}

#[cfg(feature = "libfabric")]
#[test]
#[ignore = "a role for the other tests"]
fn role_client() {
    let server = std::env::var(SERVER).expect("the address of a server");
    report(libfabric::run_client(server.parse().unwrap()).map(|()| String::new()));
}
