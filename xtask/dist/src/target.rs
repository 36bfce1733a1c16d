//! The targets of packages.

use object::{Architecture, Object};

use crate::error::Error;

/// A target with its names elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As rustc names it.
    pub triple: String,
    /// As Debian and Go name the architecture.
    pub debian: &'static str,
    /// As RPM and the kernel name it.
    pub machine: &'static str,
}

impl Target {
    /// Returns a target by its triple.
    ///
    /// # Errors
    /// A target without packages.
    pub fn parse(triple: &str) -> Result<Self, Error> {
        let known = [("x86_64", "amd64"), ("aarch64", "arm64")];
        let found = known.into_iter().find(|(machine, _)| {
            ["musl", "gnu"]
                .iter()
                .any(|libc| triple == format!("{machine}-unknown-linux-{libc}"))
        });
        let (machine, debian) = found.ok_or_else(|| Error::Target(triple.to_owned()))?;
        Ok(Self {
            triple: triple.to_owned(),
            debian,
            machine,
        })
    }

    /// Returns whether an ELF file is for it.
    pub fn is_of(&self, file: &object::File<'_>) -> bool {
        match file.architecture() {
            Architecture::X86_64 => self.machine == "x86_64",
            Architecture::Aarch64 => self.machine == "aarch64",
            _ => false,
        }
    }

    /// Returns the emulator for its programs on this machine, if one is needed.
    pub fn runner(&self) -> Option<String> {
        (self.machine != std::env::consts::ARCH).then(|| format!("qemu-{}-static", self.machine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_the_names_of_each_kind_of_package() {
        let target = Target::parse("aarch64-unknown-linux-musl").unwrap();
        assert_eq!((target.debian, target.machine), ("arm64", "aarch64"));
        assert!(Target::parse("x86_64-unknown-linux-gnu").is_ok());
        assert!(Target::parse("riscv64gc-unknown-linux-gnu").is_err());
    }
}
