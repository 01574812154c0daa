pub(crate) mod lane_requests;

pub(crate) mod send;

pub(crate) mod receive;

pub(crate) mod inbox;

pub(crate) mod lane;
