//! What is asked: of each valid object a life from creation to deletion and its
//! mutants; and scenarios, lists of questions that build on each other.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::Error;
use crate::ask::Runner;
use crate::mutants::{self, Dice};
use crate::recording::{Group, Step};

/// Kinds that stay after their deletion until a controller lets them go.
const KEPT: [&str; 5] = [
    "CustomResourceDefinition",
    "Namespace",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ServiceCIDR",
];

/// Where objects are: base path, plural and whether they are in namespaces, by
/// version and kind.
pub struct Places(BTreeMap<(String, String), (String, String, bool)>);

impl Places {
    /// Asks a server.
    pub async fn read(runner: &mut Runner) -> Result<Self, Error> {
        let mut versions = vec![("v1".to_owned(), "/api/v1".to_owned())];
        let groups = runner.get("/apis").await;
        for group in groups["groups"].as_array().into_iter().flatten() {
            for version in group["versions"].as_array().into_iter().flatten() {
                let version = version["groupVersion"].as_str().unwrap_or_default();
                versions.push((version.to_owned(), format!("/apis/{version}")));
            }
        }
        let mut out = BTreeMap::new();
        for (version, path) in versions {
            let list = runner.get(&path).await;
            for one in list["resources"].as_array().into_iter().flatten() {
                let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
                if !text("name").contains('/') {
                    let namespaced = one["namespaced"] == true;
                    let place = (path.clone(), text("name"), namespaced);
                    out.insert((version.clone(), text("kind")), place);
                }
            }
        }
        if out.is_empty() {
            return Err(Error::Server("no discovery".to_owned()));
        }
        Ok(Self(out))
    }

    fn of(&self, object: &Value) -> Option<String> {
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let (base, plural, namespaced) = self.0.get(&(text("apiVersion"), text("kind")))?;
        Some(if *namespaced {
            format!("{base}/namespaces/$ns/{plural}")
        } else {
            format!("{base}/{plural}")
        })
    }
}

#[derive(Deserialize)]
struct Scenario {
    scenario: String,
    steps: Vec<Step>,
}

/// Reads a corpus.
pub fn read(folder: &Path, places: &Places, count: u32, seed: u64) -> Result<Vec<Group>, Error> {
    let mut dice = Dice::new(seed);
    let mut out = Vec::new();
    for (path, stem) in files(&folder.join("objects"))? {
        for (at, object) in documents::<Value>(&path)?.into_iter().enumerate() {
            let label = format!("{stem}#{at}");
            let base = places.of(&object).ok_or_else(|| {
                let kind = &object["kind"];
                Error::file(&path, format!("the server has no {kind}"))
            })?;
            let steps = life(&label, &object, &base, count, &mut dice);
            out.push(Group {
                group: label,
                steps,
            });
        }
    }
    for (path, stem) in files(&folder.join("scenarios"))? {
        for one in documents::<Scenario>(&path)? {
            out.push(Group {
                group: format!("{stem}: {}", one.scenario),
                steps: one.steps,
            });
        }
    }
    Ok(out)
}

fn files(folder: &Path) -> Result<Vec<(std::path::PathBuf, String)>, Error> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::file(folder, error))?;
    let mut out: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .map(|path| {
            let stem = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            (path, stem)
        })
        .collect();
    out.sort();
    Ok(out)
}

fn documents<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<T>, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
    serde_saphyr::from_multiple(&text).map_err(|error| Error::file(path, error))
}

