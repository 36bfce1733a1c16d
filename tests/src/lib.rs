//! What tests that cross crates share: starting and asking clusters.
