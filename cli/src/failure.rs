use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

/// As in shells: 128 and the signal's number.
pub(crate) const INTERRUPTED: u8 = 130;

#[derive(Debug)]
pub(crate) enum Failure {
    Usage(String),
    Interrupted,
    OutputClosed,
    /// The output already contains the cause.
    Said,
    Doing {
        what: &'static str,
        error: Box<dyn Error + Send>,
    },
    Operation {
        doing: String,
        text: String,
    },
    Timeout {
        doing: String,
        waited: Duration,
    },
    Mismatch {
        doing: String,
        round: u64,
        offset: usize,
        got: u8,
        expected: u8,
    },
    Protocol(String),
    OtherSide(String),
    Unavailable(String),
}

impl Failure {
    pub(crate) fn doing(what: &'static str, error: impl Error + Send + 'static) -> Self {
        Failure::Doing { what, error: Box::new(error) }
    }

    pub(crate) fn when<E: Error + Send + 'static>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Failure::doing(what, error)
    }

    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Failure::OutputClosed | Failure::Said => None,
            Failure::Usage(_) => Some(format!("{self}; see `loom --help`")),
            _ => Some(self.to_string()),
        }
    }

    pub(crate) fn status(&self) -> u8 {
        match self {
            Failure::OutputClosed => 0,
            Failure::Usage(_) => 2,
            Failure::Interrupted => INTERRUPTED,
            _ => 1,
        }
    }

    /// Failure of the side that failed first: the cause.
    pub(crate) fn of_both(one: Result<(), Failure>, other: Result<(), Failure>) -> Result<(), Failure> {
        match (one, other) {
            (Err(Failure::OtherSide(_)), Err(reason)) => Err(reason),
            (one, other) => one.and(other),
        }
    }
}

impl From<io::Error> for Failure {
    /// Error of the standard output. Other I/O names the failed action.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::doing("writing to the standard output", error),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Protocol(text) | Failure::Unavailable(text) => f.write_str(text),
            Failure::Interrupted => f.write_str("interrupted"),
            Failure::OutputClosed => f.write_str("the output was closed"),
            Failure::Said => f.write_str("failed"),
            Failure::Doing { what, error } => {
                write!(f, "{what}: {error}")?;
                let mut source = error.source();
                while let Some(error) = source {
                    write!(f, ": {error}")?;
                    source = error.source();
                }
                Ok(())
            }
            Failure::Operation { doing, text } => write!(f, "{doing}: {text}"),
            Failure::Timeout { doing, waited } => {
                write!(f, "{doing}: nothing happened for {} s; is the other side alive?", waited.as_secs_f64())
            }
            Failure::Mismatch { doing, round, offset, got, expected } => {
                write!(f, "{doing}, round {round}: byte {offset} is {got:#04x}, expected {expected:#04x}")
            }
            Failure::OtherSide(text) => write!(f, "the other side {text}"),
        }
    }
}
