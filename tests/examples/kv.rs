//! The key-value server and its clients over the software transport.

use futures_util::future::try_join_all;
use loom_async::tokio::run;
use loom_fabric::loom_core::vocabulary::{MemoryKey, RemoteAddr};
use loom_fabric::{Network, NetworkAttr, Soft};

use super::*;

type Memory = Soft<'static>;

/// Runs a server, and `requests` of clients.
fn with_clients<const N: usize>(requests: impl AsyncFnOnce([&Client<Memory>; N], &Values) -> Result<(), Failure>) {
    let network = Network::new(NetworkAttr { endpoints: 16, regions: 16, ..NetworkAttr::DEFAULT }).unwrap();
    let info = network.query(&Hints { caps: CAPS, ..Hints::default() }).unwrap();
    let domain = Domain::open(&info).unwrap();
    let (server, values) = (Node::open(&domain).unwrap(), Values::default());
    let clients: [_; N] = std::array::from_fn(|_| {
        let node = Node::open(&domain).unwrap();
        server.av.insert(&node.endpoint.address().unwrap()).unwrap();
        let to_server = node.av.insert(&server.endpoint.address().unwrap()).unwrap();
        Client::new(to_server, node).unwrap()
    });
    let drivers: Vec<_> =
        clients.iter().map(|client| &client.node).chain([&server]).map(|it| it.driver.clone()).collect();
    let both = async {
        tokio::select! {
            done = requests(clients.each_ref(), &values) => done,
            failed = serve(&server, &values) => match failed? {},
        }
    };
    let limited = async { timeout(Duration::from_secs(60), run(&drivers[..], server.mode, both)).await?? };
    common::block_on(limited).unwrap();
}

fn value(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251 + seed).to_le_bytes()[0]).collect()
}

#[test]
fn values_of_every_length_return() {
    with_clients(async |[putter, getter], values| {
        for len in [0, 1, 4096, 100_000, MAX_VALUE] {
            putter.put(b"key", &value(len, len)).await?;
            assert!(getter.get(b"key").await? == value(len, len), "{len} bytes");
        }
        putter.put(b"", b"of no key").await?;
        assert_eq!(getter.get(b"").await?, b"of no key");
        assert_eq!(getter.call(DELETE, b"key", 0).await?, 0);
        for op in [GET, DELETE] {
            assert_eq!(getter.call(op, b"key", 0).await, Err(Errno::ENOENT.into()));
        }
        assert!(putter.put(b"key", &vec![0; MAX_VALUE + 1]).await.is_err());
        assert_eq!(values.borrow().len(), 1);
        Ok(())
    });
}

#[test]
fn clients_have_values_of_their_own() {
    with_clients(async |clients: [_; 8], _| {
        for round in 0..20 {
            let requests = clients.iter().enumerate().map(async |(number, client)| {
                let (key, value) = (number.to_le_bytes(), value(number + round, 100 << ((number + round) % 12)));
                client.put(&key, &value).await?;
                assert!(client.get(&key).await? == value, "client {number}, round {round}");
                Ok::<_, Failure>(())
            });
            try_join_all(requests).await?;
        }
        Ok(())
    });
}

#[test]
fn invalid_requests_are_answered() {
    with_clients(async |[client, other], values| {
        other.put(b"long", &value(1, 5000)).await?;
        let Node { driver, endpoint, .. } = &client.node;
        let ask = async |request: Vec<u8>| {
            let reply = driver.finish(driver.post(vec![0; 8], |room| endpoint.recv(Source::Any, room)).await?);
            driver
                .run(request, |request| endpoint.send(client.server, request))
                .await
                .map_err(Error::from)?
                .result()?;
            let reply = reply.await?.into_result()?.0;
            Ok::<_, Failure>(Errno::from_raw(i32::try_from(-i64::from_le_bytes(reply.try_into().unwrap()))?))
        };
        for request in [vec![], vec![GET], vec![GET; 32], vec![0; 40], vec![0xff; 100]] {
            assert_eq!(ask(request).await?, Errno::EINVAL);
        }
        let region = |len, key| RemoteRegion {
            base: RemoteAddr(0),
            len,
            key: MemoryKey(key),
            access: Access::REMOTE_READ | Access::REMOTE_WRITE,
        };
        let request = |op, region: RemoteRegion| [&[op][..], &region.to_bytes(), b"long"].concat();
        assert_eq!(ask(request(GET, region(4999, 0))).await?, Errno::EMSGSIZE);
        assert_eq!(ask(request(PUT, region(u64::MAX, 0))).await?, Errno::EMSGSIZE);
        // The client has no region with this key.
        assert!(ask(request(PUT, region(5000, 0x1234_5678))).await?.as_raw() > 0);
        // Some providers and strict networks report a refused write as done.
        let _ = ask(request(GET, region(5000, 0x1234_5678))).await?;
        assert_eq!(other.get(b"long").await?, value(1, 5000));
        assert_eq!(values.borrow().len(), 1);
        Ok(())
    });
}
