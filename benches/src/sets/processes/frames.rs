//! Tokio's TCP in a runtime of one thread, which sleeps while it waits. A frame is the length of
//! the message in four bytes, and the message.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::sets::peers::end::{Exchange, Play, check_bytes, fill};

/// As the receive buffer of loom's transport.
const BUFFER: usize = 1 << 15;
const HEADER: usize = size_of::<u32>();

struct Frames {
    read: BufReader<OwnedReadHalf>,
    write: BufWriter<OwnedWriteHalf>,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
}

impl Frames {
    fn new(stream: TcpStream, len: usize) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        let (read, write) = (BufReader::with_capacity(BUFFER, read), BufWriter::with_capacity(BUFFER, write));
        let mut outbox = vec![0; HEADER + len];
        outbox[..HEADER].copy_from_slice(&u32::try_from(len).expect("a length of 32 bits").to_be_bytes());
        Ok(Frames { read, write, outbox, inbox: vec![0; len] })
    }

    async fn send(&mut self, number: u64) -> io::Result<()> {
        fill(&mut self.outbox[HEADER..], number);
        self.write.write_all(&self.outbox).await
    }

    async fn receive(&mut self, number: u64) -> io::Result<()> {
        let len = self.read.read_u32().await? as usize;
        self.read.read_exact(&mut self.inbox[..len]).await?;
        check_bytes(&self.inbox[..len], number);
        Ok(())
    }

    async fn far(&mut self, play: Play, count: u32) -> io::Result<()> {
        for number in 0..count.into() {
            if play == Play::Answer {
                self.receive(number).await?;
                self.send(!number).await?;
                self.write.flush().await?;
            } else {
                self.send(number).await?;
            }
        }
        self.write.flush().await
    }

    async fn near(&mut self, play: Play, count: u32) -> io::Result<Duration> {
        let begin = Instant::now();
        for number in 0..count.into() {
            if play == Play::Answer {
                self.send(number).await?;
                self.write.flush().await?;
                self.receive(!number).await?;
            } else {
                self.receive(number).await?;
            }
        }
        Ok(if play == Play::Answer { begin.elapsed() / 2 } else { begin.elapsed() })
    }
}

/// An end with its runtime. Each round is one task, as in a program.
pub(super) struct Tokio {
    runtime: Runtime,
    frames: Frames,
}

impl Tokio {
    fn open(len: usize, connect: impl AsyncFnOnce() -> io::Result<TcpStream>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let frames = runtime.block_on(async { Frames::new(connect().await?, len) })?;
        Ok(Tokio { runtime, frames })
    }

    pub(super) fn near(len: usize, exchange: Exchange<'_>) -> io::Result<Self> {
        Self::open(len, async || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            exchange(&listener.local_addr()?.to_string());
            Ok(listener.accept().await?.0)
        })
    }

    pub(super) fn far(len: usize, exchange: Exchange<'_>) -> io::Result<Self> {
        let address: SocketAddr = exchange("").parse().map_err(io::Error::other)?;
        Self::open(len, async || TcpStream::connect(address).await)
    }

    /// Plays the near end ([`Play::near`]).
    pub(super) fn play_near(&mut self, play: Play, count: u32) -> Duration {
        self.runtime.block_on(self.frames.near(play, count)).expect("the other process lives")
    }

    /// Plays the far end ([`Play::far`]).
    pub(super) fn play_far(mut self, play: Play, rounds: impl Iterator<Item = u32>) -> io::Result<()> {
        for count in rounds {
            self.runtime.block_on(self.frames.far(play, count))?;
        }
        Ok(())
    }
}
