//! A message from one endpoint to another, over any transport.
//!
//! ```text
//! cargo run --example hello                                       the software transport
//! cargo run --example hello -- loom-tcp                           TCP in Rust
//! cargo run --example hello --features libfabric -- shm           a provider of libfabric
//! cargo run --example hello --features libfabric -- 'tcp;ofi_rxm'
//! ```

use std::time::{Duration, Instant};

use loom_fabric::{Av, Cq, Domain, Error, Hints, Info, Network, NetworkAttr, Source, Transport};
use loom_tcp::TcpAttr;

/// Sends a message and receives it.
fn hello<T: Transport + 'static>(info: &Info<T>) -> Result<Vec<u8>, Error> {
    let domain = Domain::open(info)?;
    let (av, cq) = (Av::open(&domain, 16)?, Cq::open(&domain, 64)?);
    let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
    let to_bob = av.insert(&bob.address()?)?;

    // Buffers move into posts and come back out of completions.
    let deadline = Instant::now() + Duration::from_secs(5);
    let received = cq.post(vec![0; 64], deadline, |room| bob.recv(Source::Any, room))?;
    let sent = cq.post(b"hello".to_vec(), deadline, |message| alice.send(to_bob, message))?;
    let (mut bytes, result) = cq.finish(received, deadline)?.into_parts();
    bytes.truncate(result?.len);
    cq.finish(sent, deadline)?.result()?;
    Ok(bytes)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = match std::env::args().nth(1).as_deref() {
        None => hello(&Network::new(NetworkAttr::default())?.info())?,
        Some("loom-tcp") => hello(&loom_tcp::query(&Hints::default(), TcpAttr::DEFAULT)?)?,
        Some(provider) => over(provider)?,
    };
    println!("{}", String::from_utf8_lossy(&bytes));
    Ok(())
}

#[cfg(feature = "libfabric")]
fn over(provider: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    use loom_fabric::{Caps, Local, Ofi};

    let hints = Hints { caps: Caps::MSG, ..Hints::local(provider) };
    let info = Ofi::<Local>::query(&hints)
        .map_err(|error| format!("{error:#}"))?
        .next()
        .ok_or("there is no such provider here")?;
    Ok(hello(&info)?)
}

#[cfg(not(feature = "libfabric"))]
fn over(provider: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    Err(format!("{provider} is a provider of libfabric: --features libfabric").into())
}

#[cfg(test)]
#[path = "../tests/examples/hello.rs"]
mod tests;
