//! Items on the control connection of `fi_pingpong`: names and synchronisation. Each is written at
//! once, because the other side reads each at once.

use std::io::{self, ErrorKind, Read, Write};

use loom_core::vocabulary::{AddressFormat, EndpointAddr};

/// Maximum length in bytes of a name that either side accepts.
const LONGEST_NAME: u32 = 1024;

pub(crate) fn send_name(to: &mut impl Write, name: &EndpointAddr) -> io::Result<()> {
    let len = u32::try_from(name.bytes().len()).map_err(io::Error::other)?;
    to.write_all(&len.to_be_bytes())?;
    to.write_all(&name.format().as_raw().to_ne_bytes())?;
    to.write_all(name.bytes())
}

pub(crate) fn receive_name(from: &mut impl Read) -> io::Result<EndpointAddr> {
    let mut number = [0; 4];
    from.read_exact(&mut number)?;
    let len = u32::from_be_bytes(number);
    if len > LONGEST_NAME {
        return Err(garbled(format!("a name of {len} bytes")));
    }
    from.read_exact(&mut number)?;
    let format = AddressFormat::from_raw(u32::from_ne_bytes(number));
    let mut name = vec![0; len as usize];
    from.read_exact(&mut name)?;
    EndpointAddr::new(format, &name).map_err(|error| garbled(format!("the peer's name: {error}")))
}

fn garbled(text: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

fn expect(from: &mut impl Read, wanted: &[u8]) -> io::Result<()> {
    let mut read = vec![0; wanted.len()];
    from.read_exact(&mut read)?;
    if read == wanted { Ok(()) } else { Err(garbled(format!("{read:?} where {wanted:?} was due"))) }
}

/// Synchronises with the other side before a size.
pub(crate) fn meet(other: &mut (impl Read + Write), is_client: bool) -> io::Result<()> {
    if is_client {
        other.write_all(b"q\0")?;
        expect(other, b"a\0")
    } else {
        expect(other, b"q\0")?;
        other.write_all(b"a\0")
    }
}

/// Sends the client's number of received messages after a size, and returns the number that was
/// sent.
pub(crate) fn settle(other: &mut (impl Read + Write), is_client: bool, received: u64) -> io::Result<u64> {
    let mut count = [0; 10];
    if is_client {
        let text = received.to_string();
        let room = count.get_mut(..text.len()).ok_or_else(|| io::Error::other("too many messages"))?;
        room.copy_from_slice(text.as_bytes());
        other.write_all(&count)?;
        expect(other, b"cnt ok\0")?;
        return Ok(received);
    }
    other.read_exact(&mut count)?;
    let told = String::from_utf8_lossy(&count).trim_end_matches('\0').parse().map_err(io::Error::other)?;
    other.write_all(b"cnt ok\0")?;
    Ok(told)
}
