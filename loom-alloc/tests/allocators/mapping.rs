//! Pages of the operating system. Features that this machine lacks (huge pages, several NUMA nodes,
//! unlimited locked memory) are reported, and their requests refused.

use std::collections::VecDeque;
use std::fs;
use std::mem::MaybeUninit;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use loom_alloc::Arena;
use loom_alloc::allocator_api2::alloc::{Allocator, Layout};
use loom_alloc::os::{Mapping, MappingAttr, PageSize};
use loom_core::Error;
use loom_core::vocabulary::Errno;

/// Lock of the tests that map shared memory, because one of them counts the files.
static FILES: Mutex<()> = Mutex::new(());

fn files() -> usize {
    let files = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    files.filter(|target| target.starts_with("/memfd:loom (deleted)")).count()
}

const DEFAULT: MappingAttr<'static> = MappingAttr::DEFAULT;

fn addr(mapping: &mut Mapping) -> usize {
    mapping.as_uninit_mut().as_ptr().addr()
}

fn works(mapping: &mut Mapping) {
    let arena = Arena::new(mapping.as_uninit_mut());
    let block = (&arena).allocate(Layout::array::<u8>(arena.capacity()).unwrap()).unwrap();
    // SAFETY: a new block without other users.
    let memory = unsafe { std::slice::from_raw_parts_mut(block.cast::<MaybeUninit<u8>>().as_ptr(), block.len()) };
    for (at, byte) in memory.iter_mut().enumerate() {
        byte.write(u8::try_from(at % 251).unwrap());
    }
    // SAFETY: written above.
    assert!(memory.iter().enumerate().all(|(at, byte)| usize::from(unsafe { byte.assume_init() }) == at % 251));
    assert_eq!(arena.remaining(), 0);
}

/// Field of the mapping that begins at an address: a line of the kernel's `/proc/self/smaps`. The
/// mapping requires guards, because the kernel joins adjacent mappings without differences.
fn told(begin: usize, what: &str) -> Option<String> {
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&format!("{begin:x}-")));
    lines.next()?;
    let line =
        lines.take_while(|line| !line.contains("VmFlags") || what == "VmFlags").find(|line| line.starts_with(what))?;
    Some(line.trim_start_matches(what).trim_start_matches(':').trim().to_owned())
}

/// Returns `true` if the addresses from here on are mapped or reserved.
fn is_taken(addr: usize) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let (begin, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let [begin, end] = [begin, end].map(|number| usize::from_str_radix(number, 16).unwrap());
        (begin..end).contains(&addr)
    })
}

#[test]
fn memory_is_zero_of_whole_pages_and_given_back() {
    for len in [1, 4095, 4096, 4097, 1 << 20] {
        let mut mapping = Mapping::new(len, DEFAULT).unwrap();
        let begin = addr(&mut mapping);
        let memory = mapping.as_uninit_mut();
        assert_eq!((begin % 4096, memory.len()), (0, len.next_multiple_of(4096)));
        // SAFETY: unwritten pages are zero.
        assert!(memory.iter().all(|byte| unsafe { byte.assume_init() } == 0));
        works(&mut mapping);
    }
    // The whole mapping is gone. No other test has mappings of this size class. Another thread may
    // map the same place sometimes, but not every time.
    let is_given_back = || {
        let mut mapping = Mapping::new(77 << 20, DEFAULT).unwrap();
        let begin = addr(&mut mapping);
        assert!(is_taken(begin + (76 << 20)));
        drop(mapping);
        !fs::read_to_string("/proc/self/maps").unwrap().lines().any(|line| {
            let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let [from, to] = [from, to].map(|number| usize::from_str_radix(number, 16).unwrap());
            from <= begin && begin + (77 << 20) <= to
        })
    };
    assert!((0..10).any(|_| is_given_back()), "it is still mapped");
}

