//! Introduction by lines over TCP: the server's greeting, the client's address, and an empty line.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use loom_fabric::{Av, EndpointAddr, Transport};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::common::Failure;

const PATIENCE: Duration = Duration::from_secs(10);
/// In bytes.
const LINE: u64 = 1024;

/// Introduces clients until dropped.
pub(crate) async fn introduce<T: Transport + 'static>(
    listener: TcpListener,
    greeting: &str,
    av: &Av<'static, T>,
) -> Result<(), Failure> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let (greeting, av) = (format!("{greeting}\n"), av.clone());
        tokio::task::spawn_local(async move {
            stream.write_all(greeting.as_bytes()).await?;
            let mut line = String::new();
            let mut lines = tokio::io::BufReader::new((&mut stream).take(LINE));
            timeout(PATIENCE, lines.read_line(&mut line)).await??;
            let peer = av.insert(&line.trim().parse()?)?;
            // Both fail when the client leaves.
            if stream.write_all(b"\n").await.is_ok() {
                let _ = stream.read_u8().await;
            }
            av.remove(peer);
            Ok::<_, Failure>(())
        });
    }
}

pub(crate) struct Introduction(BufReader<TcpStream>);

impl Introduction {
    /// Connects to a server. Also returns its greeting and this side's address.
    pub(crate) fn begin(server: SocketAddr) -> Result<(Self, String, IpAddr), Failure> {
        let stream = TcpStream::connect(server).map_err(|error| format!("cannot connect to {server}: {error}"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let here = stream.local_addr()?.ip();
        let (mut this, mut greeting) = (Introduction(BufReader::new(stream)), String::new());
        this.0.read_line(&mut greeting)?;
        Ok((this, greeting.trim().to_owned(), here))
    }

    /// Introduces an address. It is valid while the connection is open.
    pub(crate) fn finish(&mut self, address: &EndpointAddr) -> Result<(), Failure> {
        self.0.get_mut().write_all(format!("{address}\n").as_bytes())?;
        let read = self.0.read_line(&mut String::new())?;
        if read > 0 { Ok(()) } else { Err("the server has closed the connection".into()) }
    }
}
