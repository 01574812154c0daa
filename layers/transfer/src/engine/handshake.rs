//! Handshake: how a link becomes ready.
//!
//! 1. Both sides send a `Hello`: their limits, the numbers that they grant to the peer, and the
//!    epoch (first generation) of these numbers.
//! 2. Both send a `Rail` per rail: its address, and the key of memory for a write of no bytes.
//! 3. Once the hello and all rails of the peer have arrived, each rail connects by such a write.
//!    Until then it is *cold*. Without cold rails, the link is `Ready`.
//!
//! A hello with another epoch is of a new engine at the address: transfers to the former one fail.
//! Messages that cannot be sent yet are *debts* of the link, which a later poll pays.

use allocator_api2::alloc::Allocator;
use loom_core::error::PostError;
use loom_core::{AddressError, Buffer, Errno, Error, Transport};

use super::Engine;
use super::open::DataLayout;
use crate::control::{Destination, Header, Hello, Kind, RailBody, Refusal, VERSION};
use crate::link::{Debt, Link, LinkState};
use crate::peers::{PeerKey, Vectors};
use crate::plan::Plan;
use crate::remote::MAX_RAILS;

impl<T: Transport, M: Buffer + Send, P: Plan, A: Allocator + Send> Engine<'_, T, M, P, A> {
    pub(super) fn check_message_len(&self) -> Result<(), Error> {
        let Some(control) = &self.control else { return Ok(()) };
        let mut bytes = [0; 256];
        let mut longest = Hello::LEN + control.address()?.encode(&mut bytes)?;
        for rail in self.rails.iter() {
            longest =
                longest.max(RailBody::LEN + rail.endpoint.address().map_err(Error::Provider)?.encode(&mut bytes)?);
        }
        let fits = control.room() >= longest;
        fits.then_some(()).ok_or(Error::Invalid("`EngineAttr::message` is too short for an address: increase it"))
    }

    pub(super) fn begin_link(&mut self, peer: PeerKey) {
        let Engine { control: Some(control), peers, now, .. } = self else { return };
        let epoch = control.reset(peer, *now);
        let Some(link) = peers.link_mut(peer).filter(|link| link.state == LinkState::Greeting) else { return };
        link.granted = epoch;
        peers.owe(peer, Debt::Hello);
    }

    /// Takes over a hello, or refuses it. Returns `None` if it cannot be refused yet, and `false`
    /// for a stray.
    pub(super) fn on_hello(&mut self, index: u32) -> Option<bool> {
        let hello = self.control.as_ref().and_then(|control| Hello::decode(control.body(index)?));
        let Some((hello, address)) = hello else { return Some(false) };
        let inserted = self.check_hello(&hello).and_then(|()| {
            let vectors = Vectors::of(&self.rails, self.control.as_ref());
            self.peers.insert_greeting(&address, hello.rails.into(), &vectors).map_err(|error| match error {
                Error::Full(_) | Error::Address(AddressError::Full) => Refusal::Full,
                Error::Invalid(_) => Refusal::Taken,
                _ => Refusal::Other,
            })
        });
        let control = self.control.as_mut()?;
        let (peer, is_new) = match inserted {
            Ok(inserted) => inserted,
            Err(reason) => return control.refuse(&address, hello.from, reason).then_some(true),
        };
        let link = self.peers.link_mut(peer)?;
        let width = self.data.common_width(hello.width);
        let mask = |bits: u32| u32::try_from((1_u64 << (width - bits).min(32)) - 1).unwrap_or(u32::MAX);
        let had_epoch = link.epoch.is_some();
        let is_restarted = link.greet(&hello, mask(hello.bits.into()), self.rails.len()) && had_epoch;
        link.counted_mask = mask(self.data.bits);
        if is_new || (is_restarted && !hello.answers) {
            // Writes of a former engine at this address are not counted any more.
            link.granted = control.reset(peer, self.now);
        }
        if is_restarted {
            self.waits.forget(peer);
            // Transfers in progress use numbers that the former engine granted.
            self.lose_peer(peer, Error::Provider(Errno::ECONNRESET));
        }
        if !hello.answers {
            self.peers.owe(peer, Debt::Answer);
        }
        self.on_sign_of_life(peer);
        self.peers.busy = true;
        Some(true)
    }

    fn check_hello(&self, hello: &Hello) -> Result<(), Refusal> {
        let (bits, rails) = (u32::from(hello.bits), usize::from(hello.rails));
        let numbers = u64::from(hello.first) + u64::from(hello.layout.notifications);
        let layout = self.control.as_ref().map(|control| control.layout);
        if hello.version != VERSION {
            return Err(Refusal::Version);
        }
        if Some(hello.layout) != layout || !(1..=MAX_RAILS).contains(&rails) || bits > 31 || numbers > 1 << bits {
            return Err(Refusal::Layout);
        }
        if self.data.common_width(hello.width) < bits.max(self.data.bits) + DataLayout::GENERATION_BITS {
            return Err(Refusal::DataWidth);
        }
        Ok(())
    }

    /// Stores the description of a peer's rail. Returns `false` for a stray.
    pub(super) fn on_rail(&mut self, index: u32, peer: PeerKey, rail: u32, (epoch, base): (u32, u64)) -> bool {
        let body = self.control.as_ref().and_then(|control| RailBody::decode(control.body(index)?));
        let Some((RailBody { key }, address)) = body else { return false };
        let rail = rail as usize;
        if self.peers.rails(peer).is_none_or(|rails| rail >= rails) {
            return false;
        }
        // Not of a former engine at this address. The hello may arrive later.
        let is_former = |link: &Link| link.epoch.is_some_and(|known| known != epoch);
        if self.peers.link(peer).is_none_or(is_former) {
            return false;
        }
        if let Err(error) = self.peers.describe(peer, rail, &address) {
            self.fail_peer(peer, error);
        } else if let Some(link) = self.peers.link_mut(peer) {
            link.describe(rail, epoch, (base, key));
        }
        self.peers.busy = true;
        true
    }

    /// Sends debts and descriptions of rails, and connects rails, as far as room permits.
    pub(super) fn advance_link(&mut self, peer: PeerKey) -> Result<(), Error> {
        if self.peers.link(peer).is_none_or(|link| link.debts == 0 && link.owed_rails.union(link.cold).is_empty()) {
            return Ok(());
        }
        match self.place(peer) {
            Ok(()) => {}
            Err(Error::Address(AddressError::Full)) => {
                self.peers.busy = true;
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let Some(route) = self.peers.link(peer).and_then(|link| link.route) else { return Ok(()) };
        self.send_debts(peer, Destination::of(peer, route))?;
        self.describe_rails(peer, Destination::of(peer, route))?;
        let was_warm = self.peers.link(peer).is_some_and(|link| link.cold.is_empty());
        self.connect_rails(peer)?;
        let (Some(link), Some(rails)) = (self.peers.link(peer), self.peers.rails(peer)) else { return Ok(()) };
        let (is_described, is_warm) = (link.is_described(rails), link.cold.is_empty());
        let is_busy = link.debts != 0 || !link.owed_rails.is_empty() || is_described && !is_warm;
        // The last connection is a sign of life.
        let greets = link.state == LinkState::Greeting || link.state == LinkState::SILENT && !was_warm;
        self.peers.busy |= is_busy;
        if is_described && is_warm && greets {
            self.peers.change(peer, LinkState::Ready);
        }
        Ok(())
    }

    fn send_debts(&mut self, peer: PeerKey, to: Destination) -> Result<(), Error> {
        let Engine { control: Some(control), peers, rails, attr, data, .. } = self else { return Ok(()) };
        let Some((_, in_flight, link)) = peers.routes(peer) else { return Ok(()) };
        for debt in [Debt::Answer, Debt::Hello, Debt::Ping, Debt::Pong, Debt::Wait] {
            if link.debts & debt as u8 == 0 {
                continue;
            }
            let kind = match debt {
                Debt::Hello | Debt::Answer => Kind::Hello,
                Debt::Ping => Kind::Ping,
                Debt::Pong => Kind::Pong,
                Debt::Wait => Kind::Wait,
            };
            let head = Header { to: link.name, kind };
            let sent = if kind == Kind::Hello {
                let first = u32::try_from(attr.values).unwrap_or(u32::MAX);
                let hello = Hello {
                    version: VERSION,
                    from: peer,
                    first: first + peer.index * u32::from(attr.notifications),
                    bits: u8::try_from(data.bits).unwrap_or(u8::MAX),
                    width: data.bytes,
                    rails: u8::try_from(rails.len()).unwrap_or(u8::MAX),
                    answers: debt == Debt::Answer,
                    epoch: link.granted,
                    layout: control.layout,
                };
                let address = control.address()?;
                control.send(&head, to, |out| hello.encode(&address, out))
            } else {
                control.send(&head, to, |_| 0)
            };
            if sent {
                link.debts &= !(debt as u8);
                *in_flight += 1;
            }
        }
        Ok(())
    }

    fn describe_rails(&mut self, peer: PeerKey, to: Destination) -> Result<(), Error> {
        let Engine { control: Some(control), peers, rails, scratch: Some(scratch), .. } = self else {
            return Ok(());
        };
        let Some((_, in_flight, link)) = peers.routes(peer) else { return Ok(()) };
        for (number, (rail, region)) in (0_u32..).zip(rails.iter().zip(scratch.iter())) {
            if !link.owed_rails.contains(number as usize) {
                continue;
            }
            let address = rail.endpoint.address().map_err(Error::Provider)?;
            let remote = region.remote();
            let kind = Kind::Rail { rail: number, epoch: link.granted, base: remote.base.0 };
            let (head, body) = (Header { to: link.name, kind }, RailBody { key: remote.key.0 });
            if control.send(&head, to, |out| body.encode(&address, out)) {
                link.owed_rails.remove(number as usize);
                *in_flight += 1;
            }
        }
        Ok(())
    }

    /// Connects cold rails, once all rails of the peer are described.
    fn connect_rails(&mut self, peer: PeerKey) -> Result<(), Error> {
        let Engine { peers, rails, .. } = self;
        let Some(theirs) = peers.rails(peer) else { return Ok(()) };
        let Some((routes, _, link)) = peers.routes(peer).filter(|(_, _, link)| link.is_described(theirs)) else {
            return Ok(());
        };
        for (number, (rail, route)) in rails.iter().zip(routes).enumerate() {
            let region = link.scratch(number % theirs);
            if let (Some(route), Some(region), true) = (route, region, link.cold.contains(number)) {
                match rail.endpoint.inject_write(*route, &region, 0, &[]) {
                    Ok(()) => link.cold.remove(number),
                    Err(error) if error.is_transient() => {}
                    // The first transfer connects.
                    Err(PostError::Errno(Errno::EOPNOTSUPP)) => link.cold.remove(number),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}
