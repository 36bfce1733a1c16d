//! The files that a package puts on a machine, the same for all kinds of packages.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use object::Object;
use xtask_oci::{Content, File, gzip};

use crate::{
    error::{Error, at},
    target::Target,
};

/// The programs, in `/usr/bin`.
pub const PROGRAMS: [&str; 3] = ["orlop", "orlop-cni", "orlop-csi"];

/// Files that an administrator changes.
pub const CONFIGURATION: [(&str, &str); 3] = [
    (
        "etc/orlop/agent.yaml",
        include_str!("../files/etc/agent.yaml"),
    ),
    (
        "etc/orlop/server.yaml",
        include_str!("../files/etc/server.yaml"),
    ),
    ("etc/orlop/up.yaml", include_str!("../files/etc/up.yaml")),
];

const UNITS: [(&str, &str); 3] = [
    (
        "orlop-agent.service",
        include_str!("../files/systemd/orlop-agent.service"),
    ),
    (
        "orlop-server.service",
        include_str!("../files/systemd/orlop-server.service"),
    ),
    (
        "orlop.service",
        include_str!("../files/systemd/orlop.service"),
    ),
];

/// Reads a program and checks that it is one for the target.
///
/// # Errors
/// A file that is missing, or for another machine.
pub fn program(folder: &Path, name: &str, target: &Target) -> Result<Vec<u8>, Error> {
    let path = folder.join(name);
    if !path.is_file() {
        return Err(Error::NoProgram(path));
    }
    let bytes = std::fs::read(&path).map_err(at(&path))?;
    let file = object::File::parse(&bytes[..]).map_err(|source| Error::NoElf {
        path: path.clone(),
        source,
    })?;
    if !target.is_of(&file) {
        return Err(Error::OtherMachine {
            path,
            found: format!("{:?}", file.architecture()),
            wanted: target.triple.clone(),
        });
    }
    Ok(bytes)
}

/// Everything that a package installs, sorted by path, without folders. Each program runs once for
/// it, those for another machine under an emulator.
///
/// # Errors
/// A program that is missing, is for another machine, or does not run.
pub fn gather(folder: &Path, target: &Target, licences: &str) -> Result<Vec<File>, Error> {
    let mut files = Vec::new();
    for name in PROGRAMS {
        files.push(File {
            path: format!("usr/bin/{name}"),
            mode: 0o755,
            content: Content::Bytes(program(folder, name, target)?),
        });
    }
    files.push(File {
        path: "usr/bin/kubectl-orlop".to_owned(),
        mode: 0o777,
        content: Content::Link("orlop".to_owned()),
    });
    let [orlop, cni, csi] = PROGRAMS.map(|name| Program {
        path: folder.join(name),
        runner: target.runner(),
    });
    cni.version_of_plugin()?;
    csi.output(&["--version"])?;
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/orlop"),
        ("fish", "usr/share/fish/vendor_completions.d/orlop.fish"),
        ("zsh", "usr/share/zsh/vendor-completions/_orlop"),
    ] {
        files.push(text(path, orlop.output(&["completion", shell])?));
    }
    files.extend(orlop.manual()?);
    for (name, content) in UNITS {
        files.push(text(format!("usr/lib/systemd/system/{name}"), content));
    }
    for (path, content) in CONFIGURATION {
        files.push(text(path, content));
    }
    for (name, content) in [
        ("LICENSE", include_str!("../../../LICENSE")),
        ("NOTICE", include_str!("../../../NOTICE")),
        ("copyright", include_str!("../files/deb/copyright")),
        ("THIRD-PARTY-LICENCES.txt", licences),
    ] {
        files.push(text(format!("usr/share/doc/orlop/{name}"), content));
    }
    let changes = include_bytes!("../../../CHANGELOG.md");
    files.push(File {
        path: "usr/share/doc/orlop/CHANGELOG.md.gz".to_owned(),
        mode: 0o644,
        content: Content::Bytes(gzip(changes).map_err(at(Path::new("CHANGELOG.md")))?),
    });
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The folders of these files that a package creates, each after its parent.
pub fn folders(files: &[File]) -> Vec<File> {
    let mut paths = std::collections::BTreeSet::new();
    for file in files {
        let parents = Path::new(&file.path).ancestors().skip(1);
        paths.extend(parents.map(|path| path.display().to_string()));
    }
    paths.remove("");
    let folder = |path| File {
        path,
        mode: 0o755,
        content: Content::Folder,
    };
    paths.into_iter().map(folder).collect()
}

/// A file with text.
pub fn text(path: impl Into<String>, content: impl Into<String>) -> File {
    File {
        path: path.into(),
        mode: 0o644,
        content: Content::Bytes(content.into().into_bytes()),
    }
}

/// A program, run to print facts about itself.
struct Program {
    path: PathBuf,
    runner: Option<String>,
}

impl Program {
    fn command(&self) -> Command {
        let Some(runner) = &self.runner else {
            return Command::new(&self.path);
        };
        let mut command = Command::new(runner);
        command.arg(&self.path);
        command
    }

    fn output(&self, words: &[&str]) -> Result<String, Error> {
        let output = self.command().args(words).output();
        self.succeeded(&output.map_err(at(&self.path))?, &words.join(" "))
    }

