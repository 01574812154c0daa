use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Endpoint;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, EndpointAddr, MemoryKey, RemoteAddr};

use crate::failure::Failure;
use crate::play::link::Link;
use crate::play::payload::{Buffer, Buffers, Memory, Role};
use crate::play::session::Session;
use crate::play::setup::{Op, Report, Setup};
use crate::play::side::{Exposed, Side};
use crate::play::{cores, flow, game};

/// A round has one send or write and one receive in flight, a stream a window of messages. The rest
/// is a reserve.
const DEPTH: usize = flow::WINDOW + 16;

pub(crate) fn play_both<T: Transport>(
    domain: &Domain<'static, T>,
    setup: &Setup,
    interrupted: &Arc<AtomicBool>,
    report: &mut dyn Report,
) -> Result<(), Failure> {
    let mut session = Session::new(Link::alone(), setup.timeout, interrupted);
    let av = Av::open(domain, 2).map_err(Failure::when("opening the address vector"))?;
    let one = Opened::open(domain, &av, Role::Initiator, setup)?;
    let other = Opened::open(domain, &av, Role::Responder, setup)?;
    let (card, other_card) = (one.card()?, other.card()?);
    let mut sides = [one.meet(&other_card)?, other.meet(&card)?];
    game::play(&mut sides, setup, &mut session, Some(report))
}

pub(crate) fn play_one<T: Transport>(
    domain: &Domain<'static, T>,
    setup: &Setup,
    mut session: Session,
    report: Option<&mut dyn Report>,
) -> Result<(), Failure> {
    let role = if report.is_some() { Role::Initiator } else { Role::Responder };
    let played = play_across(domain, setup, &mut session, role, report);
    if let Err(failure) = &played {
        session.fail(failure);
    }
    played
}

fn play_across<T: Transport>(
    domain: &Domain<'static, T>,
    setup: &Setup,
    session: &mut Session,
    role: Role,
    report: Option<&mut dyn Report>,
) -> Result<(), Failure> {
    let av = Av::open(domain, 1).map_err(Failure::when("opening the address vector"))?;
    let opened = Opened::open(domain, &av, role, setup)?;
    session.begin("exchanging addresses".into());
    let card = session.swap(&opened.card()?, || opened.progress())?;
    // Bound only now, so that threads started by the provider may use all processors.
    let _bound = session.core().and_then(cores::bind);
    game::play(&mut [opened.meet(&card)?], setup, session, report)
}

pub(crate) fn in_two_threads(
    setup: &Setup,
    interrupted: &Arc<AtomicBool>,
    initiator: impl FnOnce(Session) -> Result<(), Failure>,
    responder: impl FnOnce(Session) -> Result<(), Failure> + Send,
) -> Result<(), Failure> {
    let (link, other_link) = Link::between_threads();
    let [core, other_core] = setup.cores().map_or([None; 2], |cores| cores.map(Some));
    thread::scope(|scope| {
        let other =
            scope.spawn(move || responder(Session::new(other_link, setup.timeout, interrupted).on_core(other_core)));
        let one = initiator(Session::new(link, setup.timeout, interrupted).on_core(core));
        let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Failure::of_both(one, other)
    })
}

struct Opened<T: Transport> {
    role: Role,
    endpoint: Endpoint<'static, T, Buffer>,
    exposed: Option<Exposed<T>>,
    buffers: Vec<Buffers>,
    corrupt: Option<usize>,
}

impl<T: Transport> Opened<T> {
    fn open(domain: &Domain<'static, T>, av: &Av<'static, T>, role: Role, setup: &Setup) -> Result<Self, Failure> {
        let Memory { buffers, window } = Memory::new(&setup.sizes, setup.ops.contains(&Op::Write));
        let exposed = window.map(|window| Mr::open(domain, window, Access::REMOTE_WRITE)).transpose();
        let exposed = exposed.map_err(Failure::when("registering memory"))?;
        let cq = Cq::open(domain, CqAttr { endpoints: 1, ..CqAttr::new(DEPTH) });
        let cq = cq.map_err(Failure::when("opening the completion queue"))?;
        let opening =
            if setup.node.is_some() { "opening the endpoint at the address of --node" } else { "opening the endpoint" };
        let endpoint = cq.endpoint(av).map_err(Failure::when(opening))?;
        let corrupt = setup.corrupt.filter(|_| role == Role::Initiator);
        Ok(Opened { role, endpoint, exposed, buffers, corrupt })
    }

    /// The endpoint's address, then the window.
    fn card(&self) -> Result<Vec<u8>, Failure> {
        let mut card = vec![0; EndpointAddr::MAX_LEN + 8];
        let address = self.endpoint.address().map_err(Failure::when("asking for the endpoint's address"))?;
        let len = address.encode(&mut card).map_err(Failure::when("encoding the endpoint's address"))?;
        card.truncate(len);
        let nothing = RemoteRegion { base: RemoteAddr(0), len: 0, key: MemoryKey(0), access: Access::empty() };
        card.extend_from_slice(&self.exposed.as_ref().map_or(nothing, Mr::remote).to_bytes());
        Ok(card)
    }

    fn meet(self, card: &[u8]) -> Result<Side<T>, Failure> {
        let (address, len) =
            EndpointAddr::decode(card).map_err(|error| Failure::OtherSide(format!("sent no address: {error:#}")))?;
        let region = card.get(len..).and_then(|rest| rest.try_into().ok());
        let region = region.ok_or_else(|| Failure::OtherSide("did not say what its window is".into()))?;
        let peer = self.endpoint.av().insert(&address).map_err(Failure::when("inserting the other side's address"))?;
        let peer = (peer, RemoteRegion::from_bytes(region));
        Ok(Side::new(self.role, self.endpoint, peer, self.exposed, self.buffers, self.corrupt))
    }

    fn progress(&self) -> Result<bool, Failure> {
        match self.endpoint.cq().poll().map_err(Failure::when("polling the completion queue"))? {
            None => Ok(false),
            Some(early) => Err(Failure::Protocol(format!("a completion before anything was posted: {early:?}"))),
        }
    }
}
