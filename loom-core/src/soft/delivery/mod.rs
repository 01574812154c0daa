//! Messages on their way: from a post to a cell or a lane, and to a receive.

pub(crate) mod lane_requests;

pub(crate) mod send;

pub(crate) mod receive;

pub(crate) mod inbox;

pub(crate) mod lane;
