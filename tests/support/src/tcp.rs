//! Endpoints of `loom-tcp`, which the feature `tls` encrypts in all tests. With `LOOM_SHARED`, they
//! share memory, in rings of so many bytes.

use loom_core::error::OpenError;
use loom_core::info::{Hints, Info};
use loom_tcp::{Tcp, TcpAttr};

/// Queries `loom-tcp`.
#[cfg(not(feature = "tls"))]
pub fn query(hints: &Hints<'_>, attr: TcpAttr) -> Result<Info<Tcp>, OpenError> {
    let shared = std::env::var("LOOM_SHARED").ok().map(|bytes| bytes.parse().unwrap());
    let shared_memory = shared.unwrap_or(attr.shared_memory);
    loom_tcp::query(hints, TcpAttr { shared_memory, ..attr })
}

/// Queries `loom-tcp`, with a certificate of the tests: an expired one if `LOOM_EXPIRED` is set.
#[cfg(feature = "tls")]
pub fn query(hints: &Hints<'_>, attr: TcpAttr) -> Result<Info<Tcp>, OpenError> {
    use loom_tcp::rustls::RootCertStore;
    use loom_tcp::rustls::pki_types::pem::PemObject;
    use loom_tcp::rustls::pki_types::{CertificateDer, PrivateKeyDer};

    const AUTHORITY: &[u8] = include_bytes!("../../../transports/tcp/src/tls/certificates/authority.pem");
    const NODE: &[u8] = include_bytes!("../../../transports/tcp/src/tls/certificates/node.pem");
    const EXPIRED: &[u8] = include_bytes!("../../../transports/tcp/src/tls/certificates/expired.pem");
    let own = if std::env::var_os("LOOM_EXPIRED").is_some() { EXPIRED } else { NODE };
    let mut authorities = RootCertStore::empty();
    authorities.add(CertificateDer::from_pem_slice(AUTHORITY).unwrap()).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(own).unwrap()];
    let tls = loom_tcp::Tls::new(authorities, chain, PrivateKeyDer::from_pem_slice(own).unwrap()).unwrap();
    loom_tcp::query_with_tls(hints, attr, &tls)
}
