//! Receives that peers' writes have consumed (`FI_RX_CQ_DATA`), posted again.

#![allow(unsafe_code, reason = "posts to the raw endpoints of the queue")]

use super::{CqInner, SlotState};
use crate::buffer::Buffer;
use crate::error::PostError;
use crate::transport::{Msg, Transport};
use crate::vocabulary::{Errno, OpFlags};

impl<T: Transport, B: Buffer> CqInner<T, B> {
    #[inline]
    pub(crate) fn post_used_up_again(&self) {
        if self.ops.has_used_up() {
            self.post_again();
        }
    }

    #[cold]
    #[inline(never)]
    fn post_again(&self) {
        let open_endpoint = |endpoint: u16| {
            self.endpoint_slots().get(usize::from(endpoint)).filter(|endpoint_slot| endpoint_slot.is(SlotState::Open))
        };
        self.ops.post_again(
            |endpoint| open_endpoint(endpoint).is_some(),
            |endpoint, from, pieces, context| {
                let endpoint_slot = open_endpoint(endpoint).ok_or(PostError::Errno(Errno::ECANCELED))?;
                // SAFETY: open, and not closed before this returns, because no user code runs.
                let raw = unsafe { endpoint_slot.raw() };
                Ok(match pieces {
                    // SAFETY: open (H1), with the address of an earlier receive (O1). The memory is
                    // that of the first post (contract of `Buffer`), and stays in the op table
                    // until its event or the endpoint's close (L1).
                    [only] => unsafe { T::recv(raw, from, only, None, context) },
                    pieces => {
                        let msg = Msg { address: from, pieces, data: None, context, flags: OpFlags::COMPLETION };
                        // SAFETY: H1, O1 and L1, like those of `recv`.
                        unsafe { T::recvmsg(raw, &msg, None) }
                    }
                }?)
            },
        );
    }
}
