//! The RPM package.

use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};
use xtask_oci::{Content, File};

use crate::{contents::CONFIGURATION, deb::DESCRIPTION, error::Error, target::Target};

/// Writes the package.
///
/// # Errors
/// The library's error about the files.
pub fn write(files: &[File], target: &Target, version: &str, epoch: u64) -> Result<Vec<u8>, Error> {
    let (summary, description) = DESCRIPTION.split_once('\n').unwrap_or((DESCRIPTION, ""));
    let description: Vec<&str> = description.lines().map(str::trim).collect();
    let date = u32::try_from(epoch).unwrap_or(u32::MAX);
    let config = BuildConfig::v4()
        .source_date(date)
        .compression(CompressionWithLevel::Zstd(19));
    let mut builder = PackageBuilder::new("orlop", version, "Apache-2.0", target.machine, summary);
    builder
        .using_config(config)
        .release("1")
        .url("https://orlop.dev")
        .description(description.join("\n"))
        .build_host("orlop.dev")
        .recommends(Dependency::any("containerd"))
        .post_install_script(include_str!("../files/rpm/post"))
        .pre_uninstall_script(include_str!("../files/rpm/preun"))
        .post_uninstall_script(include_str!("../files/rpm/postun"));
    for file in files {
        add(&mut builder, file).map_err(Error::Rpm)?;
    }
    let package = builder.build().map_err(Error::Rpm)?;
    let mut bytes = Vec::new();
    package.write(&mut bytes).map_err(Error::Rpm)?;
    Ok(bytes)
}

fn add(builder: &mut PackageBuilder, file: &File) -> Result<(), rpm::Error> {
    let path = format!("/{}", file.path);
    let mode = u16::try_from(file.mode).unwrap_or(0o644);
    match &file.content {
        Content::Bytes(bytes) => {
            let mut options = FileOptions::new(&path).permissions(mode);
            if CONFIGURATION.iter().any(|(name, _)| *name == file.path) {
                options = options.config().noreplace();
            } else if path.starts_with("/usr/share/doc/") {
                options = options.doc();
            }
            builder.with_file_contents(bytes.clone(), options)?;
        }
        Content::Link(target) => {
            builder.with_symlink(FileOptions::symlink(&path, target))?;
        }
        Content::Folder => {
            builder.with_dir_entry(FileOptions::dir(&path).permissions(mode))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::contents::tests::sample;

    fn package() -> Vec<u8> {
        let target = Target::parse("x86_64-unknown-linux-musl").unwrap();
        write(&sample(), &target, "1.2.3", 1_700_000_000).unwrap()
    }

    #[test]
    fn the_same_files_make_the_same_package() {
        assert_eq!(package(), package());
    }

    #[test]
    fn rpm_lists_the_files_of_the_package() {
        if Command::new("rpm").arg("--version").output().is_err() {
            println!("skipped: no `rpm` on this machine");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("orlop.rpm");
        std::fs::write(&path, package()).unwrap();
        let rpm = |words: &[&str]| {
            let output = Command::new("rpm").args(words).arg(&path).output().unwrap();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let list = rpm(&["-qlp"]);
        let listed: Vec<&str> = list.lines().collect();
        let wanted: Vec<String> = sample()
            .iter()
            .map(|file| format!("/{}", file.path))
            .collect();
        assert_eq!(listed, wanted);
        assert_eq!(rpm(&["-qcp"]).trim(), "/etc/orlop/up.yaml");
        let name = rpm(&[
            "-qp",
            "--queryformat",
            "%{NAME} %{VERSION} %{ARCH} %{LICENSE}",
        ]);
        assert_eq!(name, "orlop 1.2.3 x86_64 Apache-2.0");
        rpm(&["-K", "--nosignature"]);
        assert!(rpm(&["-qp", "--scripts"]).contains("systemctl daemon-reload"));
    }
}
