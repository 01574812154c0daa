//! [`Tls`]: encrypted connections, with certificates on both sides.
//!
//! | file | content |
//! |---|---|
//! | `session` | one connection: handshake, and bytes of records |
//! | `handshake` | handshakes of rustls |
//! | `record` | records of TLS 1.3 |

mod handshake;
mod record;
mod session;
#[cfg(test)]
mod tests;

use core::fmt;
use core::net::IpAddr;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use loom_core::error::OpenError;
use loom_core::info::{Hints, Info};
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, Error, RootCertStore, ServerConfig};

pub(crate) use self::record::Fault;
pub(crate) use self::session::{Records, Session};
use crate::attr::TcpAttr;
use crate::tcp::Tcp;

/// Protocol name (ALPN) by which both sides recognise this transport.
const MARKER: &[u8] = b"loom-tcp/0";

/// Records that one key encrypts. AES-GCM is limited to 2^24.
const RECORDS_PER_KEY: u64 = 1 << 23;

/// Certificates of this process for TLS 1.3, and the authorities of its peers. Clones share them.
///
/// Each side verifies the certificate of the other, and its name when a connection opens: the IP
/// address of the peer, or that of [`peer_name`](Self::peer_name). If a certificate lists its uses,
/// those of servers and of clients are among them. Revoked certificates are not recognised.
///
/// ```no_run
/// use loom_core::{Domain, Hints};
/// use loom_tcp::rustls::RootCertStore;
/// use loom_tcp::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
/// use loom_tcp::{TcpAttr, Tls, query_with_tls};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut authorities = RootCertStore::empty();
/// authorities.add(CertificateDer::from_pem_file("authority.pem")?)?;
/// let chain = vec![CertificateDer::from_pem_file("node7.pem")?];
/// let tls = Tls::new(authorities, chain, PrivateKeyDer::from_pem_file("node7.key")?)?;
///
/// let hints = Hints { node: Some("10.1.2.7"), listen: true, ..Hints::default() };
/// let domain = Domain::open(&query_with_tls(&hints, TcpAttr::DEFAULT, &tls)?)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tls(Arc<Configs>);

#[derive(Clone)]
struct Configs {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    name: Option<ServerName<'static>>,
    records_per_key: u64,
}

impl Tls {
    /// Returns a configuration: `authorities` sign the certificates of peers. `chain` is the
    /// certificate of this process, then those up to the authority. `key` is its private key.
    ///
    /// # Errors
    /// - the key does not fit the certificate, or is of an unknown kind
    /// - there is no authority
    pub fn new(
        authorities: RootCertStore,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, Error> {
        let (authorities, provider) = (Arc::new(authorities), Arc::new(default_provider()));
        let verifier = WebPkiClientVerifier::builder_with_provider(authorities.clone(), provider.clone())
            .clear_root_hint_subjects()
            .build()
            .map_err(|error| Error::General(std::format!("{error}")))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())?;
        server.alpn_protocols = vec![MARKER.to_vec()];
        server.send_tls13_tickets = 0;
        server.enable_secret_extraction = true;
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(authorities)
            .with_client_auth_cert(chain, key)?;
        client.alpn_protocols = vec![MARKER.to_vec()];
        client.resumption = Resumption::disabled();
        client.enable_secret_extraction = true;
        let (client, server) = (Arc::new(client), Arc::new(server));
        Ok(Tls(Arc::new(Configs { client, server, name: None, records_per_key: RECORDS_PER_KEY })))
    }

    /// Sets the name that the certificates of all peers have, instead of their IP addresses. A
    /// certificate then admits its holder as any peer.
    #[must_use]
    pub fn peer_name(mut self, name: ServerName<'static>) -> Self {
        Arc::make_mut(&mut self.0).name = Some(name);
        self
    }

    /// Name in the certificate of a peer.
    fn name_of(&self, peer: IpAddr) -> ServerName<'static> {
        self.0.name.clone().unwrap_or(ServerName::IpAddress(peer.into()))
    }

    #[cfg(test)]
    fn records_per_key(mut self, records: u64) -> Self {
        Arc::make_mut(&mut self.0).records_per_key = records;
        self
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.0.name).finish_non_exhaustive()
    }
}

/// Returns an info like [`query`](crate::query), for domains whose connections are encrypted.
///
/// A domain takes 130 KiB more for each connection. See [`Tls`].
///
/// # Errors
/// Those of [`query`](crate::query).
pub fn query_with_tls(hints: &Hints<'_>, attr: TcpAttr, tls: &Tls) -> Result<Info<Tcp>, OpenError> {
    crate::info::query_with(hints, attr, Some(tls.clone()))
}
