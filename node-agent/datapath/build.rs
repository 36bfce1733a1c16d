//! Finds the BPF object that `cargo xtask build` makes, and compresses it to a fifth.
//!
//! It is no error if there is none: everything that does not embed the object
//! compiles without it. What embeds it says so by `embedded_object!`, which
//! then fails with a sentence.

use std::env;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::ZlibEncoder;

fn main() -> io::Result<()> {
    let fixed = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default())
        .join("../../target/bpf/orlop.bpf.o");
    let object = env::var_os("ORLOP_BPF_OBJECT").map_or(fixed, PathBuf::from);
    println!("cargo::rerun-if-env-changed=ORLOP_BPF_OBJECT");
    println!("cargo::rerun-if-changed={}", object.display());
    println!("cargo::rustc-check-cfg=cfg(orlop_bpf_object)");
    if let Ok(object) = object.canonicalize() {
        let folder = env::var_os("OUT_DIR").unwrap_or_default();
        pack(&object, &Path::new(&folder).join("orlop.bpf.o.z"))?;
        println!("cargo::rustc-cfg=orlop_bpf_object");
    }
    Ok(())
}

fn pack(object: &Path, packed: &Path) -> io::Result<()> {
    let mut encoder = ZlibEncoder::new(File::create(packed)?, Compression::best());
    let bytes = fs::read(object)
        .map_err(|error| io::Error::other(format!("`{}`: {error}", object.display())))?;
    encoder.write_all(&bytes)?;
    encoder.finish().map(drop)
}
