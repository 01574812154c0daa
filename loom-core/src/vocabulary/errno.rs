use core::error::Error;
use core::fmt;

/// Positive error number of libfabric.
///
/// Numbers up to 255 are those of Linux, numbers from 256 on libfabric's own. C functions return
/// them negated, see [`from_ret`](Self::from_ret).
///
/// ```
/// use loom_core::Errno;
///
/// assert_eq!(Errno::ENOKEY.to_string(), "ENOKEY (266): Required key not available");
/// // C functions return negative numbers.
/// assert_eq!(Errno::from_ret(-11), Some(Errno::EAGAIN));
/// // An unknown number is kept.
/// assert_eq!((Errno::from_raw(4242).name(), Errno::from_raw(4242).as_raw()), (None, 4242));
/// ```
///
/// # References
/// - `fi_errno(3)`
#[doc(alias = "fi_errno")]
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(i32);

/// Defines the named numbers. Each line is `NAME = number, "C name", "meaning";`.
macro_rules! errnos {
    ($($NAME:ident = $number:literal, $c_name:literal, $text:literal;)+) => {
        impl Errno {
            $(
                #[doc = concat!($text, ".")]
                #[doc(alias = $c_name)]
                pub const $NAME: Self = Self($number);
            )+

            /// Name without `FI_`, if known.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$NAME => Some(stringify!($NAME)),)+
                    Self::OTHER_PROCESS => Some("OTHER_PROCESS"),
                    _ => None,
                }
            }

            /// Short English text, or "unknown error" for an unnamed number.
            #[doc(alias = "fi_strerror")]
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$NAME => $text,)+
                    Self::OTHER_PROCESS => "Another process opened the object: open objects of its own in a forked child",
                    _ => "unknown error",
                }
            }
        }
    };
}

