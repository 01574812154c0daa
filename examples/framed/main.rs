//! A protocol of one's own: messages in frames with their length and a checksum, over whatever has messages. Sends one, then frames that
//! are damaged on purpose, and shows how each ends.
//!
//! ```text
//! cargo run --example framed                                       the software transport
//! cargo run --example framed --features libfabric -- shm           a provider of libfabric
//! cargo run --example framed --features libfabric -- 'tcp;ofi_rxm'
//! ```

#![forbid(unsafe_code)]

pub(crate) mod frame;
pub(crate) mod framed;

use std::error::Error;
use std::time::{Duration, Instant};

use frame::{FrameError, seal};
use framed::{Framed, ReceiveError, SendError};
use loom_fabric::{Av, Cq, Domain, Info, Network, NetworkAttr, Transport};
use loom_static::protocol::{Completes, MsgRecv, MsgSend, Receiver};

/// How a receive ends over frames over `P`.
type Received<P> = Result<Vec<u8>, ReceiveError<<P as Completes>::OpError>>;

/// The longest message of the example.
const LONGEST: usize = 4096;

/// Two ends of any protocol with messages, in one thread.
struct Ends<S: MsgSend, R> {
    alice: S,
    to_bob: S::To,
    bob: R,
    until: Instant,
}

impl<S, R> Ends<Framed<S>, Framed<R>>
where
    S: MsgSend<Buf = Vec<u8>, PostError: 'static, OpError: 'static>,
    R: MsgRecv<Buf = Vec<u8>, PostError: 'static, OpError: 'static>,
{
    /// Sends bytes, in a frame or as they are, and returns what the receive of frames makes of them.
    fn exchange(&mut self, bytes: Vec<u8>, as_they_are: bool) -> Result<Received<R>, Box<dyn Error>> {
        let room = vec![0; LONGEST];
        let received = self.bob.post(room, self.until, |bob, room| bob.recv(Framed::<R>::ANY, room));
        let received = received.map_err(|refused| refused.error)?;
        let to = self.to_bob;
        if as_they_are {
            let below = self.alice.below();
            let sent = below.post(bytes, self.until, |alice, bytes| alice.send(to, bytes));
            let sent = sent.map_err(|refused| refused.error)?;
            below.wait(sent, self.until)?.ok_or("the send has not ended")?.result?;
        } else {
            let sent = self.alice.post(bytes, self.until, |alice, bytes| alice.send(to, bytes));
            let sent = sent.map_err(|refused| refused.error)?;
            self.alice.wait(sent, self.until)?.ok_or("the send has not ended")?.result?;
        }
        let mut outcome = self.bob.wait(received, self.until)?.ok_or("the message has not arrived")?;
        Ok(outcome.result.map(|transfer| {
            outcome.buf.truncate(transfer.len());
            outcome.buf
        }))
    }
}

/// Everything that the example shows, over one transport: its lines.
pub(crate) fn run<T: Transport + 'static>(info: &Info<T>) -> Result<Vec<String>, Box<dyn Error>> {
    let domain = Domain::open(info)?;
    let (av, cq) = (Av::open(&domain, 2)?, Cq::<T, Vec<u8>>::open(&domain, 16)?);
    let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
    let to_bob = av.insert(&bob.address()?)?;
    let until = Instant::now() + Duration::from_secs(10);
    let mut ends = Ends { alice: Framed::new(alice, LONGEST), to_bob, bob: Framed::new(bob, LONGEST), until };

    let mut lines = Vec::new();
    let bytes = ends.exchange(b"hello".to_vec(), false)??;
    lines.push(format!("a frame: {}", String::from_utf8_lossy(&bytes)));

    let mut flipped = seal(b"hello".to_vec());
    flipped[1] ^= 0x20;
    let mut cut = seal(b"hello".to_vec());
    cut.remove(0);
    for (what, frame) in [("a flipped bit", flipped), ("a byte less", cut), ("three bytes", vec![1, 2, 3])] {
        match ends.exchange(frame, true)? {
            Err(ReceiveError::Frame(error)) => lines.push(format!("{what}: {error}")),
            Err(ReceiveError::Below(error)) => return Err(error.into()),
            Ok(_) => return Err(format!("{what} was taken for a frame").into()),
        }
    }

    let refused = ends.alice.send(to_bob, vec![7; LONGEST + 1]).expect_err("it is too long");
    let SendError::Frame(error @ FrameError::TooLong { .. }) = refused.error else { return Err(refused.error.into()) };
    lines.push(format!("{} bytes: {error}; all of them came back", refused.buf.len()));
    Ok(lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    let lines = match std::env::args().nth(1) {
        None => run(&Network::new(NetworkAttr::default())?.info())?,
        Some(provider) => over(&provider)?,
    };
    println!("{}", lines.join("\n"));
    Ok(())
}

#[cfg(feature = "libfabric")]
fn over(provider: &str) -> Result<Vec<String>, Box<dyn Error>> {
    use loom_fabric::{Caps, Hints, Local, Ofi};

    let hints = Hints { caps: Caps::MSG, ..Hints::local(provider) };
    let info = Ofi::<Local>::query(&hints)?.next().ok_or("there is no such provider here")?;
    run(&info)
}

#[cfg(not(feature = "libfabric"))]
fn over(provider: &str) -> Result<Vec<String>, Box<dyn Error>> {
    Err(format!("{provider} is a provider of libfabric: --features libfabric").into())
}
