//! Control messages: notifications, failures of writes, signs of life.
//!
//! A notification takes a *number*, and a *credit* for each fragment, of those that the peer
//! grants. Both return with a `Release`.

use allocator_api2::alloc::Allocator;
use loom_core::error::PostError;
use loom_core::{AddressError, Buffer, CqError, Errno, Error, Transport};

use super::Engine;
use crate::control::{
    Control, Destination, EndingCode, Header, Incoming, Kind, Notice, Notification, NotificationHead, NotificationKey,
    Sent, UNCOUNTED,
};
use crate::event::Ending;
use crate::link::{Debt, LinkState, Number};
use crate::peers::{PeerKey, Vectors};
use crate::plan::Plan;
use crate::transfers::Stage;

impl<'m, T: Transport, M: Buffer + Send, P: Plan, A: Allocator + Send> Engine<'m, T, M, P, A> {
    /// Sends a message without a transfer. Its failure fails the peer ([`Event::Peer`]).
    ///
    /// [`Event::Peer`]: crate::Event::Peer
    ///
    /// # Errors
    /// - [`PostError::Again`] until the peer is ready
    /// - [`Error::Full`] while the peer has earlier ones to release, or too few buffers are free
    /// - [`PostError::TooLong`], [`PostError::UnknownPeer`], [`Error::Invalid`] as for
    ///   [`submit_and_notify`](Self::submit_and_notify), or the failure of the peer
    pub fn notify(&mut self, peer: PeerKey, message: &[u8]) -> Result<(), Error> {
        self.check_message(peer, message)?;
        self.place(peer)?;
        let Engine { control: Some(control), peers, attr, .. } = self else { return Ok(()) };
        let link = peers.link_mut(peer).ok_or(PostError::UnknownPeer)?;
        match link.state {
            LinkState::Failed(error) => return Err(error),
            LinkState::Ready => {}
            LinkState::Absent | LinkState::Greeting => return Err(PostError::Again.into()),
        }
        let route = link.route.ok_or(PostError::UnknownPeer)?;
        if link.credits < control.fragments(message.len()) {
            peers.wait_for_room(peer);
            return Err(Error::Full("EngineAttr::fragments"));
        }
        let number = link.acquire(attr.notifications.into()).ok_or(Error::Full("EngineAttr::notifications"))?;
        let staged = control.stage(message).ok_or(Error::Full("EngineAttr::messages"))?;
        link.spend(number, staged.len());
        let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let head = NotificationHead { len, ending: EndingCode::encode(&Ending::Done), late: 0, operations: 0 };
        control.send_staged(staged, Destination::of(peer, route), (link.name, number), head);
        peers.posted(peer, staged.len());
        Ok(())
    }

    /// Notification of a peer. `None` if it was released, or its peer removed.
    pub fn notification(&mut self, key: NotificationKey) -> Option<Notification<'_, 'm, T, A>> {
        Notification::new(self.control.as_mut()?, key)
    }

    pub(super) fn check_message(&self, peer: PeerKey, message: &[u8]) -> Result<(), Error> {
        const NO_MESSAGES: Error =
            Error::Invalid("`EngineAttr::message` is 0, here or at the peer: set it on both sides");
        let control = self.control.as_ref().ok_or(NO_MESSAGES)?;
        let link = self.peers.link(peer).ok_or(PostError::UnknownPeer)?;
        if link.state == LinkState::Absent {
            return Err(NO_MESSAGES);
        }
        let limit = control.room() * usize::from(self.attr.fragments);
        if message.len() > limit {
            return Err(PostError::TooLong { limit }.into());
        }
        control.can_stage(message).then_some(()).ok_or(Error::Full("EngineAttr::messages"))
    }

    pub(super) fn fail_peer(&mut self, peer: PeerKey, error: Error) {
        self.peers.change(peer, LinkState::Failed(error));
        self.lose_peer(peer, error);
    }

