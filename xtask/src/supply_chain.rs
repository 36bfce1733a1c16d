//! `cargo xtask supply-chain`: checks dependencies against `deny.toml`, without a
//! network: `cargo deny`'s checks of licences, bans, sources and yanked versions.
//!
//! Names, versions and sources are in `Cargo.lock`, which is always there. Licences are
//! read from the unpacked crates, and yanked versions from the machine's copy of the
//! registry's index. Missing data is reported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Error;
use crate::run::{cargo, print_step};

/// A crate of `Cargo.lock`. Those of the workspace have no source.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LockedPackage {
    name: String,
    version: String,
    source: Option<String>,
}

/// The rules of `deny.toml`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rules {
    licences: Vec<String>,
    banned: Vec<String>,
}

/// The one source of crates.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks the workspace.
///
/// # Errors
/// [`Error::State`] with everything that must not be, or files that cannot be read.
pub fn check() -> Result<(), Error> {
    let lock = read(Path::new("Cargo.lock"))?;
    let rules = Rules::parse(&read(Path::new("deny.toml"))?);
    let locked = locked(&lock);
    let mut wrong = bans_and_sources(&locked, &rules);
    match licences() {
        Some(all) => wrong.extend(unlicensed(&locked, &all, &rules)),
        None => print_step("licences are not looked at: the crates are not all on this machine"),
    }
    let indexes = indexes();
    let (withdrawn, unknown) = withdrawn(&locked, |name| {
        let place = place(name);
        let mut files = indexes
            .iter()
            .map(|index| std::fs::read(index.join(&place)));
        files.find_map(Result::ok)
    });
    wrong.extend(withdrawn);
    if unknown > 0 {
        print_step(format!(
            "{unknown} crates are not in this machine's index: whether they were withdrawn is not known"
        ));
    }
    if wrong.is_empty() {
        print_step(format!(
            "{} crates: licences, bans, sources and versions are as deny.toml wants them",
            locked.len()
        ));
        return Ok(());
    }
    Err(Error::State(wrong.join("\n")))
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}

/// The crates of a `Cargo.lock`.
fn locked(text: &str) -> Vec<LockedPackage> {
    let packages = text.split("[[package]]").skip(1);
    packages
        .filter_map(|package| {
            let value = |key: &str| {
                package.lines().find_map(|line| {
                    let rest = line.strip_prefix(key)?.trim_start().strip_prefix('=')?;
                    Some(rest.trim().trim_matches('"').to_owned())
                })
            };
            Some(LockedPackage {
                name: value("name")?,
                version: value("version")?,
                source: value("source"),
            })
        })
        .collect()
}

// === impl Rules ===

impl Rules {
    /// Parses the used part of `deny.toml`: lists of texts, and tables with a crate.
    fn parse(text: &str) -> Self {
        let mut rules = Self::default();
        let (mut section, mut key) = (String::new(), String::new());
        for line in text.lines() {
            let line = line.trim();
            if line.starts_with('#') {
                continue;
            }
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
                && !name.contains('"')
            {
                (section, key) = (name.to_owned(), String::new());
                continue;
            }
            let values = match line.split_once(" = ") {
                Some((name, rest)) if !line.starts_with(['{', '"']) => {
                    name.clone_into(&mut key);
                    rest
                }
                _ => line,
            };
            let texts: Vec<&str> = values.split('"').skip(1).step_by(2).collect();
            match (section.as_str(), key.as_str()) {
                ("licenses", "allow") => {
                    rules.licences.extend(texts.iter().map(ToString::to_string));
                }
                ("bans", "deny") => rules.banned.extend(texts.first().map(ToString::to_string)),
                _ => {}
            }
        }
        rules
    }

    /// Whether a licence, as SPDX writes it, is one of those that are allowed.
    fn allows(&self, licence: &str) -> bool {
        let spaced = licence
            .replace('/', " OR ")
            .replace('(', " ( ")
            .replace(')', " ) ");
        let mut words = spaced.split_whitespace().peekable();
        let allowed = self.any(&mut words);
        allowed && words.next().is_none()
    }

