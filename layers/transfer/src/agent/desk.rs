//! [`Desk`]: calls to the engine of any transport.

use allocator_api2::alloc::Allocator;
use loom_core::exposed::Window;
use loom_core::{Access, AddressError, Buffer, Error, Transport};
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use crate::engine::Engine;
use crate::memory::MemoryKey;
use crate::peers::PeerKey;
use crate::plan::Plan;
use crate::remote::RemoteMemory;

pub(super) trait Desk<M> {
    fn address(&self) -> Result<Vec<u8>, Error>;
    fn insert_peer(&mut self, record: &[u8]) -> Result<PeerKey, Error>;
    fn remove_peer(&mut self, peer: PeerKey) -> bool;
    fn register(&mut self, memory: M, access: Access) -> Result<MemoryKey, Error>;
    fn deregister(&mut self, memory: MemoryKey) -> Result<(), Error>;
    fn remote(&self, memory: MemoryKey) -> Result<RemoteMemory, Error>;
    fn window(&self, memory: MemoryKey) -> Option<Window<'_>>;
}

pub(super) type Call<M> = Box<dyn FnOnce(&mut dyn Desk<M>) + Send>;

impl<'m, T, M, P, A> Desk<M> for Engine<'m, T, M, P, A>
where
    T: Transport + 'm,
    M: Buffer + Send + 'm,
    P: Plan,
    A: Allocator + Clone + Send + 'm,
{
    fn address(&self) -> Result<Vec<u8>, Error> {
        let mut record = vec![0; 1024];
        loop {
            match Engine::address(self, &mut record) {
                Ok(len) => {
                    record.truncate(len);
                    return Ok(record);
                }
                Err(Error::Address(AddressError::BufferTooSmall)) if record.len() < 1 << 20 => {
                    let len = record.len();
                    record.resize(2 * len, 0);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn insert_peer(&mut self, record: &[u8]) -> Result<PeerKey, Error> {
        Engine::insert_peer(self, record)
    }

    fn remove_peer(&mut self, peer: PeerKey) -> bool {
        Engine::remove_peer(self, peer)
    }

    fn register(&mut self, memory: M, access: Access) -> Result<MemoryKey, Error> {
        Engine::register(self, memory, access)
    }

    fn deregister(&mut self, memory: MemoryKey) -> Result<(), Error> {
        Engine::deregister(self, memory)
    }

    fn remote(&self, memory: MemoryKey) -> Result<RemoteMemory, Error> {
        Engine::remote(self, memory)
    }

    fn window(&self, memory: MemoryKey) -> Option<Window<'_>> {
        Engine::window(self, memory)
    }
}
