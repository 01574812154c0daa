//! The async program of docs/guide.md. The guide shows its functions `serve` and `get`, and what calls them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;

use loom_async::tokio::{Mode, run};
use loom_fabric::{
    Access, Av, Caps, Cq, Domain, Endpoint, Error, Hints, Mr, Network, NetworkAttr, Peer, RemoteRegion, Source,
    Transport,
};
use loom_fabric::{CompletionLevel, CqDriver, SendOptions, Unclaimed};

/// The longest message.
const LONGEST: usize = 256;

/// An endpoint with a queue of its own, and what drives it.
struct Node<T: Transport + 'static> {
    av: Av<'static, T>,
    driver: CqDriver<'static, T, Vec<u8>>,
    endpoint: Endpoint<'static, T, Vec<u8>>,
}

impl<T: Transport + 'static> Node<T> {
    fn open(domain: &Domain<'static, T>) -> Result<Self, Error> {
        let (av, cq) = (Av::open(domain, 4)?, Cq::open(domain, 64)?);
        Ok(Node { endpoint: cq.endpoint(&av)?, driver: CqDriver::open(&cq, Unclaimed::Drop)?, av })
    }
}

/// A server with one value, and a client with a region. The server knows the client.
struct Both<T: Transport + 'static> {
    server: Node<T>,
    values: RefCell<HashMap<Vec<u8>, Vec<u8>>>,
    client: Node<T>,
    to_server: Peer,
    region: Mr<'static, T, Vec<u8>>,
}

fn open() -> Result<Both<impl Transport>, Error> {
    let network = Network::new(NetworkAttr::default())?;
    let hints = Hints { caps: Caps::MSG | Caps::SOURCE | Caps::RMA, ..Hints::default() };
    let domain = Domain::open(&network.query(&hints).expect("it has these"))?;
    let (server, client) = (Node::open(&domain)?, Node::open(&domain)?);
    server.av.insert(&client.endpoint.address()?)?;
    let to_server = client.av.insert(&server.endpoint.address()?)?;
    let region = Mr::open(&domain, vec![0; 1 << 20], Access::REMOTE_WRITE)?;
    let values = RefCell::new(HashMap::from([(b"colour".to_vec(), b"blue".repeat(50_000))]));
    Ok(Both { server, values, client, to_server, region })
}

async fn serve<T: Transport>(node: &Node<T>, values: &RefCell<HashMap<Vec<u8>, Vec<u8>>>) -> Result<Infallible, Error> {
    let Node { driver, endpoint, av } = node;
    let delivered = SendOptions::new().level(CompletionLevel::Delivery);
    loop {
        let received = driver.run(vec![0; LONGEST], |room| endpoint.recv(Source::Any, room)).await?;
        let (request, transfer) = received.into_result()?;
        let Some(client) = transfer.source().and_then(|source| av.peer(source)) else { continue };
        // The client's region in 32 bytes, then the key.
        let Some((region, key)) = request[..transfer.len()].split_first_chunk() else { continue };
        let value = values.borrow().get(key).cloned().unwrap_or_default();
        let len = value.len() as u64;
        if let Some(part) = RemoteRegion::from_bytes(region).part(0, value.len()) {
            let write = |value| endpoint.write_with(client, &[part], delivered, value);
            driver.run(value, write).await?.result()?;
        }
        let reply = len.to_le_bytes().to_vec();
        driver.run(reply, |reply| endpoint.send(client, reply)).await?.result()?;
    }
}

async fn get<T: Transport>(
    node: &Node<T>,
    server: Peer,
    region: &Mr<'static, T, Vec<u8>>,
    key: &[u8],
) -> Result<Vec<u8>, Error> {
    let Node { driver, endpoint, .. } = node;
    // Dropped early, this future gives up the receive.
    let reply = driver.finish(driver.post(vec![0; 8], |room| endpoint.recv(Source::Any, room)).await?);
    let request = [&region.remote().to_bytes()[..], key].concat();
    driver.run(request, |request| endpoint.send(server, request)).await?.result()?;
    let (len, transfer) = reply.await?.into_result()?;
    // The server's word, which may be any number.
    let len: [u8; 8] = len[..transfer.len()].try_into().map_err(|_| Error::Invalid("the reply is a length"))?;
    let len = usize::try_from(u64::from_le_bytes(len)).ok().filter(|len| *len <= region.window().len());
    let mut value = vec![0; len.ok_or(Error::Invalid("the value does not fit into the region"))?];
    region.window().copy_to(0, &mut value)?;
    Ok(value)
}

#[test]
fn get_of_the_guide_has_the_value() -> Result<(), Error> {
    let Both { server, values, client, to_server, region } = &open()?;
    let both = async {
        tokio::select! {
            value = get(client, *to_server, region, b"colour") => value,
            failed = serve(server, values) => match failed? {},
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let value = runtime.block_on(run((&server.driver, &client.driver), Mode::Busy, both))??;
    assert_eq!(value, b"blue".repeat(50_000));
    Ok(())
}

/// Each part of the program that the guide shows, and the compiler does not see there, is as it is here.
#[test]
fn program_of_the_guide_is_this_one() {
    let without_indent = |text: &str| text.lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
    let program = without_indent(include_str!("kv.rs"));
    let shown: Vec<_> = include_str!("../../docs/guide.md").split("```rust,ignore\n").skip(1).collect();
    assert_eq!(shown.len(), 1);
    for part in shown {
        let part = part.split("```").next().unwrap();
        assert!(
            program.contains(&without_indent(part)),
            "tests/page/kv.rs has another program than docs/guide.md:\n{part}"
        );
    }
}
