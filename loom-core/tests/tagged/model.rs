//! Random stories beside a naive model.
