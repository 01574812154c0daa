//! Handshakes of rustls, record by record.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection, verify_server_name};
use rustls::pki_types::ServerName;
use rustls::server::{ParsedCertificate, ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};

use super::record::{Fault, Kernel, Keys, whole};
use super::{MARKER, Tls};

/// Handshake of one side.
pub(super) trait Handshake: Sized {
    type Data;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// Returns `true` if the next call of `process` returns output.
    fn has_output(&self) -> bool;

    fn protocol(&self) -> Option<&[u8]>;

    /// Verifies the name of the peer, if the handshake does not.
    fn verify(&self, name: &ServerName<'_>) -> Result<(), Fault>;

    fn into_keys(self, records: u64) -> Result<Keys, Fault>;

    /// Handles the records of `input`, and appends to `output`, which has `written` bytes. Of the
    /// input, the last call left `seen` bytes with rustls, which must see them again.
    fn advance(
        &mut self,
        input: &mut [u8],
        mut seen: usize,
        output: &mut [u8],
        mut written: usize,
    ) -> Result<Advanced, Failed> {
        let mut used = 0;
        loop {
            let UnbufferedStatus { discard, state, .. } = self.process(&mut input[used..used + seen]);
            let mut more = false;
            match state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => match data.encode(&mut output[written..]) {
                    Ok(len) => written += len,
                    Err(_) => return Err(Failed { fault: Fault::Local, written }),
                },
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::BlockedHandshake) => more = true,
                Ok(ConnectionState::WriteTraffic(_)) => {
                    used += discard;
                    if self.protocol() != Some(MARKER) {
                        return Err(Failed { fault: Fault::Protocol, written });
                    }
                    return Ok(Advanced { used, seen: 0, written, is_complete: true });
                }
                Ok(_) => return Err(Failed { fault: Fault::Protocol, written }),
                Err(error) => {
                    written = self.alert(output, written);
                    return Err(Failed { fault: error.into(), written });
                }
            }
            used += discard;
            seen -= discard;
            if more {
                // One more record: the handshake must not take the first one of the program.
                match whole(&input[used + seen..]) {
                    Ok(Some(len)) => seen += len,
                    Ok(None) => return Ok(Advanced { used, seen, written, is_complete: false }),
                    Err(fault) => return Err(Failed { fault, written }),
                }
            }
        }
    }

    /// Appends the alert for an error. Returns the length of the output.
    fn alert(&mut self, output: &mut [u8], mut written: usize) -> usize {
        // After an error, input makes rustls panic.
        while self.has_output()
            && let Ok(ConnectionState::EncodeTlsData(mut data)) = self.process(&mut []).state
            && let Ok(len) = data.encode(&mut output[written..])
        {
            written += len;
        }
        written
    }
}

pub(super) struct Advanced {
    /// Number of input bytes that are not needed any more.
    pub(super) used: usize,
    /// Number of input bytes behind those that the handshake has seen.
    pub(super) seen: usize,
    pub(super) written: usize,
    pub(super) is_complete: bool,
}

pub(super) struct Failed {
    pub(super) fault: Fault,
    /// Length of the output, with the alert.
    pub(super) written: usize,
}

pub(super) fn client(tls: &Tls, name: ServerName<'static>) -> Result<UnbufferedClientConnection, Fault> {
    Ok(UnbufferedClientConnection::new(Arc::clone(&tls.0.client), name)?)
}

pub(super) fn server(tls: &Tls) -> Result<UnbufferedServerConnection, Fault> {
    Ok(UnbufferedServerConnection::new(Arc::clone(&tls.0.server))?)
}

impl Handshake for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn has_output(&self) -> bool {
        self.wants_write()
    }

    fn protocol(&self) -> Option<&[u8]> {
        self.alpn_protocol()
    }

    fn verify(&self, _: &ServerName<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn into_keys(self, records: u64) -> Result<Keys, Fault> {
        let (secrets, kernel) = self.dangerous_into_kernel_connection()?;
        Keys::new(Kernel::Client(kernel), secrets, records)
    }
}

impl Handshake for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn has_output(&self) -> bool {
        self.wants_write()
    }

    fn protocol(&self) -> Option<&[u8]> {
        self.alpn_protocol()
    }

    fn verify(&self, name: &ServerName<'_>) -> Result<(), Fault> {
        let certificate = self.peer_certificates().and_then(<[_]>::first).ok_or(Fault::Certificate)?;
        Ok(verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?)
    }

    fn into_keys(self, records: u64) -> Result<Keys, Fault> {
        let (secrets, kernel) = self.dangerous_into_kernel_connection()?;
        Keys::new(Kernel::Server(kernel), secrets, records)
    }
}