#[test]
fn the_first_size_of_pages_that_is_granted_is_taken() {
    let _files = FILES.lock().unwrap();
    for asked in [PageSize::Huge1G, PageSize::Huge2M, PageSize::Transparent, PageSize::Base] {
        for shared in [false, true] {
            match Mapping::new(4096, MappingAttr { pages: &[asked], shared, guarded: true, ..DEFAULT }) {
                Ok(mut mapping) => {
                    assert_eq!(mapping.pages(), asked);
                    let begin = addr(&mut mapping);
                    let len = mapping.as_uninit_mut().len();
                    assert_eq!((begin % asked.bytes(), len), (0, asked.bytes()));
                    let size = told(begin, "KernelPageSize").unwrap();
                    let kernel = match asked {
                        PageSize::Transparent => PageSize::Base.bytes(),
                        asked => asked.bytes(),
                    };
                    assert_eq!(size, format!("{} kB", kernel >> 10));
                    if asked == PageSize::Transparent {
                        assert!(told(begin, "VmFlags").unwrap().contains("hg"), "the kernel was advised");
                    }
                    if asked != PageSize::Huge1G {
                        works(&mut mapping);
                    }
                }
                Err(error) => {
                    assert!(!matches!(asked, PageSize::Base), "{error:#}");
                    println!("not here: {asked:?}, shared: {shared}: {error:#}");
                }
            }
            let pages = &[asked, PageSize::Base];
            let mut mapping = Mapping::new(4096, MappingAttr { pages, shared, ..DEFAULT }).unwrap();
            assert!(pages.contains(&mapping.pages()));
            assert_eq!(mapping.as_uninit_mut().len(), mapping.pages().bytes());
        }
    }
}

#[test]
fn invalid_mappings_are_refused_and_leave_no_file() {
    let _files = FILES.lock().unwrap();
    let refused = |len, attr| Mapping::new(len, attr).map(|_| ()).unwrap_err();
    let invalid = Error::System { call: "mmap", errno: Errno::EINVAL };
    assert_eq!(refused(0, DEFAULT), invalid);
    assert_eq!(refused(1, MappingAttr { pages: &[], ..DEFAULT }), invalid);
    for len in [usize::MAX, usize::MAX - 4096, isize::MAX as usize] {
        for shared in [false, true] {
            let error = refused(len, MappingAttr { shared, guarded: true, ..DEFAULT });
            let Error::System { errno, .. } = error else { panic!("{error:#}") };
            assert!(matches!(errno.as_raw(), libc::ENOMEM | libc::EFBIG | libc::EINVAL), "{error:#}");
        }
    }
    // The node does not exist, and a mask has no bit for it.
    for node in [1023, 1024, u32::MAX] {
        let error = refused(4096, MappingAttr { node: Some(node), shared: true, ..DEFAULT });
        assert!(matches!(error, Error::System { call: "mbind", .. }), "{error:#}");
        assert!(error.to_string().starts_with("mbind failed"), "{error:#}");
    }
    assert_eq!(files(), 0, "no file stays open");
    let mapping = Mapping::new(1, MappingAttr { shared: true, ..DEFAULT }).unwrap();
    assert_eq!(files(), 1);
    drop(mapping);
    assert_eq!(files(), 0);
}

#[test]
fn a_refusal_unmaps_no_memory_of_other_threads() {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // More than most systems grant, and pages that few systems reserve.
            for _ in 0..10_000 {
                drop(Mapping::new(1 << 45, DEFAULT));
                drop(Mapping::new(64 << 20, MappingAttr { pages: &[PageSize::Huge2M], ..DEFAULT }));
            }
            done.store(true, Ordering::Relaxed);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                // Many sizes, so that they need new addresses. Each is touched repeatedly.
                let mut held = VecDeque::new();
                for round in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let mut memory = Vec::<u8>::with_capacity((1 + round * 7919 % 61) << 20);
                    memory.push(1);
                    held.push_back(memory);
                    if held.len() > 30 {
                        held.swap(0, round * 31 % 30);
                        held.pop_front();
                    }
                    held.iter_mut().for_each(|memory| memory[0] = memory[0].wrapping_add(1));
                }
            });
        }
    });
}

#[test]
fn touched_pages_are_resident_and_others_are_not() {
    let resident = |touched| {
        let mut mapping = Mapping::new(1 << 20, MappingAttr { touched, guarded: true, ..DEFAULT }).unwrap();
        told(addr(&mut mapping), "Rss").unwrap()
    };
    assert_eq!((resident(true), resident(false)), ("1024 kB".into(), "0 kB".into()));
}

#[test]
fn locked_memory_is_locked_or_refused() {
    match Mapping::new(64 << 10, MappingAttr { locked: true, guarded: true, ..DEFAULT }) {
        Ok(mut mapping) => {
            assert_eq!(told(addr(&mut mapping), "Locked").unwrap(), "64 kB");
            works(&mut mapping);
        }
        Err(error) => {
            assert!(matches!(error, Error::System { call: "mlock", .. }), "{error:#}");
            println!("not here: locked memory: {error:#}");
        }
    }
}