    /// Fails the [`Wait`](super::Wait)s for a peer, and its transfers.
    pub(super) fn lose_peer(&mut self, peer: PeerKey, error: Error) {
        let Engine { transfers, control, waits, peers, .. } = self;
        waits.fail(error, |wait| wait.peer == Some(peer));
        for index in transfers.indices() {
            let Some(slot) = transfers.get_mut(index).filter(|slot| slot.peer == Some(peer)) else { continue };
            if let (Some(number), Some(link)) = (slot.take_unused_number(), peers.link_mut(peer)) {
                link.give_back(number);
            }
            let notice = slot.notice.take();
            if let (Some(Notice::Message(staged)), Some(control)) = (notice, control.as_mut()) {
                control.discard(staged);
            }
            if let Stage::Posting | Stage::Draining = slot.stage {
                // Operations and messages in flight may not complete.
                slot.fail(error);
                transfers.end(index);
            } else if notice.is_some() {
                transfers.settle(index);
            }
        }
    }

    /// Counts a write whose immediate data is not below `EngineAttr::values`: the low bits are
    /// `values` plus the notification's index, the others its generation.
    #[cold]
    #[inline(never)]
    pub(super) fn count_notified(&mut self, data: Option<u64>) {
        let counted = (|| {
            let (control, data) = (self.control.as_mut()?, data?);
            let index = (data & ((1 << self.data.bits) - 1)).checked_sub(self.attr.values as u64)?;
            let peer = self.peers.at(control.inbox.peer_of(index)?)?;
            let mask = self.peers.link(peer)?.counted_mask;
            control.inbox.count(index, data >> self.data.bits, mask).then_some(())
        })();
        self.strays += u64::from(counted.is_none());
    }

    pub(super) fn poll_control(&mut self) -> Result<(), CqError> {
        loop {
            let Some(control) = &mut self.control else { return Ok(()) };
            match control.poll() {
                Ok(None) => break,
                Ok(Some(Incoming::Received(index))) => {
                    control.forget_older_hello(index);
                    self.receive(index);
                }
                Ok(Some(Incoming::Sent(sent))) => self.on_sent(sent),
                Err(error) => {
                    let mut from = 0;
                    while let Some(peer) = self.peers.next(&mut from) {
                        if self.peers.link(peer).is_some_and(|link| link.state != LinkState::Absent) {
                            self.fail_peer(peer, error.into());
                        }
                    }
                    return Err(error);
                }
            }
        }
        while let Some(index) = self.control.as_mut().and_then(Control::next_refusable) {
            self.receive(index);
        }
        self.ping_or_fail_silent_peers();
        Ok(())
    }

    /// Pings ready peers that were silent for half of `EngineAttr::silence`, and fails them if they
    /// are silent for the other half. A peer that is being greeted has the whole time.
    fn ping_or_fail_silent_peers(&mut self) {
        let (silence, now) = (self.attr.silence, self.now);
        if silence == 0 || now < self.next_beat {
            return;
        }
        self.next_beat = now.saturating_add(silence / 4);
        let mut from = 0;
        while let Some(peer) = self.peers.next(&mut from) {
            let Some(link) = self.peers.link_mut(peer) else { continue };
            let since = |time: u64| now.saturating_sub(time);
            // The clock of the insertion may be an old one.
            let heard = *link.heard.get_or_insert(now);
            match (link.state, link.pinged) {
                (LinkState::Greeting, _) if since(heard) >= silence => self.fail_peer(peer, CqError::TimedOut.into()),
                (LinkState::Ready, Some(pinged)) if since(pinged) >= silence / 2 => {
                    self.fail_peer(peer, CqError::TimedOut.into());
                }
                (LinkState::Ready, None) if since(heard) >= silence / 2 => {
                    link.pinged = Some(now);
                    self.peers.owe(peer, Debt::Ping);
                }
                _ => {}
            }
        }
    }

