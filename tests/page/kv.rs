// What the examples of docs/guide.md about async programs begin with. The guide includes this file.

pub use std::cell::RefCell;
pub use std::collections::HashMap;
pub use std::convert::Infallible;

pub use loom_async::tokio::{Mode, run};
pub use loom_fabric::loom_core::objects::driver::{CqDriver, Unclaimed};
pub use loom_fabric::loom_core::objects::options::{CompletionLevel, SendOptions};
pub use loom_fabric::{
    Access, Av, Caps, Cq, Domain, Endpoint, Error, Hints, Mr, Network, NetworkAttr, Peer, RemoteRegion, Source,
    Transport,
};

/// The longest message.
pub const LONGEST: usize = 256;

/// An endpoint with a queue of its own, and what drives it.
pub struct Node<T: Transport + 'static> {
    pub av: Av<'static, T>,
    pub driver: CqDriver<'static, T, Vec<u8>>,
    pub endpoint: Endpoint<'static, T, Vec<u8>>,
}

impl<T: Transport + 'static> Node<T> {
    fn open(domain: &Domain<'static, T>) -> Result<Self, Error> {
        let (av, cq) = (Av::open(domain, 4)?, Cq::open(domain, 64)?);
        Ok(Node { endpoint: cq.endpoint(&av)?, driver: CqDriver::open(&cq, Unclaimed::Drop)?, av })
    }
}

/// A server with one value, and a client with a region. The server knows the client.
pub struct Both<T: Transport + 'static> {
    pub server: Node<T>,
    pub values: RefCell<HashMap<Vec<u8>, Vec<u8>>>,
    pub client: Node<T>,
    pub to_server: Peer,
    pub region: Mr<'static, T, Vec<u8>>,
}

pub fn open() -> Result<Both<impl Transport>, Error> {
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

/// As the guide has it.
pub async fn serve<T: Transport>(
    node: &Node<T>,
    values: &RefCell<HashMap<Vec<u8>, Vec<u8>>>,
) -> Result<Infallible, Error> {
    let Node { driver, endpoint, av } = node;
    let delivered = SendOptions::new().level(CompletionLevel::Delivery);
    loop {
        let received = driver.run(vec![0; LONGEST], |room| endpoint.recv(Source::Any, room)).await?;
        let (request, transfer) = received.into_result()?;
        let Some(client) = transfer.source().and_then(|source| av.peer(source)) else { continue };
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
