//! Introduction by lines over TCP: the server's greeting, the client's address, and an empty line.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use loom_fabric::{AnyInfo, Caps, EndpointAddr, Hints, Peer, Transport};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::common::{Failure, Node};

const PATIENCE: Duration = Duration::from_secs(10);
/// In bytes.
const LINE: u64 = 1024;

/// Introduces clients until dropped.
pub(crate) async fn introduce<T: Transport + 'static>(
    listener: TcpListener,
    provider: &str,
    node: &Node<T>,
) -> Result<Infallible, Failure> {
    let greeting = format!("{provider} {}\n", node.endpoint.address()?);
    loop {
        let (mut stream, _) = listener.accept().await?;
        let (greeting, av) = (greeting.clone(), node.av.clone());
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

pub(crate) struct Introduction {
    lines: BufReader<TcpStream>,
    provider: String,
    server: EndpointAddr,
    here: IpAddr,
}

impl Introduction {
    pub(crate) fn begin(server: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(server).map_err(|error| format!("cannot connect to {server}: {error}"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let here = stream.local_addr()?.ip();
        let (mut lines, mut greeting) = (BufReader::new(stream), String::new());
        lines.read_line(&mut greeting)?;
        let (provider, server) = greeting.trim().split_once(' ').ok_or("the server has another protocol")?;
        Ok(Introduction { lines, provider: provider.to_owned(), server: server.parse()?, here })
    }

    pub(crate) fn server_offer(&self, caps: Caps) -> Result<AnyInfo, Failure> {
        Ok(AnyInfo::query(&Hints { caps, ..Hints::at(&self.provider, &self.here.to_string()) })?.swap_remove(0))
    }

    /// Introduces a node, while the connection is open, and returns the server.
    pub(crate) fn finish<T: Transport>(&mut self, node: &Node<T>) -> Result<Peer, Failure> {
        self.lines.get_mut().write_all(format!("{}\n", node.endpoint.address()?).as_bytes())?;
        let read = self.lines.read_line(&mut String::new())?;
        if read > 0 { Ok(node.av.insert(&self.server)?) } else { Err("the server has closed the connection".into()) }
    }
}
