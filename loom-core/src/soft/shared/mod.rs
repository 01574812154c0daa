pub(crate) mod address;

pub(crate) mod list;

pub(crate) mod cell;

pub(crate) mod copy;

pub(crate) mod ids;

pub(crate) mod gate;

pub(crate) mod waker;

pub(crate) mod sleeper;

pub(crate) mod peer_counts;

pub(crate) mod queue;
