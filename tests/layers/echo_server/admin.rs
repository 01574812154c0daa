//! The admin port: plain TCP, one command in a line.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::echo_server::server::Stats;

/// Conversations at a time.
const MOST: usize = 16;

/// The most bytes of a conversation that are read.
const LONGEST: u64 = 1024;

/// How long a conversation takes at most.
const LIMIT: Duration = Duration::from_secs(60);

/// Answers at the admin port, until it is dropped.
pub(crate) async fn answer(listener: TcpListener, stats: Rc<Stats>) {
    let mut conversations = JoinSet::new();
    loop {
        select! {
            accepted = listener.accept(), if conversations.len() < MOST => match accepted {
                Ok((stream, _)) => {
                    // Errors are those of the one who asks.
                    let conversation = timeout(LIMIT, converse(stream, Rc::clone(&stats)));
                    conversations.spawn_local(async { drop(conversation.await) });
                }
                // No more descriptors, for example: there may be some in a moment.
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
