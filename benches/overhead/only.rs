//! One operation of one side and nothing else: for counting instructions with `callgrind`, which are the same on a busy
//! machine. `benches/instructions` runs it.

use loom_core::objects::info::Info;
use loom_core::soft::Soft;

use crate::sides::{Operation, Side, on_transport};

/// What the arguments leave of a run.
pub(crate) struct Only {
    side: String,
    operation: Operation,
    count: u32,
}

impl Only {
    /// From the arguments; `None` where there are none.
    pub(crate) fn from_args() -> Result<Option<Only>, String> {
        // Cargo adds `--bench`.
        let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
        let usage = || "arguments: none, or --only SIDE OPERATION COUNT".to_owned();
        match &args[..] {
            [] => Ok(None),
            [only, side, operation, count] if only == "--only" => Ok(Some(Only {
                side: side.clone(),
                operation: Operation::ALL.into_iter().find(|it| it.name() == operation).ok_or_else(usage)?,
                count: count.parse().map_err(|_| usage())?,
            })),
            _ => Err(usage()),
        }
    }

    /// Opens the side and runs the operation.
    pub(crate) fn run(&self, soft: &Info<Soft<'_>>) -> Result<(), String> {
        match &self.side[..] {
            "soft" => on_transport(soft, |soft| self.counted(soft)),
            #[cfg(feature = "libfabric")]
            "shm" => on_transport(&crate::info("shm", None)?, |shm| self.counted(shm)),
            #[cfg(feature = "libfabric")]
            "c" => self.counted(&mut crate::raw::Raw::open("shm", None, 4096)?),
            side => return Err(format!("there is no side '{side}' (soft; with the feature libfabric also shm and c)")),
        }
        Ok(())
    }

    // A function of its own: callgrind counts from its first instruction to its last.
    #[inline(never)]
    fn counted(&self, side: &mut dyn Side) {
        side.run(self.operation, self.count);
    }
}
