//! An endpoint that sends to itself, and the objects beneath it.

use std::ptr::NonNull;
use std::time::Instant;

use loom_core::info::{Hints, Info};
use loom_core::transport::{AddressVectors, Bindings, Closing, Endpoints, Fabrics, InFlight, Messages, Refusal};
use loom_core::vocabulary::{
    Caps, Counted, EndpointAttributes, EndpointType, FabricAddr, ImmediateData, Tag, TagMatch, Version,
};
use loom_fabric::ofi::{Av, Counter, Cq, Endpoint, Local, Ofi};
use support::library_version;

use super::{LIMIT, PROVIDERS, shared_memory, source, target, word};

pub(crate) type T = Ofi<Local>;

pub(crate) const DATA: ImmediateData = ImmediateData(0x1234_5678);
pub(crate) const TAG: Tag = Tag(0x77_0001);

/// Returns `true` if the installed providers are tested. Otherwise sleeps are refused. Tested
/// versions are untested only if the environment requests it.
pub(crate) fn are_tested() -> bool {
    let asked = std::env::var_os("LOOM_UNTESTED").is_some_and(|value| !value.is_empty() && value != "0");
    let known = infos().iter().any(|info| info.raw().is_tested());
    assert!(known != asked || !VERSIONS.contains(&library_version()), "known: {known}, asked not to: {asked}");
    known
}

/// Tested versions.
const VERSIONS: [Version; 2] = [Version::new(1, 17), Version::new(2, 5)];

/// Returns an info of each installed provider, for tagged messages, with sources if they are
/// reliable.
pub(crate) fn infos() -> Vec<Info<T>> {
    shared_memory::remove_at_exit();
    let info = |(provider, node): &(&'static str, Option<&'static str>)| {
        [Caps::SOURCE, Caps::empty()].into_iter().find_map(|more| {
            let hints = Hints {
                caps: Caps::MSG | Caps::TAGGED | more,
                provider: Some(provider),
                endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
                node: *node,
                listen: node.is_some(),
                ..Hints::default()
            };
            match Ofi::<Local>::query(&hints) {
                Ok(mut infos) => infos.next(),
                Err(error) if error.is_no_match() => None,
                Err(error) => panic!("{provider}: {error:#}"),
            }
        })
    };
    let infos: Vec<_> = PROVIDERS.iter().filter_map(info).collect();
    assert!(infos.len() >= 4, "no more than {}", infos.len());
    infos
}

pub(crate) struct Opened<'i> {
    pub(crate) info: &'i Info<T>,
    pub(crate) fabric: <T as Fabrics>::Fabric,
    pub(crate) domain: <T as Fabrics>::Domain,
    pub(crate) av: Av<Local>,
}

impl<'i> Opened<'i> {
    pub(crate) fn new(info: &'i Info<T>) -> Self {
        // SAFETY: no demands.
        let fabric = unsafe { T::fabric_open(info.raw()) }.unwrap();
        // SAFETY: the fabric is open.
        let domain = unsafe { T::domain_open(&fabric, info.raw(), NonNull::dangling()) }.unwrap();
        // SAFETY: the domain is open.
        let av = unsafe { T::av_open(&domain, 4, 0) }.unwrap();
        Opened { info, fabric, domain, av }
    }

    pub(crate) fn endpoint(
        &self,
        queues: (&Cq<Local>, &Cq<Local>),
        counters: &[(Counted, &Counter<Local>)],
    ) -> (Endpoint<Local>, FabricAddr) {
        let endpoint = self.endpoint_of(&self.av, queues, counters);
        // SAFETY: the endpoint is open.
        let address = unsafe { T::endpoint_address(&endpoint) }.unwrap();
        // SAFETY: the vector is open.
        let own = unsafe { T::av_insert(&self.av, &address) }.unwrap();
        (endpoint, own)
    }

    pub(crate) fn endpoint_of(
        &self,
        av: &Av<Local>,
        (tx, rx): (&Cq<Local>, &Cq<Local>),
        counters: &[(Counted, &Counter<Local>)],
    ) -> Endpoint<Local> {
        let bind = Bindings { tx, rx, av, counters, selective: false, options: &[] };
        // SAFETY: everything is open and of one domain.
        unsafe { T::endpoint_open(&self.domain, self.info.raw(), bind) }.unwrap()
    }

    /// Closes all objects, and runs `close` after the close of the endpoint.
    pub(crate) fn close(self, endpoint: &Endpoint<Local>, close: impl FnOnce()) {
        // SAFETY: open, and used no more.
        let closing = unsafe { T::endpoint_close(endpoint, InFlight::NOTHING) }.unwrap();
        if closing != Closing::Closed {
            // Over shm, one may have to wait for those of other tests, and outlives them.
            return;
        }
        close();
        self.close_unused();
    }

    pub(crate) fn close_unused(self) {
        // SAFETY: open, without children, and used no more, as are those below.
        unsafe { T::av_close(&self.av) }.unwrap();
        // SAFETY: as above.
        unsafe { T::domain_close(&self.domain) }.unwrap();
        // SAFETY: as above.
        unsafe { T::fabric_close(&self.fabric) }.unwrap();
    }
}

/// Posts until the provider accepts it. `poll` finds no completion meanwhile.
pub(crate) fn retry(poll: impl Fn(), post: impl Fn() -> Result<(), Refusal>) {
    let end = Instant::now() + LIMIT;
    while let Err(refusal) = post() {
        assert!(refusal == Refusal::Again && Instant::now() < end, "{refusal:?}");
        poll();
    }
}

/// Posts a tagged receive (1) and a send to it (2).
///
/// # Safety
/// The bytes outlive their events.
pub(crate) unsafe fn message(
    (endpoint, own): (&Endpoint<Local>, FabricAddr),
    sent: &[u8],
    room: &mut [u8],
    poll: impl Fn(),
) {
    let (from, into) = (source(sent), target(room));
    // SAFETY: the caller's promise. Words are no pointers.
    retry(&poll, || unsafe { T::recv(endpoint, FabricAddr::UNSPEC, &into, Some(TagMatch::exact(TAG)), word(1)) });
    // SAFETY: as above. The peer is in the vector.
    retry(&poll, || unsafe { T::send(endpoint, own, &from, Some(TAG), Some(DATA), word(2)) });
}
