//! Memory of a CUDA device, if one is available: its bytes are written to a peer's memory, and a
//! peer's bytes into it.

use std::ffi::{CStr, c_int, c_void};
use std::io::{Write, stderr};
use std::mem::transmute_copy;
use std::ptr::{NonNull, null_mut};
use std::time::Instant;

use loom_core::buffer::{Buffer, Lent, SourceBuffer, TargetBuffer};
use loom_core::error::OpenError;
use loom_core::registered::Registered;
use loom_core::vocabulary::{Caps, DomainAttributes, Errno, HmemIface, MrMode};
use loom_core::{Access, Av, Cq, CqAttr, Domain, Hints, Info, Mr};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};
use support::posting::{LIMIT, pattern, post};

type T = Ofi<Local>;

const LEN: usize = 10_000;

/// Functions of `libcuda`, with a current context.
#[derive(Clone, Copy)]
struct Cuda {
    allocate: unsafe extern "C" fn(*mut u64, usize) -> c_int,
    free: unsafe extern "C" fn(u64) -> c_int,
    copy_in: unsafe extern "C" fn(u64, *const c_void, usize) -> c_int,
    copy_out: unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int,
}

impl Cuda {
    /// Loads the library, and makes the context of the first device current.
    fn open() -> Result<Self, &'static str> {
        // SAFETY: a name that ends with 0.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err("libcuda.so.1 cannot be loaded");
        }
        fn symbol<F>(library: *mut c_void, name: &CStr) -> Result<F, &'static str> {
            const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a pointer to a function") };
            // SAFETY: an open library, and a name that ends with 0.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            // SAFETY: `F` is the type of this function in `cuda.h`.
            (!symbol.is_null()).then(|| unsafe { transmute_copy(&symbol) }).ok_or("libcuda.so.1 lacks a function")
        }
        type OfNumber = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
        type OfDevice = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
        let init: unsafe extern "C" fn(u32) -> c_int = symbol(library, c"cuInit")?;
        let device_of: OfNumber = symbol(library, c"cuDeviceGet")?;
        let context_of: OfDevice = symbol(library, c"cuDevicePrimaryCtxRetain")?;
        let make_current: unsafe extern "C" fn(*mut c_void) -> c_int = symbol(library, c"cuCtxSetCurrent")?;
        let (mut device, mut context) = (0, null_mut());
        // SAFETY: by the documentation of these functions, with room for the results.
        let is_ready = unsafe {
            init(0) == 0
                && device_of(&raw mut device, 0) == 0
                && context_of(&raw mut context, device) == 0
                && make_current(context) == 0
        };
        if !is_ready {
            return Err("no device is present");
        }
        Ok(Cuda {
            allocate: symbol(library, c"cuMemAlloc_v2")?,
            free: symbol(library, c"cuMemFree_v2")?,
            copy_in: symbol(library, c"cuMemcpyHtoD_v2")?,
            copy_out: symbol(library, c"cuMemcpyDtoH_v2")?,
        })
    }

    fn memory(self, bytes: &[u8]) -> OnDevice {
        let mut place = 0;
        // SAFETY: room for the result, and memory of that length on the device.
        let code = unsafe {
            (self.allocate)(&raw mut place, bytes.len()) | (self.copy_in)(place, bytes.as_ptr().cast(), bytes.len())
        };
        assert_eq!(code, 0, "memory of the device");
        let place = NonNull::new(null_mut::<u8>().with_addr(place.try_into().unwrap())).unwrap();
        OnDevice { cuda: self, place, len: bytes.len() }
    }

    fn bytes(self, (place, len): (u64, usize)) -> Vec<u8> {
        let mut bytes = vec![0; len];
        // SAFETY: memory of the device, and room for its bytes.
        assert_eq!(unsafe { (self.copy_out)(bytes.as_mut_ptr().cast(), place, len) }, 0);
        bytes
    }
}

