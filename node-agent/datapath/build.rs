//! Finds the BPF object that `cargo xtask build` makes.
//!
//! It is no error if there is none: everything that does not embed the object
//! compiles without it. What embeds it says so by `embedded_object!`, which
//! then fails with a sentence.

use std::env;
use std::path::PathBuf;

fn main() {
    let fixed = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default())
        .join("../../target/bpf/orlop.bpf.o");
    let object = env::var_os("ORLOP_BPF_OBJECT").map_or(fixed, PathBuf::from);
    println!("cargo::rerun-if-env-changed=ORLOP_BPF_OBJECT");
    println!("cargo::rerun-if-changed={}", object.display());
    println!("cargo::rustc-check-cfg=cfg(orlop_bpf_object)");
    if let Ok(object) = object.canonicalize() {
        println!("cargo::rustc-cfg=orlop_bpf_object");
        println!(
            "cargo::rustc-env=ORLOP_BPF_OBJECT_FOUND={}",
            object.display()
        );
    }
}
