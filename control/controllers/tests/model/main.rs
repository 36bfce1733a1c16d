//! A model checker for the loops of the controllers.
//!
//! The controllers of the registry run as they are, against a server in memory
//! ([`api`]), beside simplified kubelets and a scheduler ([`environment`]), in virtual
//! time on every clock that they read ([`clock`]). proptest draws a history of what
//! users do and what fails ([`history`]): writes that are refused, answered by a
//! conflict, done without an answer, or followed by a crash; watches that are late, cut
//! or expired; outages; restarts. [`cluster`] drives it, and checks what holds for every
//! controller:
//!
//! - **No wake-up is the last one while something is due.** When a cluster is at rest,
//!   controllers that start with fresh caches find nothing to write. Rest is reached
//!   within bounded virtual time, and without spinning.
//! - **Nothing is deleted that a user asked to keep**, which is checked in [`garbage`].
//!
//! What one controller promises beyond that is in the module of its name.
//!
//! A case is a seed and a history; both are printed when it fails, and replaying them
//! gives the same run. `PROPTEST_RNG_SEED` selects other histories, and
//! `PROPTEST_CASES` how many are tried for each property.

mod admission_policies;
mod api;
mod attachments;
mod autoscalers;
mod clock;
mod cluster;
mod daemon_sets;
mod defaults;
mod environment;
mod every_controller;
mod garbage;
mod history;
mod jobs;
mod nodes;
mod objects;
#[path = "../../src/fake_api/patch.rs"]
mod patch;
mod quotas;
mod resource_claims;
mod stateful_sets;
mod storage_migrations;
mod volumes;
mod workloads;

use proptest::test_runner::Config;

/// The settings of a property that tries this many histories, unless the environment
/// says how many.
fn cases(count: u32) -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok();
    Config {
        cases: cases.and_then(|text| text.parse().ok()).unwrap_or(count),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    }
}