/// The questions about one valid object.
fn life(label: &str, object: &Value, base: &str, count: u32, dice: &mut Dice) -> Vec<Step> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or("x");
    let one = format!("{base}/{name}");
    let step = |what: &str, method: &str, path: String, body: Option<Value>| Step {
        name: format!("{label} {kind} {what}"),
        method: method.to_owned(),
        path,
        body,
        ..Step::default()
    };
    let accept = |mut step: Step, accept: &str| {
        step.headers.insert("Accept".to_owned(), accept.to_owned());
        step
    };
    let patch = |what: &str, kind: &str, query: &str, body: Value| {
        let mut step = step(what, "PATCH", format!("{one}{query}"), Some(body));
        let media = format!("application/{kind}");
        step.headers.insert("Content-Type".to_owned(), media);
        step
    };
    let with = |metadata: Value| {
        let mut object = object.clone();
        object["metadata"] = metadata;
        object
    };
    let note = json!({"metadata": {"annotations": {"example.org/note": "one"}}});
    let mut out = vec![
        step(
            "create dry",
            "POST",
            format!("{base}?dryRun=All&fieldValidation=Strict"),
            Some(object.clone()),
        ),
        step("create", "POST", base.to_owned(), Some(object.clone())),
        step(
            "create again",
            "POST",
            base.to_owned(),
            Some(object.clone()),
        ),
        step("get", "GET", one.clone(), None),
        accept(
            step("get yaml", "GET", one.clone(), None),
            "application/yaml",
        ),
        accept(
            step("table", "GET", one.clone(), None),
            "application/json;as=Table;v=v1;g=meta.k8s.io",
        ),
        accept(
            step("metadata", "GET", one.clone(), None),
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        ),
        step(
            "list",
            "GET",
            format!("{base}?fieldSelector=metadata.name%3D{name}"),
            None,
        ),
        patch(
            "merge patch",
            "merge-patch+json",
            "?fieldManager=first",
            note.clone(),
        ),
        patch(
            "same merge patch",
            "merge-patch+json",
            "?fieldManager=first",
            note,
        ),
        patch(
            "strategic patch",
            "strategic-merge-patch+json",
            "",
            json!({"metadata": {"labels": {"colour": "red"}, "annotations": {"example.org/note": null}}}),
        ),
        patch(
            "json patch",
            "json-patch+json",
            "",
            json!([
                {"op": "add", "path": "/metadata/labels/size", "value": "big"},
                {"op": "copy", "from": "/metadata/labels/size", "path": "/metadata/labels/width"},
                {"op": "test", "path": "/metadata/labels/width", "value": "big"}
            ]),
        ),
        patch(
            "json patch of nothing",
            "json-patch+json",
            "",
            json!([{"op": "remove", "path": "/metadata/annotations/none"}]),
        ),
        patch(
            "apply",
            "apply-patch+yaml",
            "?fieldManager=second&force=true",
            with(json!({"name": name, "labels": {"colour": "green"}})),
        ),
        patch(
            "apply conflict",
            "apply-patch+yaml",
            "?fieldManager=third",
            with(json!({"name": name, "labels": {"colour": "blue"}})),
        ),
        patch(
            "apply less",
            "apply-patch+yaml",
            "?fieldManager=second&force=true",
            json!({"apiVersion": (object["apiVersion"]), "kind": kind, "metadata": {"name": name}}),
        ),
    ];
    for at in 0..count {
        let (mutant, said) = mutants::of(object, dice);
        let modes = ["Strict", "Strict", "Warn", "Ignore"];
        let mode = dice.pick(&modes).copied().unwrap_or_default();
        let query = format!("?dryRun=All&fieldValidation={mode}");
        // Made anew, or put in the place of the one that is there.
        out.push(if dice.below(3) > 0 {
            let what = format!("mutant {at} [{said}]");
            step(&what, "POST", format!("{base}{query}"), Some(mutant))
        } else {
            let what = format!("put mutant {at} [{said}]");
            step(&what, "PUT", format!("{one}{query}"), Some(mutant))
        });
    }
    let mut stale = object["metadata"].clone();
    stale["resourceVersion"] = "1".into();
    out.push(step("put stale", "PUT", one.clone(), Some(with(stale))));
    out.push(step(
        "delete dry",
        "DELETE",
        format!("{one}?dryRun=All"),
        None,
    ));
    let delete = format!("{one}?propagationPolicy=Background&gracePeriodSeconds=0");
    out.push(step("delete", "DELETE", delete, None));
    if !KEPT.contains(&kind) {
        out.push(step("get gone", "GET", one, None));
    }
    out
}
