use loom_core::buffer::{Buffer, SourceBuffer, TargetBuffer};
use loom_core::endpoint::{Receives, Transmits};
use loom_core::error::Rejected;
use loom_core::vocabulary::{ImmediateData, Tag, TagMatch};
use loom_core::{Endpoint, OpKey, RemoteRegion, Transport};

pub(crate) trait Reaches<T: Transport>: Transmits<T> + Receives<T> {}

impl<T: Transport, K: Transmits<T> + Receives<T>> Reaches<T> for K {}

pub(crate) struct What<'r> {
    pub(crate) region: &'r RemoteRegion,
    /// Tag, or immediate data.
    pub(crate) word: u64,
}

/// Immediate posts inline the function, waiting places store a pointer to it.
pub(crate) trait Verb<T: Transport, B: Buffer> {
    const RECEIVES: bool = false;

    fn post<K: Reaches<T>>(
        endpoint: &Endpoint<'_, T, B, K>,
        to: K::To,
        from: K::From,
        what: What<'_>,
        buf: B,
    ) -> Result<OpKey, Rejected<B>>;
}

macro_rules! verbs {
    ($($name:ident: $needs:ident, receives $receives:literal, |$endpoint:ident, $to:ident, $from:ident, $what:ident, $buf:ident| $post:expr;)*) => {$(
        pub(crate) enum $name {}

        impl<T: Transport, B: $needs> Verb<T, B> for $name {
            const RECEIVES: bool = $receives;

            #[inline(always)]
            fn post<K: Reaches<T>>(
                $endpoint: &Endpoint<'_, T, B, K>,
                $to: K::To,
                $from: K::From,
                $what: What<'_>,
                $buf: B,
            ) -> Result<OpKey, Rejected<B>> {
                $post
            }
        }
    )*};
}

verbs! {
    Send: SourceBuffer, receives false, |endpoint, to, _from, _what, buf| endpoint.send(to, buf);
    Recv: TargetBuffer, receives true, |endpoint, _to, from, _what, buf| endpoint.recv(from, buf);
    TaggedSend: SourceBuffer, receives false, |endpoint, to, _from, what, buf| endpoint.tagged_send(to, Tag(what.word), buf);
    TaggedRecv: TargetBuffer, receives true, |endpoint, _to, from, what, buf| endpoint.tagged_recv(from, TagMatch::from(Tag(what.word)), buf);
    Read: TargetBuffer, receives false, |endpoint, to, _from, what, buf| endpoint.read(to, what.region, 0, buf);
    Write: SourceBuffer, receives false, |endpoint, to, _from, what, buf| endpoint.write(to, what.region, 0, buf);
    SendData: SourceBuffer, receives false, |endpoint, to, _from, what, buf| endpoint.send_data(to, ImmediateData(what.word), buf);
    WriteData: SourceBuffer, receives false, |endpoint, to, _from, what, buf| endpoint.write_data(to, what.region, 0, ImmediateData(what.word), buf);
}
