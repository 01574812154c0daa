//! How processes learn each other's addresses: lines of text over TCP.
//!
//! The server tells its version and provider, the client its address, and the server its own. The connection stays open for as long as the
//! client uses the server, which then forgets its address.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use loom_fabric::{Av, EndpointAddr, Transport};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Failure;
use crate::node::PATIENCE;

/// What the server says first, followed by its provider. The number is the version of [`wire`](crate::wire), too.
const GREETING: &str = "loom-kv 1 ";

/// The longest line.
const LONGEST: u64 = 1024;

/// What a server tells its clients.
pub(crate) struct Host<T: Transport + 'static> {
    pub(crate) provider: String,
    pub(crate) address: EndpointAddr,
    pub(crate) av: Av<'static, T>,
    /// How many clients there may be at a time.
    pub(crate) clients: usize,
}

/// Introduces clients, until it is dropped.
pub(crate) async fn introduce<T: Transport>(listener: TcpListener, host: Host<T>) {
    let host = Rc::new(host);
    let mut clients = JoinSet::new();
    loop {
        select! {
            accepted = listener.accept(), if clients.len() < host.clients => match accepted {
                Ok((stream, _)) => {
                    let host = Rc::clone(&host);
                    // Its errors are those of the client, which sees that the connection ends.
                    clients.spawn_local(async move { drop(attend(stream, &host).await) });
                }
                // No more descriptors, for example: there may be some in a moment.
                Err(_) => sleep(Duration::from_millis(100)).await,
            },
            Some(_) = clients.join_next() => {}
        }
    }
}

/// One client, until it closes its connection.
async fn attend<T: Transport>(mut stream: TcpStream, host: &Host<T>) -> Result<(), Failure> {
    write_line(&mut stream, &format!("{GREETING}{}", host.provider)).await?;
    let address = timeout(PATIENCE, read_line(&mut stream)).await??;
    let peer = host.av.insert(&address.parse()?)?;
    let told = write_line(&mut stream, &host.address.to_string()).await;
    // Anything but the end would be a surprise, and is one, too.
    if told.is_ok() {
        let _ = stream.read_u8().await;
    }
    host.av.remove(peer);
    Ok(told?)
}

/// A client's connection to a server whose address it does not know yet.
pub(crate) struct Introduction {
    stream: TcpStream,
    /// The provider of the server.
    pub(crate) provider: String,
    /// This side's address of the connection.
    pub(crate) here: SocketAddr,
}

/// A client is known to the server until this is dropped.
pub(crate) struct Introduced {
    _stream: TcpStream,
    pub(crate) server: EndpointAddr,
}

pub(crate) async fn connect(server: SocketAddr) -> Result<Introduction, Failure> {
    let connected = timeout(PATIENCE, TcpStream::connect(server)).await?;
    let mut stream = connected.map_err(|error| Failure::Failed(format!("cannot connect to {server}: {error}")))?;
    let greeting = timeout(PATIENCE, read_line(&mut stream)).await??;
    let Some(provider) = greeting.strip_prefix(GREETING) else {
        return Err(Failure::Failed(format!("what listens on {server} is no server of this version")));
    };
    Ok(Introduction { here: stream.local_addr()?, provider: provider.to_owned(), stream })
}

impl Introduction {
    /// Tells this side's address.
    pub(crate) async fn exchange_addresses(mut self, address: &EndpointAddr) -> Result<Introduced, Failure> {
        write_line(&mut self.stream, &address.to_string()).await?;
        let server = timeout(PATIENCE, read_line(&mut self.stream)).await??.parse()?;
        Ok(Introduced { _stream: self.stream, server })
    }
}

async fn write_line(stream: &mut TcpStream, line: &str) -> io::Result<()> {
    stream.write_all(format!("{line}\n").as_bytes()).await
}

/// A line of at most [`LONGEST`] bytes. The other side sends nothing behind it before it has an answer.
async fn read_line(stream: impl AsyncRead + Unpin) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut line).await?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other side has closed the connection")),
    }
}
