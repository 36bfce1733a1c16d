//! `cargo xtask generate`: the API's tables, from the published Kubernetes modules.
//!
//! Kubernetes publishes its API as data: discovery documents (groups, verbs,
//! short names), OpenAPI (required fields, lists, defaults) and struct tags
//! (order, pointers, protobuf numbers, merge keys). These are read from the Go
//! module cache and written as plain tables to `control/types/src/generated`:
//! names, numbers and flags as Rust, and what is said in words (descriptions of
//! types, fields and parameters) as one deflated file with its attribution, since
//! `kubectl explain` shows it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::error::Error;

mod emit;
mod golang;
mod internal;
mod resources;
mod schema;
mod texts;

/// The release whose API is served.
const KUBERNETES: &str = "v1.36.3";
/// The same release as the staged modules count it.
const STAGED: &str = "v0.36.3";

/// Modules that are read, with their versions.
const MODULES: [(&str, &str); 6] = [
    ("k8s.io/kubernetes", KUBERNETES),
    ("k8s.io/api", STAGED),
    ("k8s.io/apimachinery", STAGED),
    ("k8s.io/apiextensions-apiserver", STAGED),
    ("k8s.io/kube-aggregator", STAGED),
    ("k8s.io/metrics", STAGED),
];

/// Writes the tables; with `check` only compares them with what is committed.
///
/// # Errors
/// When Go or a module is missing, when the published data contradict each other,
/// or, with `check`, when a table differs.
pub fn run(check: bool) -> Result<(), Error> {
    let modules = Modules::find()?;
    let files = tables(&modules)?;
    let folder = folder();
    let mut different = Vec::new();
    for (name, bytes) in &files {
        let path = folder.join(name);
        let same = fs::read(&path).is_ok_and(|old| old == *bytes);
        if same {
            println!("same     {}", path.display());
        } else if check {
            different.push(path.display().to_string());
        } else {
            fs::create_dir_all(&folder)
                .and_then(|()| fs::write(&path, bytes))
                .map_err(|error| failed(format!("cannot write `{}`: {error}", path.display())))?;
            println!("written  {} ({} bytes)", path.display(), bytes.len());
        }
    }
    if different.is_empty() {
        Ok(())
    } else {
        Err(failed(format!(
            "tables differ from what Kubernetes {KUBERNETES} gives: {}; run `cargo xtask generate`",
            different.join(", ")
        )))
    }
}

/// Returns the folder of the tables.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../control/types/src/generated")
        .components()
        .fold(PathBuf::new(), |path, part| match part {
            std::path::Component::ParentDir => {
                path.parent().map(Path::to_owned).unwrap_or_default()
            }
            part => path.join(part),
        })
}

fn failed(message: impl Into<String>) -> Error {
    Error::Failed(message.into())
}

/// All tables: file name and content. The same input gives the same bytes.
fn tables(modules: &Modules) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    let api = PublishedApi::read(modules)?;
    let mut go = golang::Packages::new(modules);
    let resources = resources::collect(&api)?;
    let schema = schema::collect(&api, &mut go, &resources)?;
    let mut files: Vec<(&'static str, Vec<u8>)> = emit::files(&resources, &schema)
        .into_iter()
        .map(|(name, text)| (name, text.into_bytes()))
        .collect();
    let internal = internal::file(emit::HEADER, &mut go)?;
    files.push(("internal.rs", internal.into_bytes()));
    files.push(("texts.z", texts::file(&api, modules, schema.keys())?));
    Ok(files)
}

/// The folders of the modules.
pub struct Modules {
    cache: PathBuf,
}

impl Modules {
    /// Finds the modules in Go's cache, downloads those that are absent.
    fn find() -> Result<Self, Error> {
        let modules = Self {
            cache: Self::cache()?,
        };
        for (module, version) in MODULES {
            if modules.folder(module).is_some_and(|folder| folder.is_dir()) {
                continue;
            }
            println!("download {module}@{version}");
            let done = Command::new("go")
                .args(["mod", "download", &format!("{module}@{version}")])
                .current_dir(std::env::temp_dir())
                .status();
            if !done.is_ok_and(|status| status.success()) {
                return Err(Error::Missing {
                    what: format!("the Go module `{module}@{version}`"),
                    how: format!("`go mod download {module}@{version}`"),
                });
            }
        }
        Ok(modules)
    }

