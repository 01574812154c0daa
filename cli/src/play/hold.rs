use loom_core::engine::op_table::OpKey;
use loom_core::error::{PostError, Rejected};

use crate::play::payload::Buffer;

pub(crate) enum Hold {
    Here(Buffer),
    InFlight(OpKey),
}

impl Default for Hold {
    fn default() -> Self {
        Hold::Here(Buffer::default())
    }
}

impl Hold {
    pub(crate) fn is_here(&self) -> bool {
        matches!(self, Hold::Here(_))
    }

    pub(crate) fn take(&mut self) -> Option<Buffer> {
        match std::mem::take(self) {
            Hold::Here(bytes) => Some(bytes),
            in_flight @ Hold::InFlight(_) => {
                *self = in_flight;
                None
            }
        }
    }

    /// Returns `false` if the caller should poll and retry.
    #[inline]
    pub(crate) fn post(
        &mut self,
        post: impl FnOnce(Buffer) -> Result<OpKey, Rejected<Buffer>>,
    ) -> Result<bool, PostError> {
        let Some(bytes) = self.take() else { return Ok(false) };
        match post(bytes) {
            Ok(key) => {
                *self = Hold::InFlight(key);
                Ok(true)
            }
            Err(Rejected { value: buf, error }) => {
                *self = Hold::Here(buf);
                if error.is_transient() { Ok(false) } else { Err(error) }
            }
        }
    }
}
