use super::{Buffer, Lent, SourceBuffer, TargetBuffer};

/// Buffer with a prefix reserved for the provider (`FI_MSG_PREFIX`).
///
/// Endpoints of an info with this mode accept no other buffers
/// ([`PostError::NoPrefix`](crate::error::PostError::NoPrefix)). Lengths exclude the prefix. Of
/// several buffers in one operation, the first has it.
///
/// libfabric offers such providers (`usnic`, and datagrams over `verbs` and `efa`) only if
/// [`Hints::mode`](crate::info::Hints::mode) has the mode.
///
/// ```
/// use loom_core::{Forever, Source, buffer::Prefixed};
/// # use loom_core::{Domain, soft::{Network, NetworkAttr, RequiredModes}};
///
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info_requiring(RequiredModes::PREFIXES))?;
/// # fixture::pair!(domain, av, cq, alice, bob, to_bob);
/// // Buffers without room for the prefix are refused here.
/// let room = domain.info().attributes().endpoint.msg_prefix_size;
/// let [inbox, mut outbox] = [(); 2].map(|()| Prefixed { buf: vec![0_u8; room + 5], room });
/// outbox.bytes_mut().copy_from_slice(b"hello");
/// let received = bob.recv(Source::Any, inbox)?;
/// cq.post(outbox, Forever, |outbox| alice.send(to_bob, outbox))?;
/// let done = cq.finish(received, Forever)?;
/// assert_eq!((done.result()?.len, done.buf().bytes()), (5, &b"hello"[..]));
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_getinfo`, *MODE*; `man fi_msg`, *NOTES*
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "FI_MSG_PREFIX")]
pub struct Prefixed<B> {
    /// The buffer, including the prefix.
    pub buf: B,
    /// Bytes reserved for the provider.
    pub room: usize,
}

impl<B> Prefixed<B> {
    /// The message.
    #[must_use]
    pub fn bytes(&self) -> &[u8]
    where
        B: AsRef<[u8]>,
    {
        self.buf.as_ref().get(self.room..).unwrap_or(&[])
    }

    /// The message.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8]
    where
        B: AsMut<[u8]>,
    {
        self.buf.as_mut().get_mut(self.room..).unwrap_or(&mut [])
    }
}

// SAFETY: the range and its headroom are both parts of the range that the inner buffer lends.
unsafe impl<B: Buffer> Buffer for Prefixed<B> {
    #[inline]
    fn lend(&mut self) -> Lent {
        self.buf.lend().with_headroom(self.room)
    }
}
impl<B: SourceBuffer> SourceBuffer for Prefixed<B> {}
impl<B: TargetBuffer> TargetBuffer for Prefixed<B> {}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn room_is_in_front_of_the_message() {
        let mut bytes = *b"....message";
        let start = bytes.as_mut_ptr();
        let mut buf = Prefixed { buf: &mut bytes[..], room: 4 };
        assert_eq!((buf.bytes(), buf.room), (&b"message"[..], 4));
        assert_eq!(buf.bytes_mut(), b"message");
        let lent = buf.lend();
        assert_eq!((lent.ptr.as_ptr(), lent.len, lent.headroom), (start.wrapping_add(4), 7, 4));
        for (prefix, front) in [(0, 4), (3, 1), (4, 0)] {
            let lent = lent.with_prefix(prefix).unwrap();
            assert_eq!((lent.ptr.as_ptr(), lent.len), (start.wrapping_add(front), 11 - front));
            assert_eq!(lent.headroom, front);
        }
        assert!(lent.with_prefix(5).is_none());
        assert_eq!((lent.whole().ptr.as_ptr(), lent.whole().len), (start, 11));
        assert_eq!(buf.buf.len(), 11);
    }

    #[test]
    fn read_only_and_short_buffers_have_less_room() {
        let mut buf = Prefixed { buf: &b"....message"[..], room: 4 };
        let lent = buf.lend();
        assert_eq!((lent.len, lent.headroom), (7, 0));
        let mut short = Prefixed { buf: [0_u8; 3], room: 4 };
        assert!(short.bytes().is_empty() && short.bytes_mut().is_empty());
        let mut array = [0_u8; 3];
        let lent = Prefixed { buf: &mut array[..], room: 4 }.lend();
        assert_eq!((lent.len, lent.headroom), (0, 3));
        let mut bytes = [0_u8; 9];
        let lent = Prefixed { buf: Prefixed { buf: &mut bytes[..], room: 4 }, room: 2 }.lend();
        assert_eq!((lent.len, lent.headroom), (3, 6));
    }
}