errnos! {
    EPERM = 1, "FI_EPERM", "Operation not permitted";
    ENOENT = 2, "FI_ENOENT", "No such object";
    EINTR = 4, "FI_EINTR", "Interrupted";
    EIO = 5, "FI_EIO", "Input or output failed";
    E2BIG = 7, "FI_E2BIG", "Argument list too long";
    EBADF = 9, "FI_EBADF", "Bad descriptor";
    EAGAIN = 11, "FI_EAGAIN", "Try again";
    ENOMEM = 12, "FI_ENOMEM", "Out of memory";
    EACCES = 13, "FI_EACCES", "Permission denied";
    EFAULT = 14, "FI_EFAULT", "Bad address";
    EBUSY = 16, "FI_EBUSY", "Object or resource busy";
    ENODEV = 19, "FI_ENODEV", "No such device";
    EINVAL = 22, "FI_EINVAL", "Invalid argument";
    EMFILE = 24, "FI_EMFILE", "Too many open files";
    ENOSPC = 28, "FI_ENOSPC", "No space left";
    ENOSYS = 38, "FI_ENOSYS", "Function not implemented";
    ENOMSG = 42, "FI_ENOMSG", "No message of the desired kind";
    EXFULL = 54, "FI_EXFULL", "No connection is left: raise the transport's number of connections";
    ENODATA = 61, "FI_ENODATA", "No data available";
    EPROTO = 71, "FI_EPROTO", "Protocol error";
    EOVERFLOW = 75, "FI_EOVERFLOW", "Value too large";
    EMSGSIZE = 90, "FI_EMSGSIZE", "Message too long";
    ENOPROTOOPT = 92, "FI_ENOPROTOOPT", "Protocol option not available";
    EOPNOTSUPP = 95, "FI_EOPNOTSUPP", "Operation not supported";
    EADDRINUSE = 98, "FI_EADDRINUSE", "Address already in use";
    EADDRNOTAVAIL = 99, "FI_EADDRNOTAVAIL", "Address not available";
    ENETDOWN = 100, "FI_ENETDOWN", "Network is down";
    ENETUNREACH = 101, "FI_ENETUNREACH", "Network is unreachable";
    ECONNABORTED = 103, "FI_ECONNABORTED", "Connection aborted";
    ECONNRESET = 104, "FI_ECONNRESET", "Connection reset by peer";
    ENOBUFS = 105, "FI_ENOBUFS", "No buffer space available";
    EISCONN = 106, "FI_EISCONN", "Endpoint is already connected";
    ENOTCONN = 107, "FI_ENOTCONN", "Endpoint is not connected";
    ESHUTDOWN = 108, "FI_ESHUTDOWN", "Endpoint has been shut down";
    ETIMEDOUT = 110, "FI_ETIMEDOUT", "Timed out";
    ECONNREFUSED = 111, "FI_ECONNREFUSED", "Connection refused";
    EHOSTDOWN = 112, "FI_EHOSTDOWN", "Host is down";
    EHOSTUNREACH = 113, "FI_EHOSTUNREACH", "No route to host";
    EALREADY = 114, "FI_EALREADY", "Operation already in progress";
    EINPROGRESS = 115, "FI_EINPROGRESS", "Operation now in progress";
    EREMOTEIO = 121, "FI_EREMOTEIO", "Remote input or output failed";
    ECANCELED = 125, "FI_ECANCELED", "Operation canceled";
    EKEYREJECTED = 129, "FI_EKEYREJECTED", "Key was rejected";

    // libfabric's own.
    EOTHER = 256, "FI_EOTHER", "Unspecified error";
    ETOOSMALL = 257, "FI_ETOOSMALL", "Provided buffer is too small";
    EOPBADSTATE = 258, "FI_EOPBADSTATE", "Operation not permitted in the current state";
    EAVAIL = 259, "FI_EAVAIL", "An error is available to be read";
    EBADFLAGS = 260, "FI_EBADFLAGS", "Flags not supported";
    ENOEQ = 261, "FI_ENOEQ", "Missing or unavailable event queue";
    EDOMAIN = 262, "FI_EDOMAIN", "Invalid resource domain";
    ENOCQ = 263, "FI_ENOCQ", "Missing or unavailable completion queue";
    ECRC = 264, "FI_ECRC", "CRC error";
    ETRUNC = 265, "FI_ETRUNC", "Message was truncated";
    ENOKEY = 266, "FI_ENOKEY", "Required key not available";
    ENOAV = 267, "FI_ENOAV", "Missing or unavailable address vector";
    EOVERRUN = 268, "FI_EOVERRUN", "Queue has been overrun";
    ENORX = 269, "FI_ENORX", "Receiver not ready: no receive buffer available";
    ENOMR = 270, "FI_ENOMR", "Limit of memory registrations reached";
    EFIREWALLADDR = 271, "FI_EFIREWALLADDR", "Host unreachable because of a firewall";
}

impl Errno {
    /// This process is a forked child, and its parent opened the object. This number is loom's own.
    pub const OTHER_PROCESS: Self = Self(1 << 16);

    /// Equal to [`EAGAIN`](Self::EAGAIN).
    #[doc(alias = "FI_EWOULDBLOCK")]
    pub const EWOULDBLOCK: Self = Self::EAGAIN;

    /// The error with this positive number, known or not.
    #[must_use]
    pub const fn from_raw(number: i32) -> Self {
        Self(number)
    }

    /// The error in the return value of a C function, which is the negated number.
    ///
    /// `None` for zero and positive values. Values outside of `i32` become
    /// [`EOTHER`](Self::EOTHER).
    #[must_use]
    pub fn from_ret(ret: isize) -> Option<Self> {
        if ret >= 0 {
            return None;
        }
        Some(i32::try_from(ret.unsigned_abs()).map_or(Self::EOTHER, Self))
    }

    /// The positive number.
    #[must_use]
    pub const fn as_raw(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({}): {}", self.0, self.text()),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "Errno({name})"),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

impl Error for Errno {}

pub(crate) const OTHER_PROCESS: &str = "another process opened the object: open objects of its own in a forked child";

/// Writes the sources of an error behind its text, in the alternate form (`{error:#}`).
pub(crate) fn with_cause(f: &mut fmt::Formatter<'_>, error: &dyn Error) -> fmt::Result {
    match error.source() {
        Some(source) if f.alternate() => write!(f, ": {source:#}"),
        _ => Ok(()),
    }
}
