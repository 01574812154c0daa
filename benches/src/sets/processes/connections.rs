//! Endpoints with connections, which exchange messages without tags.

use loom_core::domain::Domain;
use loom_core::endpoint::{Established, Msg};
use loom_core::transport::Connected;
use loom_core::{EqAttr, EqEvent, EventQueue, Info, ThePeer};

use crate::Failure;
use crate::sets::peers::end::{Exchange, Play};
use crate::sets::peers::fabric::{Loom, Sending, queue};

type End<T> = Loom<T, Msg<Established>, false>;

/// Opens the end that accepts a connection.
pub(super) fn near<T: Connected + 'static>(
    info: &Info<T>,
    play: Play,
    len: usize,
    exchange: Exchange<'_>,
) -> Result<End<T>, Failure> {
    let domain = Domain::open(info)?;
    let (eq, cq) = (EventQueue::open(&domain, EqAttr::default())?, queue(&domain, play));
    let listener = eq.listen(info)?;
    exchange(&listener.address()?.to_string());
    let mut accepting = None;
    let endpoint = loop {
        cq.progress()?;
        match eq.poll()? {
            Some(EqEvent::Request(request)) => accepting = Some(request.endpoint(&cq, &eq)?.accept(b"")?),
            Some(EqEvent::Connected(event)) => {
                let accepting = accepting.take().ok_or("no request")?;
                break accepting.established(&event).map_err(|_| "another connection")?;
            }
            Some(_) => return Err("another event".into()),
            None => {}
        }
    };
    Ok(Loom::over(cq, endpoint, (play, Sending::of(play, len, info.attributes().tx.inject_size)), len, || ThePeer))
}

/// Opens the end that connects.
pub(super) fn far<T: Connected + 'static>(
    info: &Info<T>,
    play: Play,
    len: usize,
    exchange: Exchange<'_>,
) -> Result<End<T>, Failure> {
    let domain = Domain::open(info)?;
    let (eq, cq) = (EventQueue::open(&domain, EqAttr::default())?, queue(&domain, play));
    let connecting = cq.msg_endpoint(&eq, info)?.connect(&exchange("").parse()?, b"")?;
    let event = loop {
        cq.progress()?;
        match eq.poll()? {
            Some(EqEvent::Connected(event)) => break event,
            Some(_) => return Err("another event".into()),
            None => {}
        }
    };
    let endpoint = connecting.established(&event).map_err(|_| "another connection")?;
    Ok(Loom::over(cq, endpoint, (play, Sending::of(play, len, info.attributes().tx.inject_size)), len, || ThePeer))
}
