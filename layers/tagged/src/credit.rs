//! Credits: the number of packets that may be in flight, counted on both sides.
//!
//! *Message* packets may wait until they are received, all others ([`Class`]) are handled on
//! arrival. Counts are totals modulo 2^32, so repeating one does no harm.

use crate::error::Violation;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// May have to wait.
    Message,
    /// Handled on arrival.
    Control,
}

/// Maximum packets of a class in flight.
pub(crate) const MOST: u32 = 1 << 15;
/// Minimum control packets: fewer would use up the credit that they return.
pub(crate) const LEAST_CONTROL: u32 = 4;

/// Credit of this side for a class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    sent: u32,
    limit: u32,
    window: u32,
}

impl Allowance {
    pub(crate) const fn new(limit: u32) -> Self {
        Allowance { sent: 0, limit, window: limit }
    }

    pub(crate) fn open(&mut self, limit: u32, least: u32) -> Result<(), Violation> {
        if limit < least.max(self.sent) || limit > MOST {
            return Err(Violation::NotGranted);
        }
        (self.limit, self.window) = (limit, limit);
        Ok(())
    }

    #[inline]
    pub(crate) const fn left(&self) -> u32 {
        self.limit.wrapping_sub(self.sent)
    }

    pub(crate) const fn send(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    pub(crate) fn raise(&mut self, limit: u32) -> Result<(), Violation> {
        let (more, left) = (limit.wrapping_sub(self.limit), limit.wrapping_sub(self.sent));
        if more > self.window || left > self.window {
            return Err(Violation::NotGranted);
        }
        self.limit = limit;
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    window: u32,
    received: u32,
    freed: u32,
    announced: u32,
}

impl Grant {
    pub(crate) const fn new(window: u32, announced: u32) -> Self {
        Grant { window, received: 0, freed: 0, announced }
    }

    pub(crate) fn receive(&mut self) -> Result<(), Violation> {
        if self.announced == self.received {
            return Err(Violation::Overdrawn);
        }
        self.received = self.received.wrapping_add(1);
        Ok(())
    }

    pub(crate) const fn free(&mut self) {
        self.freed = self.freed.wrapping_add(1);
    }

    #[inline]
    pub(crate) const fn limit(&self) -> u32 {
        self.freed.wrapping_add(self.window)
    }

    pub(crate) const fn announce(&mut self, limit: u32) {
        self.announced = limit;
    }

    pub(crate) const fn window(&self) -> u32 {
        self.window
    }

    #[inline]
    pub(crate) const fn is_half_unannounced(&self) -> bool {
        self.unannounced() >= self.window.div_ceil(2)
    }

    /// Returns `true` if the peer has used all announced credit and more is free.
    #[inline]
    pub(crate) const fn is_starving(&self) -> bool {
        self.announced == self.received && self.unannounced() > 0
    }

    const fn unannounced(&self) -> u32 {
        self.limit().wrapping_sub(self.announced)
    }
}

/// Returns `true` if a control packet can be sent. `gives` marks a packet that only returns credit.
///
/// The last credit is reserved for returning the peer's credit. If both sides have used theirs up,
/// one of these two packets brings new credit, so neither side waits forever.
pub(crate) fn may_control(allowed: &Allowance, granted: &Grant, gives: bool) -> bool {
    allowed.left() > 1 || (gives && allowed.left() > 0 && granted.is_half_unannounced())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::vec::Vec;

    use super::*;

    #[derive(Clone)]
    struct Side {
        allowed: Allowance,
        granted: Grant,
        under_way: Vec<(Class, u32)>,
        owes: bool,
    }

    type Rule = fn(&Allowance, &Grant, bool) -> bool;

    impl Side {
        fn new(window: u32) -> Self {
            let mut allowed = Allowance::new(1);
            allowed.send();
            allowed.open(window, LEAST_CONTROL).expect("it can be");
            let mut granted = Grant::new(window, window);
            granted.receive().expect("a greeting");
            granted.free();
            Side { allowed, granted, under_way: Vec::new(), owes: false }
        }

        fn send(&mut self, class: Class) {
            self.under_way.push((class, self.granted.limit()));
            self.granted.announce(self.granted.limit());
            if class == Class::Control {
                self.allowed.send();
            }
        }

        fn gives(&self, rule: Rule) -> bool {
            (self.owes || self.granted.is_half_unannounced()) && rule(&self.allowed, &self.granted, true)
        }

        fn receive(&mut self, (class, credit): (Class, u32)) {
            self.allowed.raise(credit).expect("a credit that can be");
            if class == Class::Control {
                self.granted.receive().expect("there was credit");
                self.granted.free();
            }
        }

        /// Unbounded counts are relative to the packets received.
        fn key(&self, peer: &Side) -> Vec<u32> {
            let (own, peers) = (self.granted.received, peer.granted.received);
            let mut key = std::vec![
                self.allowed.sent.wrapping_sub(peers),
                self.allowed.limit.wrapping_sub(peers),
                self.granted.announced.wrapping_sub(own),
                self.owes.into(),
            ];
            key.extend(self.under_way.iter().flat_map(|(class, credit)| [*class as u32, credit.wrapping_sub(own)]));
            key
        }
    }

    /// Explores all states of two sides. Returns their number, and `true` if one of them has no
    /// packet in flight, one side without a packet to send, and no credit returning.
    fn can_get_stuck(window: u32, rule: Rule) -> (bool, usize) {
        let mut seen = BTreeSet::new();
        let mut open = std::vec![[Side::new(window), Side::new(window)]];
        while let Some(sides) = open.pop() {
            let [a, b] = &sides;
            if !seen.insert((a.key(b), b.key(a))) {
                continue;
            }
            let rests = sides.iter().all(|side| side.under_way.is_empty() && !side.gives(rule));
            if rests && sides.iter().any(|side| !rule(&side.allowed, &side.granted, false)) {
                return (true, seen.len());
            }
            for at in 0..2 {
                let mut next = |change: &dyn Fn(&mut Side, &mut Side)| {
                    let [mut a, mut b] = sides.clone();
                    if at == 0 {
                        change(&mut a, &mut b)
                    } else {
                        change(&mut b, &mut a)
                    }
                    open.push([a, b]);
                };
                let side = &sides[at];
                if rule(&side.allowed, &side.granted, false) {
                    next(&|side, _| side.send(Class::Control));
                }
                if side.gives(rule) {
                    next(&|side, _| {
                        side.send(Class::Control);
                        side.owes = false;
                    });
                }
                if !side.under_way.is_empty() {
                    next(&|side, peer| peer.receive(side.under_way.remove(0)));
                }
                // One message packet is enough, with any credit.
                if side.under_way.iter().all(|(class, _)| *class == Class::Control) {
                    next(&|side, _| side.send(Class::Message));
                }
                if !side.owes {
                    next(&|side, _| side.owes = true);
                }
            }
        }
        (false, seen.len())
    }

    #[test]
    fn credit_always_comes_back() {
        let (stuck, states) = can_get_stuck(LEAST_CONTROL, may_control);
        assert!(!stuck && states > 1000, "{states} states");
        // Controls: no reserve, or a reserve that any packet which returns credit may use.
        assert!(can_get_stuck(LEAST_CONTROL, |allowed, _, _| allowed.left() > 0).0);
        assert!(can_get_stuck(LEAST_CONTROL, |allowed, _, gives| allowed.left() > u32::from(!gives)).0);
    }

    #[test]
    fn credits_that_cannot_be_are_refused() {
        let mut allowed = Allowance::new(1);
        allowed.send();
        assert_eq!(allowed.left(), 0);
        for limit in [0, 3, MOST + 1, u32::MAX] {
            assert_eq!(allowed.open(limit, LEAST_CONTROL), Err(Violation::NotGranted));
        }
        assert_eq!(allowed.open(8, LEAST_CONTROL), Ok(()));
        assert_eq!(allowed.left(), 7);
        assert_eq!(allowed.raise(10), Err(Violation::NotGranted));
        assert_eq!(allowed.raise(7), Err(Violation::NotGranted));
        assert_eq!(allowed.raise(9), Ok(()));
        assert_eq!(allowed.raise(8), Err(Violation::NotGranted));
        assert_eq!(allowed.left(), 8);
    }

    #[test]
    fn a_grant_is_kept_to_beyond_the_end_of_the_numbers() {
        let mut grant = Grant { window: 4, received: u32::MAX - 1, freed: u32::MAX - 1, announced: 2 };
        for _ in 0..4 {
            assert_eq!(grant.receive(), Ok(()));
        }
        assert_eq!(grant.receive(), Err(Violation::Overdrawn));
        assert!(!grant.is_starving() && !grant.is_half_unannounced());
        grant.free();
        assert!(grant.is_starving() && !grant.is_half_unannounced());
        grant.free();
        assert!(grant.is_half_unannounced());
        grant.announce(grant.limit());
        assert!(!grant.is_starving() && !grant.is_half_unannounced());
        assert_eq!(grant.limit(), 4);
        assert_eq!((grant.receive(), grant.receive()), (Ok(()), Ok(())));
        assert_eq!(grant.receive(), Err(Violation::Overdrawn));
    }
}
