//! Processors for two threads that answer each other.
//!
//! On one processor, half a round trip measures a thread switch.

#[cfg(target_os = "linux")]
use loom_transfer::topology::{Bound, bind_thread};
#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity};

/// Two processors that this process may use, of two cores if possible.
#[cfg(target_os = "linux")]
pub(crate) fn two() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut all = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let (first, rest) = (all.next()?, all.collect::<Vec<_>>());
    let siblings = format!("/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list");
    let siblings = std::fs::read_to_string(siblings).unwrap_or_default();
    let other_core = rest.iter().find(|core| !contains(&siblings, **core));
    Some([first, *other_core.or(rest.first())?])
}

#[cfg(target_os = "linux")]
pub(crate) fn bind(core: usize) -> Option<Bound> {
    bind_thread([u32::try_from(core).ok()?]).ok()
}

#[cfg(target_os = "linux")]
fn contains(list: &str, number: usize) -> bool {
    list.trim().split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&number))
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn two() -> Option<[usize; 2]> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn bind(_: usize) -> Option<()> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert!([0, 2, 3, 8].iter().all(|number| contains("0,2-3,8\n", *number)));
        assert!([1, 4, 7, 9].iter().all(|number| !contains("0,2-3,8\n", *number)));
        assert!(!contains("", 0));
    }

    #[test]
    fn thread_is_bound_until_the_guard_is_dropped() {
        let Some([first, second]) = two() else { return };
        assert_ne!(first, second);
        let before = sched_getaffinity(None).unwrap();
        let bound = bind(second).unwrap();
        let allowed = sched_getaffinity(None).unwrap();
        assert_eq!((allowed.count(), allowed.is_set(second)), (1, true));
        drop(bound);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