    fn any<'a>(&self, words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> bool {
        let mut allowed = self.all(words);
        while words.next_if_eq(&"OR").is_some() {
            allowed |= self.all(words);
        }
        allowed
    }

    fn all<'a>(&self, words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> bool {
        let mut allowed = self.one(words);
        while words.next_if_eq(&"AND").is_some() {
            allowed &= self.one(words);
        }
        allowed
    }

    fn one<'a>(&self, words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> bool {
        if words.next_if_eq(&"(").is_some() {
            let allowed = self.any(words);
            return words.next_if_eq(&")").is_some() && allowed;
        }
        let Some(name) = words.next() else {
            return false;
        };
        let name = match words.next_if_eq(&"WITH") {
            Some(_) => format!("{name} WITH {}", words.next().unwrap_or_default()),
            None => name.to_owned(),
        };
        self.licences.contains(&name)
    }
}

fn bans_and_sources(locked: &[LockedPackage], rules: &Rules) -> Vec<String> {
    let mut wrong = Vec::new();
    for one in locked {
        if rules.banned.contains(&one.name) {
            wrong.push(format!("{} {} is banned", one.name, one.version));
        }
        if let Some(source) = &one.source
            && source != REGISTRY
        {
            wrong.push(format!("{} {} is from {source}", one.name, one.version));
        }
    }
    wrong
}

/// Licences by name and version; `None` where cargo cannot tell.
fn licences() -> Option<BTreeMap<(String, String), Option<String>>> {
    let metadata = cargo()
        .args(["metadata", "--format-version=1", "--offline", "--locked"])
        .stderr(std::process::Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let metadata: Value = serde_json::from_slice(&metadata.stdout).ok()?;
    let packages = metadata["packages"].as_array()?.iter();
    Some(
        packages
            .filter_map(|package| {
                let text = |key: &str| package[key].as_str().map(str::to_owned);
                // A crate that has a file instead is looked at by people.
                let licence = text("license")
                    .or_else(|| text("license_file").map(|file| format!("the file {file}")));
                Some(((text("name")?, text("version")?), licence))
            })
            .collect(),
    )
}

fn unlicensed(
    locked: &[LockedPackage],
    licences: &BTreeMap<(String, String), Option<String>>,
    rules: &Rules,
) -> Vec<String> {
    let foreign = locked.iter().filter(|one| one.source.is_some());
    foreign
        .filter_map(|one| {
            // Crates that none of our platforms needs are not unpacked.
            let licence = licences.get(&(one.name.clone(), one.version.clone()))?;
            let licence = licence.as_deref().unwrap_or("no licence at all");
            let allowed = rules.allows(licence);
            (!allowed).then(|| {
                format!(
                    "{} {} has {licence}, which is not allowed",
                    one.name, one.version
                )
            })
        })
        .collect()
}

/// The machine's copies of registries' indexes.
fn indexes() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let index = home.unwrap_or_default().join("registry/index");
    let entries = std::fs::read_dir(index).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().join(".cache")).collect()
}

/// Returns the path of a crate in an index.
fn place(name: &str) -> PathBuf {
    let lower = name.to_lowercase();
    match lower.len() {
        0..=2 => PathBuf::from(lower.len().to_string()).join(lower),
        3 => PathBuf::from("3").join(&lower[..1]).join(lower),
        _ => PathBuf::from(&lower[..2]).join(&lower[2..4]).join(lower),
    }
}

