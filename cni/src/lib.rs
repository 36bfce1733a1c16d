//! The orlop-cni plugin binary.