struct OnDevice {
    cuda: Cuda,
    place: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is the device's own, which any thread may name.
unsafe impl Send for OnDevice {}

impl OnDevice {
    fn place(&self) -> (u64, usize) {
        (self.place.addr().get() as u64, self.len)
    }
}

// SAFETY: the memory does not move, and is freed with this value.
unsafe impl Buffer for OnDevice {
    fn lend(&mut self) -> Lent {
        Lent { kind: HmemIface::CUDA, ..Lent::both(self.place, self.len) }
    }
}

impl Drop for OnDevice {
    fn drop(&mut self) {
        // SAFETY: allocated in `Cuda::memory`.
        unsafe { (self.cuda.free)(self.place().0) };
    }
}

enum Memory {
    Host(Registered<'static, T, Vec<u8>>),
    Device(Registered<'static, T, OnDevice>),
}

// SAFETY: both do not move.
unsafe impl Buffer for Memory {
    fn lend(&mut self) -> Lent {
        match self {
            Memory::Host(memory) => memory.lend(),
            Memory::Device(memory) => memory.lend(),
        }
    }
}
impl SourceBuffer for Memory {}
impl TargetBuffer for Memory {}

/// Moves bytes out of and into the device. `Err` if the provider cannot use its memory.
fn move_both_ways(info: &Info<T>, cuda: Cuda) -> Result<(), OpenError> {
    const ACCESS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);
    let (sent, returned) = (pattern(LEN, 3), pattern(LEN, 7));
    let domain = Domain::open(info)?;
    let source = Registered::new(&domain, cuda.memory(&sent)).map_err(|rejected| rejected.error)?;
    let device = cuda.memory(&[0; LEN]);
    let place = device.place();
    let into_device = Mr::open(&domain, device, ACCESS)?;
    let into_host = Mr::open(&domain, vec![0_u8; LEN], ACCESS)?;
    let host = Registered::new(&domain, returned.clone()).map_err(|rejected| rejected.error)?;
    let (av, cq) = (Av::open(&domain, 2)?, Cq::<T, Memory>::open(&domain, CqAttr::new(8))?);
    let [a, b] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    let to_b = av.insert(&b.address().unwrap()).unwrap();
    let until = Instant::now() + LIMIT;
    for (memory, remote) in [(Memory::Device(source), into_host.remote()), (Memory::Host(host), into_device.remote())] {
        let write = post(&cq, memory, |memory| a.write(to_b, &remote, 0, memory));
        cq.finish(write, until).unwrap().result().unwrap();
    }
    let mut arrived = vec![0; LEN];
    while arrived != sent || cuda.bytes(place) != returned {
        assert!(Instant::now() < until, "arrived within {LIMIT:?}");
        cq.progress().unwrap();
        into_host.window().copy_to(0, &mut arrived).unwrap();
    }
    Ok(())
}

/// Prints beyond the capture of tests, so that each run shows the result.
#[test]
fn bytes_move_out_of_and_into_the_memory_of_a_device() {
    let say = |text: &str| writeln!(stderr(), "memory of a CUDA device: {text}").unwrap();
    let cuda = match Cuda::open() {
        Ok(cuda) => cuda,
        Err(reason) => return say(&format!("skipped, {reason}")),
    };
    support::shared_memory::remove_at_exit();
    let domain_attr = DomainAttributes { mr_mode: MrMode::HMEM | MrMode::LOCAL, ..DomainAttributes::default() };
    let hints = Hints { caps: Caps::MSG | Caps::RMA | Caps::HMEM, domain_attr, ..Hints::default() };
    let mut moved = 0;
    for info in Ofi::<Local>::query(&hints).expect("shm grants `FI_HMEM` everywhere") {
        match move_both_ways(&info, cuda) {
            Ok(()) => {
                say(&format!("moved over {}", info.provider()));
                moved += 1;
            }
            // The library was built without support of the device.
            Err(error @ OpenError::Errno(Errno::ENOSYS | Errno::EOPNOTSUPP)) => {
                say(&format!("not over {}: {error:?}", info.provider()));
            }
            Err(error) => panic!("{}: {error:?}", info.provider()),
        }
    }
    if moved == 0 {
        say("skipped, no provider of this libfabric can use it");
    }
}