    fn on_sent(&mut self, Sent { to: Destination { peer, transfer, .. }, error, refused }: Sent) {
        // Unless the refused engine has become a peer meanwhile, its address leaves the vector.
        if let (Some(route), Some(control)) = (refused.filter(|route| !self.peers.talks_by(*route)), &self.control) {
            control.av.remove(route);
        }
        if let Some(peer) = peer {
            self.peers.completed(peer, 1, &Vectors::of(&self.rails, self.control.as_ref()));
        }
        if let Some(key) = transfer {
            if let Some(slot) = self.transfers.named(key) {
                slot.sending = slot.sending.saturating_sub(1);
                if let (Some(error), Ending::Done) = (error, slot.ending) {
                    slot.ending = Ending::Failed(error);
                }
                self.transfers.settle(key.index);
            }
        } else if let (Some(peer), Some(error)) = (peer, error) {
            self.fail_peer(peer, error);
        }
    }

    fn receive(&mut self, index: u32) {
        let header = self.control.as_ref().and_then(|control| Some(control.message(index)?.0));
        let is_stray = match header.map(|header| (header.to, header.kind)) {
            None => true,
            // The peer may be unknown.
            Some((_, Kind::Hello)) => match self.on_hello(index) {
                Some(is_hello) => !is_hello,
                None if self.control.as_mut().is_some_and(|control| control.refuse_later(index)) => return,
                None => true,
            },
            Some((from, _)) if !self.on_sign_of_life(from) => true,
            Some((_, Kind::Notify { .. })) => {
                if self.control.as_mut().is_some_and(|control| control.store(index)) {
                    return;
                }
                true
            }
            Some((from, Kind::Rail { rail, epoch, base })) => !self.on_rail(index, from, rail, (epoch, base)),
            Some((from, Kind::Release(first))) => {
                self.on_release(index, from, first);
                false
            }
            Some((from, Kind::Failure { value, ending, late, operations })) => {
                self.on_failure(from, value, ending, operations.saturating_add(late.into()));
                false
            }
            Some((from, Kind::Refuse(reason))) => {
                self.fail_peer(from, reason.error());
                false
            }
            Some((from, Kind::Ping)) => {
                self.peers.owe(from, Debt::Pong);
                false
            }
            Some((from, Kind::Wait)) => {
                if let Some(control) = &mut self.control {
                    control.inbox.note_wait(from.index);
                }
                false
            }
            Some((_, Kind::Pong)) => false,
        };
        self.strays += u64::from(is_stray);
        if let Some(control) = &mut self.control {
            control.recycle(index);
        }
    }

    /// Returns `false` for an unknown peer.
    pub(super) fn on_sign_of_life(&mut self, peer: PeerKey) -> bool {
        let Some(link) = self.peers.link_mut(peer) else { return false };
        (link.heard, link.pinged) = (Some(self.now), None);
        // Otherwise it is ready with its last rail.
        if link.state == LinkState::SILENT && link.epoch.is_some() && link.cold.is_empty() {
            self.peers.change(peer, LinkState::Ready);
        }
        true
    }

    fn on_release(&mut self, index: u32, from: PeerKey, first: Number) {
        let Engine { control: Some(control), peers, strays, .. } = self else { return };
        let (Some(body), Some(link)) = (control.body(index), peers.link_mut(from)) else { return };
        link.waits = false;
        let others = body.chunks_exact(Number::LEN).filter_map(Number::decode);
        for number in core::iter::once(first).chain(others) {
            *strays += u64::from(!link.release(number));
        }
    }

    fn on_failure(&mut self, from: PeerKey, value: u64, ending: EndingCode, writes: u64) {
        let error = match ending.decode() {
            Ending::Failed(error) => error,
            Ending::Deadline => CqError::TimedOut.into(),
            Ending::Done | Ending::Cancelled => Error::Provider(Errno::ECANCELED),
        };
        if value < self.attr.values as u64 {
            self.waits.report(value, from, error, writes);
        }
    }

