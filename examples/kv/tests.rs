//! Server and clients together, over the software transport.

use loom_core::vocabulary::{MemoryKey, RemoteAddr};
use loom_fabric::{Access, RemoteRegion};

use crate::client::KvError;
use crate::demo::{self, Demo};
use crate::on_this_thread;
use crate::wire::{INLINE, MAX_KEY, Op, Request, Status, VERSION};

fn run<O>(future: impl Future<Output = Result<O, KvError>>) -> O {
    let limited = async { tokio::time::timeout(std::time::Duration::from_secs(60), future).await };
    match on_this_thread(limited) {
        Ok(Ok(Ok(output))) => output,
        Ok(Ok(Err(error))) => panic!("{error}"),
        Ok(Err(_)) => panic!("not over in time"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_demo_finds_its_values() {
    println!("{}", run(demo::play(Demo { clients: 4, rounds: 3, memory: 8 << 20 })));
}

#[test]
fn values_of_every_length_come_back() {
    run(async {
        let (server, mut clients) = demo::open(2, 8 << 20)?;
        demo::with(&server, &mut clients, async |clients| {
            let [putter, getter] = clients else { panic!("two clients") };
            for len in [0, 1, INLINE - 1, INLINE, INLINE + 1, 100_000] {
                let value: Vec<u8> = (0..=255).cycle().take(len).collect();
                putter.put(b"key", &value).await?;
                assert_eq!(getter.get(b"key").await?, Some(value));
            }
            putter.put(b"", b"of no key").await?;
            assert_eq!(getter.get(b"").await?, Some(b"of no key".to_vec()));
            assert!(getter.delete(b"key").await? && !getter.delete(b"key").await?);
            assert_eq!(putter.get(b"key").await?, None);
            assert!(matches!(putter.put(&[0; MAX_KEY + 1], b"").await, Err(KvError::TooLong)));
            assert!(matches!(putter.put(b"key", &vec![0; 1 << 20]).await, Err(KvError::TooLong)));
            Ok(())
        })
        .await?;
        assert_eq!(server.store.borrow().len(), 1);
        Ok(())
    });
}

#[test]
fn memory_of_the_server_is_bounded() {
    run(async {
        let (server, mut clients) = demo::open(1, 10_000)?;
        demo::with(&server, &mut clients, async |clients| {
            let [client] = clients else { panic!("a client") };
            client.put(b"a", &[1; 6000]).await?;
            for len in [4000, 6000] {
                assert!(matches!(client.put(b"b", &vec![2; len]).await, Err(KvError::Refused(Status::Full))));
            }
            assert_eq!(client.get(b"a").await?, Some(vec![1; 6000]));
            assert!(client.delete(b"a").await?);
            client.put(b"b", &[2; 6000]).await
        })
        .await
    });
}

#[test]
fn requests_without_sense_are_answered() {
    run(async {
        let (server, mut clients) = demo::open(1, 1 << 20)?;
        demo::with(&server, &mut clients, async |clients| {
            let [client] = clients else { panic!("a client") };
            for bytes in [vec![], vec![VERSION], vec![0xff; 40], vec![0; 100]] {
                let answer = client.exchange(bytes).await?;
                assert_eq!(answer.reply()?.status, Status::Malformed);
            }
            // Regions that are none.
            client.put(b"long", &[3; 5000]).await?;
            let region = RemoteRegion::new(
                RemoteAddr(0),
                1 << 40,
                MemoryKey(0x1234_5678),
                Access::REMOTE_READ | Access::REMOTE_WRITE,
            );
            let put = Request { op: Op::Put, id: 1, region, key: b"long", len: 5000, value: &[] };
            let short = RemoteRegion::new(RemoteAddr(0), 4999, MemoryKey(0), Access::REMOTE_WRITE);
            for (request, status) in [
                (Request { len: u64::MAX, ..put }, Status::Full),
                (Request { region: short, op: Op::Get, len: 0, ..put }, Status::TooLong),
                (put, Status::NotMoved),
            ] {
                let answer = client.exchange(request.encode().unwrap_or_default()).await?;
                assert_eq!(answer.reply()?.status, status, "{request:?}");
            }
            // A write that the target refuses is reported as done by some providers, and by a strict network.
            let get = Request { op: Op::Get, id: 1, region, key: b"long", len: 0, value: &[] };
            let answer = client.exchange(get.encode().unwrap_or_default()).await?;
            assert!(matches!(answer.reply()?.status, Status::NotMoved | Status::Done));
            assert_eq!(client.get(b"long").await?, Some(vec![3; 5000]));
            Ok(())
        })
        .await?;
        // What was reserved for them is free again.
        assert_eq!(server.store.borrow().used(), 5004);
        Ok(())
    });
}
