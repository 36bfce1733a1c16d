//! The programs of another release, which upgrades begin from.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::{
    error::Error,
    run::{output, print_step, run, target, workspace},
};

/// The variable by which tests find the previous release's `orlop`.
pub const VARIABLE: &str = "ORLOP_PREVIOUS";

/// Builds `orlop` of a commit, as that commit's own `cargo xtask build` does, and returns its
/// path. The sources and what is built stay in `target/previous`.
///
/// # Errors
/// When there is no such commit, or it does not build.
pub fn build(commit: &str) -> Result<PathBuf, Error> {
    let folder = target().join("previous");
    let sources = folder.join("sources");
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(workspace()).args(words);
        git
    };
    let revision = format!("{commit}^{{commit}}");
    let revision = output(&mut git(&["rev-parse", "--verify", &revision]))?;
    print_step(format!("orlop of {commit} ({})", revision.trim()));
    if sources.exists() {
        let mut checkout = git(&["checkout", "--quiet", "--detach", revision.trim()]);
        output(checkout.current_dir(&sources))?;
    } else {
        let mut add = git(&["worktree", "add", "--quiet", "--detach"]);
        output(add.arg(&sources).arg(revision.trim()))?;
    }
    let built = folder.join("target");
    run(Command::new("cargo")
        .args(["xtask", "build"])
        .current_dir(&sources)
        .env("CARGO_TARGET_DIR", &built)
        .env_remove("CARGO_MANIFEST_DIR")
        .stdin(Stdio::null()))?;
    Ok(built.join("release/orlop"))
}