    fn cache() -> Result<PathBuf, Error> {
        let output = Command::new("go").args(["env", "GOMODCACHE"]).output();
        match output {
            Ok(output) if output.status.success() => Ok(PathBuf::from(
                String::from_utf8_lossy(&output.stdout).trim(),
            )),
            _ => Err(Error::Missing {
                what: "`go`".into(),
                how: "install Go 1.26 or newer: the published API is read from its modules".into(),
            }),
        }
    }

    fn folder(&self, module: &str) -> Option<PathBuf> {
        let version = MODULES.iter().find(|(name, _)| *name == module)?.1;
        Some(self.cache.join(format!("{module}@{version}")))
    }

    /// The folder of a package: of the module whose path is the longest prefix.
    fn package(&self, path: &str) -> Option<PathBuf> {
        MODULES.iter().find_map(|(module, _)| {
            let rest = path.strip_prefix(module)?.strip_prefix('/')?;
            Some(self.folder(module)?.join(rest))
        })
    }
}

/// Discovery and OpenAPI documents of the stable versions.
pub struct PublishedApi {
    /// Discovery documents by file name without `.json`: `api__v1`, `apis`, ….
    discovery: BTreeMap<String, Value>,
    /// OpenAPI schemas by name.
    schemas: BTreeMap<String, Value>,
    /// The OpenAPI document of `api/v1`.
    core: Value,
    /// Paths of objects whose deletion answers the object, not a status.
    returning: BTreeSet<String>,
    /// Kinds that a type is decoded for, in all groups, by the type's name.
    kinds: BTreeMap<String, Value>,
}

impl PublishedApi {
    fn read(modules: &Modules) -> Result<Self, Error> {
        let root = modules.folder("k8s.io/kubernetes").unwrap_or_default();
        let discovery = read_folder(&root.join("api/discovery"))?;
        let mut schemas = BTreeMap::new();
        let mut core = Value::Null;
        let mut returning = BTreeSet::new();
        for (name, document) in read_folder(&root.join("api/openapi-spec/v3"))? {
            if name.contains("alpha") || name.contains("beta") {
                continue;
            }
            for (path, item) in document["paths"].as_object().into_iter().flatten() {
                let answer = &item["delete"]["responses"]["200"]["content"]["application/json"];
                let answer = answer["schema"]["$ref"].as_str().unwrap_or("Status");
                if path.ends_with("{name}") && !answer.ends_with("Status") {
                    returning.insert(path.clone());
                }
            }
            let Some(found) = document
                .pointer("/components/schemas")
                .and_then(Value::as_object)
            else {
                continue;
            };
            schemas.extend(
                found
                    .iter()
                    .map(|(name, schema)| (name.clone(), schema.clone())),
            );
            if name == "api__v1_openapi" {
                core = document;
            }
        }
        // Documents of one version name its own kinds only.
        let all = read_file(&root.join("api/openapi-spec/swagger.json"))?;
        let kinds = all["definitions"].as_object().into_iter().flatten();
        let kinds = kinds
            .filter_map(|(name, one)| {
                let kinds = one.get("x-kubernetes-group-version-kind")?;
                Some((name.clone(), kinds.clone()))
            })
            .collect();
        Ok(Self {
            discovery,
            schemas,
            core,
            returning,
            kinds,
        })
    }
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Error {
    failed(format!("cannot read `{}`: {error}", path.display()))
}

fn read_file(path: &Path) -> Result<Value, Error> {
    let text = fs::read(path).map_err(|error| unreadable(path, &error))?;
    serde_json::from_slice(&text).map_err(|error| unreadable(path, &error))
}

fn read_folder(folder: &Path) -> Result<BTreeMap<String, Value>, Error> {
    let mut out = BTreeMap::new();
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let paths: BTreeSet<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    for path in paths
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
    {
        let document = read_file(path)?;
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        out.insert(name, document);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modules, when they are in the cache; a test does not download.
    fn present() -> Option<Modules> {
        let modules = Modules {
            cache: Modules::cache().ok()?,
        };
        let all = MODULES
            .iter()
            .all(|(module, _)| modules.folder(module).is_some_and(|folder| folder.is_dir()));
        all.then_some(modules)
    }

    #[test]
    fn the_committed_tables_are_what_the_published_api_gives() {
        let Some(modules) = present() else {
            println!("skipped: the Go modules of Kubernetes {KUBERNETES} are not in Go's cache");
            return;
        };
        let once = tables(&modules).unwrap();
        for (name, bytes) in &once {
            let committed = fs::read(folder().join(name)).unwrap();
            assert!(
                committed == *bytes,
                "{name} differs: run `cargo xtask generate`"
            );
        }
        assert_eq!(once, tables(&modules).unwrap(), "not deterministic");
    }
}
