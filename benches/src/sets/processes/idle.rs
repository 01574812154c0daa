//! Connections of loom's transport that stay idle beside an active one.

use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::info::Hints;
use loom_core::vocabulary::Tag;
use loom_core::{CompletionLevel, Endpoint, Forever, SendOptions, Source};
use loom_tcp::{Tcp, TcpAttr};

use super::offers::{open_info, tcp};
use crate::Failure;
use crate::sets::peers::end::{End, Exchange, Play};
use crate::sets::peers::fabric::{Loom, Sending};

pub(crate) const IDLE: u16 = 1000;
const TAG: Tag = Tag(1);

/// An end, and endpoints that keep the idle connections.
pub(super) struct WithIdle {
    end: Loom<Tcp>,
    _idle: Vec<Endpoint<'static, Tcp, Vec<u8>>>,
}

impl End for WithIdle {
    #[inline]
    fn send(&mut self, number: u64) {
        self.end.send(number);
    }

    #[inline]
    fn receive(&mut self, number: u64) {
        self.end.receive(number);
    }

    #[inline]
    fn rest(&mut self) {
        self.end.rest();
    }
}

/// Opens an end in the same domain as an endpoint with `IDLE` connections.
pub(super) fn near(play: Play, len: usize, exchange: Exchange<'_>) -> Result<WithIdle, Failure> {
    let attr = TcpAttr { endpoints: 2, connections: IDLE + 1, peers: IDLE.into(), ..TcpAttr::DEFAULT };
    let domain = Domain::open(&loom_tcp::query(&Hints::default(), attr)?)?;
    let end = Loom::open(&domain, (play, Sending::Completed), len, exchange);
    let (av, cq) = (Av::open(&domain, usize::from(IDLE))?, Cq::open(&domain, 8)?);
    let endpoint = cq.endpoint(&av)?;
    let options = SendOptions { level: Some(CompletionLevel::Delivery), ..SendOptions::default() };
    for address in exchange("").split(' ') {
        let to = av.insert(&address.parse()?)?;
        let sent = cq.post(Vec::new(), Forever, |buf| endpoint.tagged_send_with(to, TAG, options, buf))?;
        cq.finish(sent, Forever)?.result()?;
    }
    Ok(WithIdle { end, _idle: vec![endpoint] })
}

/// Opens the other end, and in a domain of their own the `IDLE` endpoints.
pub(super) fn far(play: Play, len: usize, exchange: Exchange<'_>) -> Result<WithIdle, Failure> {
    let end = open_info(&tcp(), play, len, exchange);
    let depths = TcpAttr { tx_depth: 4, rx_depth: 4, unexpected: 4, ..TcpAttr::DEFAULT };
    let attr = TcpAttr { endpoints: IDLE, connections: IDLE, ..depths };
    let domain = Domain::open(&loom_tcp::query(&Hints::default(), attr)?)?;
    let (av, cq) = (Av::open(&domain, 1)?, Cq::open(&domain, CqAttr { endpoints: IDLE, ..CqAttr::new(2048) })?);
    let idle = (0..IDLE).map(|_| cq.endpoint(&av)).collect::<Result<Vec<_>, _>>()?;
    let receive = |endpoint: &Endpoint<'static, _, _>| endpoint.tagged_recv(Source::Any, TAG, Vec::new());
    let received = idle.iter().map(receive).collect::<Result<Vec<_>, _>>()?;
    let addresses = idle.iter().map(|endpoint| Ok(endpoint.address()?.to_string()));
    exchange(&addresses.collect::<Result<Vec<_>, Failure>>()?.join(" "));
    for key in received {
        cq.finish(key, Forever)?.result()?;
    }
    Ok(WithIdle { end, _idle: idle })
}
