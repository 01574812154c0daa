//! Server and clients in processes of their own, over a provider of libfabric.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};

use loom_async::tokio::run;
use loom_core::vocabulary::AddressFormat;
use loom_fabric::{Domain, EndpointAttributes, EndpointType, Hints, Info, Local, Ofi};
use tokio::net::TcpListener;
use tokio::select;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::Failure;
use crate::bootstrap::{self, Host};
use crate::client::Client;
use crate::node::{CAPS, Node};
use crate::options::{Question, ServeOptions};
use crate::server::Server;

type Fabric = Ofi<Local>;

/// How many clients a server has at most.
const CLIENTS: usize = 64;

/// The longest value of a client.
const LONGEST: usize = 64 << 20;

/// Serves until Ctrl-C.
pub(crate) async fn serve(options: &ServeOptions) -> Result<(), Failure> {
    let domain = Domain::open(&find(&options.provider, options.listen.ip())?)?;
    let server = Server::new(Node::open(&domain, CLIENTS)?, options.memory);
    let listener = TcpListener::bind(options.listen).await?;
    println!("listening on {}, over {}; Ctrl-C ends", listener.local_addr()?, options.provider);
    let interrupted = watch_for_ctrl_c()?;
    let node = &server.node;
    let (provider, address, av) = (options.provider.clone(), node.address()?, node.av.clone());
    let introduces = bootstrap::introduce(listener, Host { provider, address, av, clients: CLIENTS });
    let all = async {
        select! {
            failed = server.serve() => match failed? {},
            () = introduces => {}
            _ = interrupted => {}
        }
        Ok::<_, loom_core::Error>(())
    };
    LocalSet::new().run_until(run(&node.driver, node.mode, all)).await??;
    let store = server.store.borrow();
    println!("{} values were kept, of {} bytes with their keys", store.len(), store.used());
    Ok(())
}

/// Ends when Ctrl-C is pressed.
///
/// The handler replaces what was there before, which that of `tokio::signal` would call besides: libraries that libfabric loads (PSM) install
/// handlers which end the process.
fn watch_for_ctrl_c() -> Result<oneshot::Receiver<()>, ctrlc::Error> {
    let (interrupt, interrupted) = oneshot::channel::<()>();
    let mut interrupt = Some(interrupt);
    // Dropping the sender tells the receiver.
    ctrlc::set_handler(move || drop(interrupt.take()))?;
    Ok(interrupted)
}

/// Asks a server one question.
pub(crate) async fn ask(server: SocketAddr, question: Question) -> Result<(), Failure> {
    let introduction = bootstrap::connect(server).await?;
    let domain = Domain::open(&find(&introduction.provider, introduction.here.ip())?)?;
    let node = Node::open(&domain, 1)?;
    let introduced = introduction.exchange_addresses(&node.address()?).await?;
    let to_server = node.av.insert(&introduced.server)?;
    let (driver, mode) = (node.driver.clone(), node.mode);
    let mut client = Client::new(node, to_server, LONGEST)?;
    let answered = async {
        match question {
            Question::Get(key) => {
                let value = client.get(&key).await?.ok_or(Failure::NotFound)?;
                std::io::stdout().write_all(&value)?;
            }
            Question::Put(key, Some(value)) => client.put(&key, &value).await?,
            Question::Put(key, None) => {
                let mut value = Vec::new();
                // One byte more than goes, to see that it is too long.
                std::io::stdin().take(LONGEST as u64 + 1).read_to_end(&mut value)?;
                client.put(&key, &value).await?;
            }
            Question::Delete(key) if client.delete(&key).await? => {}
            Question::Delete(_) => return Err(Failure::NotFound),
        }
        Ok(())
    };
    run(&driver, mode, answered).await?
}

/// An info of a provider: of sockets at an address of this machine, other networks have their own.
fn find(provider: &str, here: IpAddr) -> Result<Info<Fabric>, Failure> {
    let endpoint_attr = EndpointAttributes::of(EndpointType::RDM);
    let hints = Hints { caps: CAPS, provider: Some(provider), endpoint_attr, ..Hints::default() };
    let info = first(&hints)?;
    let format = info.attributes().addr_format;
    if !matches!(format, AddressFormat::SOCKADDR | AddressFormat::SOCKADDR_IN | AddressFormat::SOCKADDR_IN6) {
        return Ok(info);
    }
    first(&Hints { node: Some(&here.to_string()), listen: true, ..hints })
}

fn first(hints: &Hints<'_>) -> Result<Info<Fabric>, Failure> {
    match Fabric::query(hints) {
        Ok(mut infos) => infos.next(),
        Err(error) if error.is_no_match() => None,
        Err(error) => return Err(error.into()),
    }
    .ok_or_else(|| {
        Failure::Failed("libfabric has no such provider here that grants messages with sources, and RMA".into())
    })
}
