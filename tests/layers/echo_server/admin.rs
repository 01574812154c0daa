//! Admin port: plain TCP, one command per line.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::echo_server::server::Stats;

/// Maximum number of conversations at a time.
const MOST: usize = 16;

/// Maximum number of bytes that are read of a conversation.
const LONGEST: u64 = 1024;

/// Maximum duration of a conversation.
const LIMIT: Duration = Duration::from_secs(60);

/// Serves the admin port until it is dropped.
pub(crate) async fn answer(listener: TcpListener, stats: Rc<Stats>) {
    let mut conversations = JoinSet::new();
    loop {
        select! {
            accepted = listener.accept(), if conversations.len() < MOST => match accepted {
                Ok((stream, _)) => {
                    // Errors affect only the conversation's peer.
                    let conversation = timeout(LIMIT, converse(stream, Rc::clone(&stats)));
                    conversations.spawn_local(async { drop(conversation.await) });
                }
                // For example, descriptors are exhausted, and may be free in a moment.
                Err(_) => sleep(Duration::from_millis(100)).await,
            },
            Some(_) = conversations.join_next() => {}
        }
    }
}

async fn converse(mut stream: TcpStream, stats: Rc<Stats>) -> io::Result<()> {
    let (read, mut write) = stream.split();
    let mut commands = BufReader::new(read.take(LONGEST)).lines();
    while let Some(command) = commands.next_line().await? {
        let answer = match command.trim() {
            "stats" => format!("{stats}\n"),
            _ => "unknown; there is: stats\n".to_owned(),
        };
        write.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}
