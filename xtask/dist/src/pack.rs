//! All artefacts of a release.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use clap::Args;
use xtask_oci::{Content, File};

use crate::{
    bundle, contents, crates, deb,
    error::{Error, at},
    image, licences, rpms, sbom, signature, sizes, tarball,
    target::Target,
};

/// What to pack.
#[derive(Args)]
pub struct Options {
    /// Targets, each with the folder of its programs. May be repeated.
    #[arg(long = "programs", required = true, value_name = "TRIPLE=FOLDER", value_parser = programs)]
    programs: Vec<(String, PathBuf)>,
    /// Folder of the artefacts.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Secret key that signs the sums, as `keygen` makes it.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Fail if `orlop` has more bytes than this.
    #[arg(long, value_name = "BYTES")]
    limit: Option<u64>,
}

/// The Debian package alone. Tests of upgrades pack the same programs under two versions.
#[derive(Args)]
pub struct DebOptions {
    /// A target and the folder of its programs.
    #[arg(long, value_name = "TRIPLE=FOLDER", value_parser = programs)]
    programs: (String, PathBuf),
    /// Version of the package. May be repeated: each has a package.
    #[arg(long = "package-version", default_value = VERSION, value_name = "VERSION")]
    versions: Vec<String>,
    /// Folder of the packages.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

/// Error for programs without their target.
#[derive(Debug, thiserror::Error)]
#[error("write TRIPLE=FOLDER")]
struct NoTarget;

fn programs(text: &str) -> Result<(String, PathBuf), NoTarget> {
    let (triple, folder) = text.split_once('=').ok_or(NoTarget)?;
    Ok((triple.to_owned(), folder.into()))
}

/// The release.
const VERSION: &str = env!("CARGO_PKG_VERSION");

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes the artefacts.
///
/// # Errors
/// Programs that are missing or too large, files that cannot be written.
pub fn pack(options: &Options) -> Result<(), Error> {
    let epoch = epoch()?;
    let created = jiff::Timestamp::from_second(i64::try_from(epoch).unwrap_or_default())
        .unwrap_or_default()
        .to_string();
    let mut artefacts: Vec<(String, Vec<u8>)> = Vec::new();
    let mut targets = Vec::new();
    let mut bundles = Vec::new();
    for (triple, folder) in &options.programs {
        let target = Target::parse(triple)?;
        let machine = target.machine;
        let crates = crates::linked(&workspace(), &target)?;
        let licences = licences::write(&crates);
        let files = contents::gather(folder, &target, &licences)?;
        let programs = programs_of(&files);
        let table = sizes::table(&programs).map_err(|source| Error::NoElf {
            path: folder.clone(),
            source,
        })?;
        print!("{table}");
        let root = format!("orlop-{VERSION}-linux-{machine}");
        let here = at(&options.out);
        let packages = [
            (
                deb::name(&target, VERSION),
                deb::write(&files, &target, VERSION, epoch).map_err(here)?,
            ),
            (
                format!("orlop-{VERSION}-1.{machine}.rpm"),
                rpms::write(&files, &target, VERSION, epoch)?,
            ),
        ];
        artefacts.push((
            format!("{root}.tar.gz"),
            tarball::write(&files, &root, epoch).map_err(at(&options.out))?,
        ));
        artefacts.extend(packages.clone());
        artefacts.push((
            format!("orlop-{VERSION}-{machine}.cdx.json"),
            sbom::write(&crates, VERSION, triple, &created).into_bytes(),
        ));
        artefacts.push((format!("SIZES-{machine}.txt"), table.into_bytes()));
        artefacts.push((
            format!("THIRD-PARTY-LICENCES-{machine}.txt"),
            licences.into_bytes(),
        ));
        bundles.push((
            packages,
            image::pause(folder, &target)?,
            target.clone(),
            files.clone(),
        ));
        targets.push((target, files));
    }
    for (packages, pause, target, files) in bundles {
        let orlop = image::orlop(&[(target.clone(), files)], VERSION);
        let images: Vec<_> = std::iter::once(orlop).chain(pause).collect();
        let root = format!("orlop-{VERSION}-airgap-{}", target.machine);
        let archive = archive(&images, &created, &options.out)?;
        let deploy = workspace().join("node-agent/agent/deploy");
        let bundle = bundle::write(&root, &packages, archive, &deploy, epoch)?;
        artefacts.push((format!("{root}.tar"), bundle));
    }
    let image = archive(&[image::orlop(&targets, VERSION)], &created, &options.out)?;
    artefacts.push((format!("orlop-{VERSION}-image.tar"), image));
    write(options, artefacts)?;
    for (_, files) in &targets {
        within(files, options.limit)?;
    }
    Ok(())
}

/// Writes the Debian packages.
///
/// # Errors
/// Programs that are missing, files that cannot be written.
pub fn pack_deb(options: &DebOptions) -> Result<(), Error> {
    let (triple, folder) = &options.programs;
    let epoch = epoch()?;
    let target = Target::parse(triple)?;
    let licences = licences::write(&crates::linked(&workspace(), &target)?);
    let files = contents::gather(folder, &target, &licences)?;
    fs::create_dir_all(&options.out).map_err(at(&options.out))?;
    for version in &options.versions {
        let path = options.out.join(deb::name(&target, version));
        let bytes = deb::write(&files, &target, version, epoch).map_err(at(&path))?;
        fs::write(&path, bytes).map_err(at(&path))?;
    }
    Ok(())
}

fn archive(images: &[xtask_oci::Image], created: &str, out: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    xtask_oci::write(&mut bytes, images, Some(created)).map_err(at(out))?;
    Ok(bytes)
}

/// Writes artefacts, their sums and the signature, and lists them.
fn write(options: &Options, mut artefacts: Vec<(String, Vec<u8>)>) -> Result<(), Error> {
    artefacts.sort_by(|a, b| a.0.cmp(&b.0));
    let all = artefacts
        .iter()
        .map(|(name, bytes)| (name.as_str(), &bytes[..]));
    let sums = signature::sums(all);
    if let Some(key) = &options.key {
        let signature = signature::sign(&sums, key, VERSION)?;
        artefacts.push((
            format!("{}.minisig", signature::SUMS),
            signature.into_bytes(),
        ));
    }
    artefacts.push((signature::SUMS.to_owned(), sums.into_bytes()));
    fs::create_dir_all(&options.out).map_err(at(&options.out))?;
    for (name, bytes) in artefacts {
        let path = options.out.join(&name);
        fs::write(&path, &bytes).map_err(at(&path))?;
        println!("{:>12}  {}", bytes.len(), path.display());
    }
    Ok(())
}

fn programs_of(files: &[File]) -> Vec<(String, Vec<u8>)> {
    let program = |file: &File| {
        let name = file.path.strip_prefix("usr/bin/")?;
        match &file.content {
            Content::Bytes(bytes) => Some((name.to_owned(), bytes.clone())),
            Content::Link(_) | Content::Folder => None,
        }
    };
    files.iter().filter_map(program).collect()
}

fn within(files: &[File], limit: Option<u64>) -> Result<(), Error> {
    let programs = programs_of(files);
    let orlop = programs.iter().find(|(name, _)| name == "orlop");
    let bytes = orlop.map_or(0, |(_, bytes)| bytes.len() as u64);
    match limit {
        Some(limit) if bytes > limit => Err(Error::TooLarge { bytes, limit }),
        _ => Ok(()),
    }
}

/// The date of all files: `SOURCE_DATE_EPOCH`, else that of the last commit, else none.
fn epoch() -> Result<u64, Error> {
    if let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") {
        return text.parse().map_err(|_| Error::Epoch(text));
    }
    let output = Command::new("git")
        .args(["log", "-1", "--format=%ct"])
        .current_dir(workspace())
        .output();
    let text = output.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned());
    Ok(text.ok().and_then(|text| text.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::tests::sample;

    #[test]
    fn a_program_above_the_limit_is_refused() {
        let files = sample();
        assert!(within(&files, None).is_ok());
        assert!(within(&files, Some(60_000_000)).is_ok());
        let refused = within(&files, Some(3)).unwrap_err();
        assert!(
            matches!(refused, Error::TooLarge { limit: 3, .. }),
            "{refused}"
        );
    }

    #[test]
    fn targets_have_folders() {
        assert_eq!(
            programs("x86_64-unknown-linux-musl=a/b").unwrap(),
            ("x86_64-unknown-linux-musl".to_owned(), PathBuf::from("a/b"))
        );
        assert!(programs("a/b").is_err());
    }
}