/// Returns the yanked versions, and the number of crates for which that is unknown.
fn withdrawn(
    locked: &[LockedPackage],
    index: impl Fn(&str) -> Option<Vec<u8>>,
) -> (Vec<String>, usize) {
    let (mut wrong, mut unknown) = (Vec::new(), 0);
    for one in locked.iter().filter(|one| one.source.is_some()) {
        let Some(file) = index(&one.name) else {
            unknown += 1;
            continue;
        };
        // A header, then versions with their data, each terminated by a zero.
        let entry = file
            .split(|byte| *byte == 0)
            .filter(|part| part.first() == Some(&b'{'))
            .filter_map(|part| serde_json::from_slice::<Value>(part).ok())
            .find(|entry| entry["vers"] == one.version.as_str());
        match entry {
            None => unknown += 1,
            Some(entry) if entry["yanked"] == true => {
                wrong.push(format!("{} {} was withdrawn", one.name, one.version));
            }
            Some(_) => {}
        }
    }
    (wrong, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &str = "# a comment with \"text\"\n[licenses]\nallow = [\n    \"MIT\",\n    \"Apache-2.0\",\n    \"Apache-2.0 WITH LLVM-exception\",\n]\n\n[bans]\nwildcards = \"deny\"\ndeny = [\n    # why\n    { crate = \"openssl\", reason = \"another\" },\n]\n\n[sources]\nunknown-git = \"deny\"\n";

    fn rules() -> Rules {
        Rules::parse(DENY)
    }

    #[test]
    fn rules_are_read_as_cargo_deny_reads_them() {
        let rules = rules();
        assert_eq!(
            rules.licences,
            ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]
        );
        assert_eq!(rules.banned, ["openssl"]);
        let own = Rules::parse(include_str!("../../deny.toml"));
        assert!(own.allows("MIT OR Apache-2.0") && own.banned.contains(&"native-tls".to_owned()));
    }

    #[test]
    fn a_licence_is_allowed_if_one_way_to_take_it_is() {
        let rules = rules();
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(rules.allows(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT WITH something",
            "(MIT",
            "MIT MIT",
            "the file COPYING",
        ] {
            assert!(!rules.allows(bad), "{bad}");
        }
    }

    #[test]
    fn what_must_not_be_is_named() {
        let lock = format!(
            "version = 4\n\n[[package]]\nname = \"openssl\"\nversion = \"1.0.0\"\nsource = \"{REGISTRY}\"\nchecksum = \"x\"\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\ndependencies = [\n \"openssl\",\n]\n\n[[package]]\nname = \"else\"\nversion = \"2.0.0\"\nsource = \"git+https://example.org/x\"\n"
        );
        let locked = locked(&lock);
        assert_eq!(locked.len(), 3);
        assert_eq!(
            bans_and_sources(&locked, &rules()),
            [
                "openssl 1.0.0 is banned",
                "else 2.0.0 is from git+https://example.org/x"
            ]
        );
        let licence = |name: &str, version: &str, licence: Option<&str>| {
            (
                (name.to_owned(), version.to_owned()),
                licence.map(str::to_owned),
            )
        };
        let licences = BTreeMap::from([
            licence("openssl", "1.0.0", Some("GPL-3.0")),
            licence("own", "0.1.0", None),
            licence("else", "2.0.0", None),
        ]);
        assert_eq!(
            unlicensed(&locked, &licences, &rules()),
            [
                "openssl 1.0.0 has GPL-3.0, which is not allowed",
                "else 2.0.0 has no licence at all, which is not allowed"
            ]
        );
        let index = |name: &str| {
            (name == "openssl").then(|| {
                b"\x03\x02\0\0\0etag\x000.9.0\0{\"vers\":\"0.9.0\",\"yanked\":false}\x001.0.0\0{\"vers\":\"1.0.0\",\"yanked\":true}\0".to_vec()
            })
        };
        let (wrong, unknown) = withdrawn(&locked, index);
        assert_eq!(
            (wrong, unknown),
            (vec!["openssl 1.0.0 was withdrawn".to_owned()], 1)
        );
    }

    #[test]
    fn an_index_has_crates_by_their_first_letters() {
        for (name, at) in [
            ("a", "1/a"),
            ("ab", "2/ab"),
            ("abc", "3/a/abc"),
            ("Serde_json", "se/rd/serde_json"),
        ] {
            assert_eq!(place(name), Path::new(at));
        }
    }
}
