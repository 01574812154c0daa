//! [`Prefixed`]: a buffer with room for what a provider puts in front of messages.

use super::{Buffer, Lent, SourceBuffer, TargetBuffer};

/// A buffer whose first bytes are not of the message: room for the provider, where it asks for that (`FI_MSG_PREFIX`).
///
/// Endpoints of such an info send out of, and receive into, no other buffers
/// ([`PostError::NoPrefix`](crate::error::PostError::NoPrefix)); the room has to be as large as
/// [`msg_prefix_size`](crate::vocabulary::EndpointAttributes::msg_prefix_size) says, which is zero where the provider does not ask for room. Everywhere
/// else, and in RMA, the room is left alone. Either way the message is what lies behind it, and lengths are those of the
/// message: one program runs over both. Of several buffers in one operation, the first has the room.
///
/// What the provider has left in the room means nothing. Memory that may only be read has none to write to, and is refused.
///
/// libfabric offers these providers (`usnic`, and datagrams over `verbs` and `efa`) to those who say in
/// [`Hints::mode`](crate::info::Hints::mode) that they are ready for that.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::buffer::Prefixed;
/// use loom_core::{av::Av, cq::Cq, deadline::Forever, domain::Domain, endpoint::Source};
/// use loom_core::soft::{RequiredModes, Network, NetworkAttr};
///
/// let network = Network::new(NetworkAttr::default())?;
/// // As over hardware: buffers without the room are refused.
/// let domain = Domain::open(&network.info_requiring(RequiredModes::none().prefixes()))?;
/// let room = domain.attributes().endpoint.msg_prefix_size;
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let endpoint = cq.endpoint(&av)?;
/// let me = av.insert(&endpoint.address()?)?;
/// let [inbox, mut outbox] = [(); 2].map(|()| Prefixed::new(vec![0_u8; room + 5], room));
/// outbox.bytes_mut().copy_from_slice(b"hello");
/// let received = endpoint.recv(Source::Any, inbox)?;
/// cq.post(outbox, Forever, |outbox| endpoint.send(me, outbox))?;
/// let done = cq.finish(received, Forever)?;
/// assert_eq!(done.result()?.len(), 5);
/// assert_eq!(done.buf().bytes(), b"hello");
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # References
/// - `man fi_getinfo`, *MODE*; `man fi_msg`, *NOTES*
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "FI_MSG_PREFIX")]
pub struct Prefixed<B> {
    buf: B,
    room: usize,
}

impl<B> Prefixed<B> {
    /// Keeps the first `room` bytes of a buffer for the provider. (A buffer that is not so long has less room, and a message of
    /// no bytes.)
    pub const fn new(buf: B, room: usize) -> Self {
        Prefixed { buf, room }
    }

    /// How many bytes are kept for the provider.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.room
    }

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

    /// The buffer with the room in it.
    pub fn into_inner(self) -> B {
        self.buf
    }
}

// SAFETY: a part of what the buffer itself lends, and the rest of it, which the room is.
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
        let mut buf = Prefixed::new(&mut bytes[..], 4);
        assert_eq!((buf.bytes(), buf.room()), (&b"message"[..], 4));
        assert_eq!(buf.bytes_mut(), b"message");
        let lent = buf.lend();
        assert_eq!((lent.ptr().as_ptr(), lent.len(), lent.headroom()), (start.wrapping_add(4), 7, 4));
        for (prefix, front) in [(0, 4), (3, 1), (4, 0)] {
            let lent = lent.with_prefix(prefix).unwrap();
            assert_eq!((lent.ptr().as_ptr(), lent.len()), (start.wrapping_add(front), 11 - front));
            assert_eq!(lent.headroom(), front);
        }
        assert!(lent.with_prefix(5).is_none());
        assert_eq!((lent.whole().ptr().as_ptr(), lent.whole().len()), (start, 11));
        assert_eq!(buf.into_inner().len(), 11);
    }

    #[test]
    fn what_may_not_be_written_and_what_is_too_short_has_less_room() {
        let mut buf = Prefixed::new(&b"....message"[..], 4);
        let lent = buf.lend();
        assert_eq!((lent.len(), lent.headroom()), (7, 0));
        let mut short = Prefixed::new([0_u8; 3], 4);
        assert!(short.bytes().is_empty() && short.bytes_mut().is_empty());
        let mut array = [0_u8; 3];
        let lent = Prefixed::new(&mut array[..], 4).lend();
        assert_eq!((lent.len(), lent.headroom()), (0, 3));
        // Room in room adds up.
        let mut bytes = [0_u8; 9];
        let lent = Prefixed::new(Prefixed::new(&mut bytes[..], 4), 2).lend();
        assert_eq!((lent.len(), lent.headroom()), (3, 6));
    }
}
