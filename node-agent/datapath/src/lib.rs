//! The only crate that knows aya: loads, pins, applies actions.
