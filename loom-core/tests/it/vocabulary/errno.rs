//! Error numbers.

use loom_core::vocabulary::Errno;

#[test]
fn numbers_are_those_of_linux_and_libfabric() {
    for (errno, number) in [
        (Errno::EPERM, 1),
        (Errno::EAGAIN, 11),
        (Errno::EWOULDBLOCK, 11),
        (Errno::ENOMEM, 12),
        (Errno::EINVAL, 22),
        (Errno::ENOSYS, 38),
        (Errno::EMSGSIZE, 90),
        (Errno::ETIMEDOUT, 110),
        (Errno::ECANCELED, 125),
        (Errno::EKEYREJECTED, 129),
        (Errno::EOTHER, 256),
        (Errno::ETOOSMALL, 257),
        (Errno::EAVAIL, 259),
        (Errno::ENOCQ, 263),
        (Errno::ETRUNC, 265),
        (Errno::ENORX, 269),
        (Errno::ENOMR, 270),
        (Errno::EFIREWALLADDR, 271),
    ] {
        assert_eq!(errno.as_raw(), number, "{errno}");
        assert_eq!(Errno::from_raw(number), errno);
    }
}

#[test]
fn text_forms() {
    assert_eq!(Errno::ENOKEY.to_string(), "ENOKEY (266): Required key not available");
    assert_eq!(format!("{:?}", Errno::EAGAIN), "Errno(EAGAIN)");
    let unknown = Errno::from_raw(4242);
    assert_eq!(unknown.to_string(), "errno 4242");
    assert_eq!(unknown.name(), None);
    assert_eq!(unknown.text(), "unknown error");
    assert_eq!(Errno::from_raw(i32::MIN).to_string(), "errno -2147483648");
}

#[test]
fn return_values() {
    assert_eq!(Errno::from_ret(0), None);
    assert_eq!(Errno::from_ret(17), None);
    assert_eq!(Errno::from_ret(isize::MAX), None);
    assert_eq!(Errno::from_ret(-11), Some(Errno::EAGAIN));
    assert_eq!(Errno::from_ret(-4242), Some(Errno::from_raw(4242)));
    assert_eq!(Errno::from_ret(isize::MIN), Some(Errno::EOTHER));
    #[cfg(target_pointer_width = "64")]
    assert_eq!(Errno::from_ret(-((1 << 32) + 11)), Some(Errno::EOTHER), "must not wrap to EAGAIN");
}