    pub(super) fn send_messages(&mut self, check: &impl Fn(&P) -> Result<(), Error>) {
        if self.control.is_none() {
            return;
        }
        if core::mem::take(&mut self.peers.busy) {
            let mut from = 0;
            while let Some(peer) = self.peers.next(&mut from) {
                if let Err(error) = self.advance_link(peer) {
                    self.fail_peer(peer, error);
                }
            }
        }
        for _ in 0..self.transfers.announcing() {
            if let Some(index) = self.transfers.next_announcing() {
                self.send_notice(index, check);
            }
        }
        let mut from = 0;
        while let Some(index) = self.control.as_ref().and_then(|control| control.next_release(&mut from)) {
            // Numbers of removed peers are reset.
            let Some(peer) = self.peers.at(index) else { continue };
            if self.place(peer).is_err() {
                continue;
            }
            let Engine { control: Some(control), peers, .. } = self else { return };
            let found = peers.link(peer).and_then(|link| Some((link.route?, link.name)));
            if let Some((route, name)) = found
                && control.send_releases(index, Destination::of(peer, route), name)
            {
                peers.posted(peer, 1);
            }
        }
        while let Some(sent) = self.control.as_mut().and_then(Control::flush) {
            self.on_sent(sent);
        }
    }

    pub(super) fn place(&mut self, peer: PeerKey) -> Result<(), Error> {
        self.peers.place(peer, &Vectors::of(&self.rails, self.control.as_ref()))
    }

    fn send_notice(&mut self, index: u32, check: &impl Fn(&P) -> Result<(), Error>) {
        let peer = self.transfers.get_mut(index).and_then(|slot| slot.peer);
        let placed = peer.map_or(Ok(()), |peer| self.place(peer));
        let Engine { control: Some(control), peers, transfers, attr, .. } = self else { return };
        let Some(slot) = transfers.get_mut(index) else { return };
        let (Some(notice), Some(peer)) = (slot.notice, slot.peer) else { return };
        if placed == Err(AddressError::Full.into()) {
            return transfers.announce(index);
        }
        let link = placed.and_then(|()| peers.link_mut(peer).ok_or(PostError::UnknownPeer.into()));
        let link = match link.map(|link| (link.state, link)) {
            Ok((LinkState::Ready, link)) => link,
            // Without a link, the peer has learned of no number.
            other => {
                if let Notice::Message(staged) = notice {
                    control.discard(staged);
                    slot.fail(match other {
                        Ok((LinkState::Failed(error), _)) | Err(error) => error,
                        Ok(_) => Error::Provider(Errno::ENOTCONN),
                    });
                }
                slot.notice = None;
                return transfers.settle(index);
            }
        };
        let transfer = Some(slot.key(index));
        let to = link.route.map(|route| Destination { transfer, ..Destination::of(peer, route) });
        if let (Ending::Done, Notice::Message(_), Some(request)) = (slot.ending, notice, &slot.request)
            && let Err(error) = check(&request.plan)
        {
            slot.fail(error);
        }
        let ending = EndingCode::encode(&slot.ending);
        let late = u32::try_from(slot.failed + u64::from(slot.in_flight)).unwrap_or(u32::MAX);
        let sent = match notice {
            Notice::Failure => {
                let value = slot.data.unwrap_or(0);
                let operations = if slot.signals { UNCOUNTED } else { slot.operations };
                let kind = Kind::Failure { value, ending, late, operations };
                let head = Header { to: link.name, kind };
                to.is_some_and(|to| control.send(&head, to, |_| 0))
            }
            Notice::Message(staged) => {
                slot.number = slot.number.or_else(|| link.acquire(attr.notifications.into()));
                let number = slot.number.filter(|number| link.spend(*number, staged.len()));
                if let (Some(number), Some(to)) = (number, to) {
                    let (operations, late) = if slot.reads { (0, 0) } else { (slot.operations, late) };
                    let head = NotificationHead { len: slot.message_len, ending, late, operations };
                    control.send_staged(staged, to, (link.name, number), head);
                }
                number.is_some()
            }
        };
        if sent {
            slot.sending = if let Notice::Message(staged) = notice { staged.len() } else { 1 };
            slot.notice = None;
            peers.posted(peer, slot.sending);
        } else {
            transfers.announce(index);
            if matches!(notice, Notice::Message(_)) {
                peers.wait_for_room(peer);
            }
        }
    }
}
