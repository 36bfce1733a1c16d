//! Debian's packages of an architecture: apt without a change to this machine's packages.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    error::{Error, at},
    run::{output, target},
    vm::arch::Architecture,
};

/// apt for an architecture. For a foreign one, its lists and its cache are in a folder of their
/// own, and no package is installed: this machine's dpkg does not learn of the architecture.
pub struct Apt {
    architecture: Architecture,
    folder: PathBuf,
}

impl Apt {
    /// Prepares the folder of a foreign architecture.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn new(architecture: Architecture) -> Result<Self, Error> {
        let folder = target()
            .join("vm")
            .join(format!("apt-{}", architecture.debian()));
        let apt = Self {
            architecture,
            folder,
        };
        if architecture.is_foreign() {
            for part in ["lists/partial", "cache/archives/partial"] {
                let part = apt.folder.join(part);
                fs::create_dir_all(&part).map_err(at(&part))?;
            }
            let status = apt.folder.join("status");
            fs::write(&status, "").map_err(at(&status))?;
            let file = apt.configuration();
            fs::write(&file, configuration(architecture.debian(), &apt.folder))
                .map_err(at(&file))?;
        }
        Ok(apt)
    }

    fn configuration(&self) -> PathBuf {
        self.folder.join("apt.conf")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        if self.architecture.is_foreign() {
            command.env("APT_CONFIG", self.configuration());
        }
        command
    }

    /// Downloads the lists of packages.
    ///
    /// # Errors
    /// What apt says.
    pub fn update(&self) -> Result<(), Error> {
        output(self.command("apt-get").args(["update", "-qq"])).map(drop)
    }

    /// Returns `NAME - DESCRIPTION` of each package whose name matches a regular expression.
    ///
    /// # Errors
    /// What apt says.
    pub fn search(&self, pattern: &str) -> Result<String, Error> {
        output(
            self.command("apt-cache")
                .args(["search", "--names-only", pattern]),
        )
    }

    /// Downloads a package into a folder.
    ///
    /// # Errors
    /// What apt says.
    pub fn download(&self, package: &str, folder: &Path) -> Result<(), Error> {
        output(
            self.command("apt-get")
                .args(["download", "-qq", package])
                .current_dir(folder),
        )
        .map(drop)
    }

    /// Unpacks packages of a foreign architecture, with all that they depend on, into the folder
    /// `name`, and returns its path. It is laid out as `/`.
    ///
    /// # Errors
    /// When a package cannot be downloaded or unpacked.
    pub fn unpack_with_dependencies(
        &self,
        name: &str,
        packages: &[&str],
    ) -> Result<PathBuf, Error> {
        let root = self.folder.join(name);
        let complete = self.folder.join(format!("{name}.complete"));
        let wanted = packages.join(" ");
        if fs::read_to_string(&complete).is_ok_and(|found| found == wanted) {
            return Ok(root);
        }
        self.update()?;
        let archives = self.folder.join(format!("{name}.archives"));
        for folder in [&root, &archives.join("partial")] {
            fs::create_dir_all(folder).map_err(at(folder))?;
        }
        output(
            self.command("apt-get")
                .args(["install", "-y", "-qq", "--download-only"])
                .arg("--no-install-recommends")
                .arg("--option")
                .arg(format!("Dir::Cache::archives={}", archives.display()))
                .args(packages),
        )?;
        for archive in fs::read_dir(&archives).map_err(at(&archives))?.flatten() {
            if archive.path().extension().is_some_and(|end| end == "deb") {
                output(
                    Command::new("dpkg-deb")
                        .arg("--extract")
                        .args([&archive.path(), &root]),
                )?;
            }
        }
        fs::write(&complete, wanted).map_err(at(&complete))?;
        Ok(root)
    }
}

/// The configuration that lets apt work on lists, a cache and an empty set of installed packages
/// in `folder` (apt.conf(5)), with the machine's sources.
fn configuration(architecture: &str, folder: &Path) -> String {
    let folder = folder.display();
    // By default apt downloads as the user `_apt`, who may not write to root's folders.
    format!(
        "APT::Architecture \"{architecture}\";\n\
         APT::Architectures {{ \"{architecture}\"; }};\n\
         APT::Sandbox::User \"root\";\n\
         Dir::State \"{folder}\";\n\
         Dir::State::lists \"{folder}/lists\";\n\
         Dir::State::status \"{folder}/status\";\n\
         Dir::Cache \"{folder}/cache\";\n"
    )
}
