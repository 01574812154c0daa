//! Echo server of several hundred peers in one thread of tokio, beside a plain TCP socket: every byte of the echoes is checked, clients die in
//! the middle of messages, processes are killed, and the server drains while messages are in flight.
//!
//! Over libfabric's `tcp` the peers have connections. The software transport has none: each client gets an endpoint of its own at the
//! server, and the two exchange addresses, and the end of each other, through channels. The server is the same code.

mod admin;
mod client;
mod connection;
#[cfg(feature = "libfabric")]
mod libfabric;
mod self_test;
mod server;
mod soft;

/// Environment variable of a process that is a client: the address of its server.
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