    /// Asks a network plugin for its version: the operation `VERSION` of the CNI specification 1.1.
    fn version_of_plugin(&self) -> Result<String, Error> {
        let mut command = self.command();
        command.env("CNI_COMMAND", "VERSION");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .map_err(at(&self.path))?;
        // Writing fails if the plugin exits before it reads its input; its exit status and output
        // tell the cause.
        if let Some(mut input) = child.stdin.take() {
            let _ = input.write_all(br#"{"cniVersion": "1.1.0"}"#);
        }
        let output = child.wait_with_output().map_err(at(&self.path))?;
        self.succeeded(&output, "with CNI_COMMAND=VERSION")
    }

    fn succeeded(&self, output: &Output, words: &str) -> Result<String, Error> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        // A network plugin tells errors on standard output.
        let told = text(&output.stderr) + &text(&output.stdout);
        Err(Error::Run {
            command: format!("{} {words}", self.path.display()),
            output: told.trim().to_owned(),
        })
    }

    /// The manual pages, compressed.
    fn manual(&self) -> Result<Vec<File>, Error> {
        let folder = std::env::temp_dir().join(format!("orlop-man-{}", std::process::id()));
        let name = folder.display().to_string();
        let written = self.output(&["man", "--dir", &name]);
        let pages = written.and_then(|_| pages(&folder));
        let _ = std::fs::remove_dir_all(&folder);
        pages
    }
}

fn pages(folder: &Path) -> Result<Vec<File>, Error> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        let name = path.file_name().unwrap_or_default().display().to_string();
        let bytes = std::fs::read(&path).map_err(at(&path))?;
        files.push(File {
            path: format!("usr/share/man/man1/{name}.gz"),
            mode: 0o644,
            content: Content::Bytes(gzip(&bytes).map_err(at(&path))?),
        });
    }
    Ok(files)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Contents without programs, for tests of writers.
    pub fn sample() -> Vec<File> {
        let mut files = vec![
            text("etc/orlop/up.yaml", "kind: UpConfiguration\n"),
            File {
                path: "usr/bin/kubectl-orlop".to_owned(),
                mode: 0o777,
                content: Content::Link("orlop".to_owned()),
            },
            File {
                path: "usr/bin/orlop".to_owned(),
                mode: 0o755,
                content: Content::Bytes(b"#!/bin/sh\nexit 0\n".to_vec()),
            },
        ];
        for (name, content) in UNITS {
            files.push(text(format!("usr/lib/systemd/system/{name}"), content));
        }
        files
    }

    #[test]
    fn folders_come_after_their_parents() {
        let paths: Vec<String> = folders(&sample()).into_iter().map(|it| it.path).collect();
        assert_eq!(
            paths,
            [
                "etc",
                "etc/orlop",
                "usr",
                "usr/bin",
                "usr/lib",
                "usr/lib/systemd",
                "usr/lib/systemd/system"
            ]
        );
    }

    #[test]
    fn a_program_for_another_machine_is_refused() {
        let this = std::env::current_exe().unwrap();
        let folder = this.parent().unwrap();
        let name = this.file_name().unwrap().to_str().unwrap();
        let own = Target::parse(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH));
        assert!(program(folder, name, &own.unwrap()).is_ok());
        let other = if cfg!(target_arch = "x86_64") {
            "aarch64"
        } else {
            "x86_64"
        };
        let other = Target::parse(&format!("{other}-unknown-linux-musl")).unwrap();
        let refused = program(folder, name, &other).unwrap_err();
        assert!(matches!(refused, Error::OtherMachine { .. }), "{refused}");
        let missing = program(folder, "no-such-program", &other).unwrap_err();
        assert!(matches!(missing, Error::NoProgram(_)), "{missing}");
    }

    #[test]
    fn a_program_that_does_not_run_is_refused() {
        let sh = |runner: Option<&str>| Program {
            path: "/bin/sh".into(),
            runner: runner.map(str::to_owned),
        };
        assert_eq!(sh(None).output(&["-c", "echo 1"]).unwrap(), "1\n");
        assert_eq!(sh(Some("echo")).output(&["-c"]).unwrap(), "/bin/sh -c\n");
        let refused = sh(None).output(&["-c", "exit 1"]).unwrap_err();
        assert!(matches!(refused, Error::Run { .. }), "{refused}");
        let missing = sh(Some("no-such-emulator")).output(&[]).unwrap_err();
        assert!(matches!(missing, Error::File { .. }), "{missing}");
    }

    #[test]
    fn a_network_plugin_is_asked_for_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugin");
        let plugin = |text: &str| std::fs::write(&path, text).unwrap();
        let sh = Program {
            path: path.clone(),
            runner: Some("sh".to_owned()),
        };
        plugin("echo $CNI_COMMAND; cat");
        let told = sh.version_of_plugin().unwrap();
        assert_eq!(told, "VERSION\n{\"cniVersion\": \"1.1.0\"}");
        plugin("echo no network; exit 1");
        let refused = sh.version_of_plugin().unwrap_err().to_string();
        assert!(refused.contains("no network"), "{refused}");
    }

    #[test]
    fn units_run_what_is_installed_and_the_agents_mount_nothing_private() {
        for (name, unit) in UNITS {
            assert!(unit.contains("\nType=notify\n"), "{name}");
            assert!(unit.contains("\nExecStart=/usr/bin/orlop "), "{name}");
            if name == "orlop-server.service" {
                continue;
            }
            // A mount namespace of its own would hide pods' volumes from their containers.
            for option in [
                "ProtectSystem=",
                "ProtectHome=",
                "PrivateTmp=",
                "PrivateMounts=",
            ] {
                assert!(!unit.contains(&format!("\n{option}")), "{name}: {option}");
            }
        }
    }
}