#[test]
fn memory_lies_on_the_node_that_was_named() {
    match Mapping::new(64 << 10, MappingAttr { node: Some(0), touched: true, guarded: true, ..DEFAULT }) {
        Ok(mut mapping) => {
            let begin = addr(&mut mapping);
            let maps = fs::read_to_string("/proc/self/numa_maps").unwrap_or_default();
            let line = maps.lines().find(|line| line.starts_with(&format!("{begin:x} ")));
            match line {
                Some(line) => assert!(line.contains("bind:0") && line.contains("N0=16"), "{line}"),
                None => println!("not here: the kernel does not tell where pages lie"),
            }
            works(&mut mapping);
        }
        Err(error) => {
            assert!(matches!(error, Error::System { call: "mbind", .. }), "{error:#}");
            println!("not here: NUMA: {error:#}");
        }
    }
}

#[test]
fn shared_memory_is_visible_through_the_file() {
    let _files = FILES.lock().unwrap();
    let mut mapping = Mapping::new(8192, MappingAttr { shared: true, ..DEFAULT }).unwrap();
    assert!(Mapping::new(4096, DEFAULT).unwrap().file().is_none());
    mapping.as_uninit_mut()[5000] = MaybeUninit::new(42);
    // Access of another process with the descriptor.
    let path = format!("/proc/self/fd/{}", mapping.file().unwrap());
    let bytes = fs::read(path).unwrap();
    assert_eq!((bytes.len(), bytes[5000], bytes[4999]), (8192, 42, 0));
}

/// Seals against a resize. Otherwise, any owner of the descriptor could end this process by a
/// truncation: access beyond the end of the file is a fault.
#[test]
fn a_shared_mapping_cannot_be_resized() {
    let _files = FILES.lock().unwrap();
    for asked in [PageSize::Huge2M, PageSize::Transparent, PageSize::Base] {
        let mut mapping = match Mapping::new(8192, MappingAttr { pages: &[asked], shared: true, ..DEFAULT }) {
            Ok(mapping) => mapping,
            Err(error) => {
                assert!(!matches!(asked, PageSize::Base), "{error:#}");
                println!("not here: {asked:?}, shared: {error:#}");
                continue;
            }
        };
        let len = u64::try_from(mapping.as_uninit_mut().len()).unwrap();
        let fd = mapping.file().unwrap();
        let page = u64::try_from(asked.bytes()).unwrap();
        let resize = |len: u64| {
            // SAFETY: the descriptor belongs to the open mapping.
            let resized = unsafe { libc::ftruncate(fd, libc::off_t::try_from(len).unwrap()) };
            if resized == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().raw_os_error().unwrap()) }
        };
        for other in [0, len - page, len + page] {
            assert_eq!(resize(other), Err(libc::EPERM), "{asked:?}, {other} bytes");
            let file = fs::OpenOptions::new().write(true).open(format!("/proc/self/fd/{fd}")).unwrap();
            assert_eq!(file.set_len(other).unwrap_err().raw_os_error(), Some(libc::EPERM));
        }
        // The control: the call with the mapping's own size succeeds.
        assert_eq!(resize(len), Ok(()));
        // SAFETY: as above.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_FUTURE_WRITE) }, -1, "no seal is added");
        works(&mut mapping);
    }
}

#[test]
fn leaked_memory_stays() {
    let memory = Mapping::new(4096, DEFAULT).unwrap().leak();
    memory[4095] = MaybeUninit::new(7);
    let arena: &'static Arena<'static> = Box::leak(Box::new(Arena::new(memory)));
    assert_eq!(arena.capacity(), 4096);
}

/// Runs this test again as another process, because touching a guard ends the process.
#[test]
fn write_beyond_a_guarded_mapping_ends_the_process() {
    const OFFSET: &str = "LOOM_TEST_GUARD_OFFSET";
    if let Ok(offset) = std::env::var(OFFSET) {
        let mut mapping = Mapping::new(4096, MappingAttr { guarded: true, ..DEFAULT }).unwrap();
        let at = mapping.as_uninit_mut().as_mut_ptr().wrapping_offset(offset.parse().unwrap());
        // SAFETY: unsound on purpose. The guard must stop this access, except in the control.
        unsafe { at.cast::<u8>().write_volatile(1) };
        std::process::exit(0);
    }
    let run = |offset: &str| {
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new(this);
        command.args(["--exact", "mapping::write_beyond_a_guarded_mapping_ends_the_process"]).env(OFFSET, offset);
        command.output().unwrap().status.success()
    };
    assert!(run("0") && run("4095"), "within");
    assert!(!run("-1") && !run("4096"), "beyond");
}

#[test]
fn failed_system_calls_keep_their_name_and_number() {
    let error = Mapping::new(usize::MAX / 2, DEFAULT).map(drop).unwrap_err();
    assert!(matches!(error, Error::System { call: "mmap", errno: Errno::ENOMEM }), "{error:#}");
    assert!(format!("{error:#}").starts_with("mmap failed: "), "{error:#}");
}
