//! What crosses crates: e2e, oracle, conformance, crash, netns.
