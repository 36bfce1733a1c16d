//! Groups and resources, from the discovery documents.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{PublishedApi, failed};
use crate::error::Error;

pub struct Group {
    pub name: String,
    pub versions: Vec<String>,
}

pub struct Resource {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub subresources: Vec<Subresource>,
    pub hash: String,
    pub storage: (String, String),
    pub returns_deleted: bool,
}

pub struct Subresource {
    pub name: String,
    pub group: String,
    pub version: String,
    pub kind: String,
    pub verbs: Vec<String>,
}

pub struct Resources {
    pub groups: Vec<Group>,
    pub resources: Vec<Resource>,
}

fn text(value: &Value, key: &str) -> String {
    value
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or("")
        .to_owned()
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    let items = value.get(key).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Only stable versions are served unless asked for: `v1`, `v2`.
fn is_stable(version: &str) -> bool {
    version
        .strip_prefix('v')
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

pub fn collect(api: &PublishedApi) -> Result<Resources, Error> {
    let mut groups = vec![Group {
        name: String::new(),
        versions: vec!["v1".to_owned()],
    }];
    let published = api
        .discovery
        .get("apis")
        .and_then(|apis| apis.get("groups"));
    for group in published.and_then(Value::as_array).into_iter().flatten() {
        let versions: Vec<String> = group
            .get("versions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|version| text(version, "version"))
            .filter(|version| is_stable(version))
            .collect();
        if !versions.is_empty() {
            groups.push(Group {
                name: text(group, "name"),
                versions,
            });
        }
    }
    let mut resources = Vec::new();
    for group in &groups {
        for version in &group.versions {
            let file = if group.name.is_empty() {
                format!("api__{version}")
            } else {
                format!("apis__{}__{version}", group.name)
            };
            let document = api
                .discovery
                .get(&file)
                .ok_or_else(|| failed(format!("discovery has no document `{file}`")))?;
            of_version(api, document, &group.name, version, &mut resources)?;
        }
    }
    Ok(Resources { groups, resources })
}

fn of_version(
    api: &PublishedApi,
    document: &Value,
    group: &str,
    version: &str,
    out: &mut Vec<Resource>,
) -> Result<(), Error> {
    let rows = document.get("resources").and_then(Value::as_array);
    for row in rows.into_iter().flatten() {
        let name = text(row, "name");
        let or = |key: &str, default: &str| match text(row, key) {
            empty if empty.is_empty() => default.to_owned(),
            value => value,
        };
        if let Some((plural, subresource)) = name.split_once('/') {
            // A kind of another group names group and version; core is named by its version.
            let foreign = row.get("version").is_some();
            let sub = Subresource {
                name: subresource.to_owned(),
                group: if foreign {
                    text(row, "group")
                } else {
                    group.to_owned()
                },
                version: or("version", version),
                kind: text(row, "kind"),
                verbs: texts(row, "verbs"),
            };
            let parent = out
                .iter_mut()
                .find(|one| one.plural == plural && one.group == group && one.version == version);
            match parent {
                Some(parent) => parent.subresources.push(sub),
                None => {
                    return Err(failed(format!(
                        "subresource `{name}` comes before its resource"
                    )));
                }
            }
            continue;
        }
        let kind = text(row, "kind");
        let hash = text(row, "storageVersionHash");
        let base = if group.is_empty() { "/api" } else { "/apis" };
        let returns_deleted = api.returning.iter().any(|path| {
            path.strip_prefix(base)
                .and_then(|path| path.trim_start_matches('/').strip_prefix(group))
                .and_then(|path| path.trim_start_matches('/').strip_prefix(version))
                .is_some_and(|path| path.ends_with(&format!("/{name}/{{name}}")))
        });
        let storage = storage(api, &hash, &kind).unwrap_or((group.to_owned(), version.to_owned()));
        out.push(Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: name,
            singular: text(row, "singularName"),
            short_names: texts(row, "shortNames"),
            categories: texts(row, "categories"),
            namespaced: row
                .get("namespaced")
                .and_then(Value::as_bool)
                .unwrap_or(false),
            verbs: texts(row, "verbs"),
            subresources: Vec::new(),
            kind,
            hash,
            storage,
            returns_deleted,
        });
    }
    Ok(())
}

/// The hash is computed from group, version and kind of the stored object: the served
/// version with that hash is the storage version.
fn storage(api: &PublishedApi, hash: &str, kind: &str) -> Option<(String, String)> {
    api.discovery
        .keys()
        .filter_map(|file| {
            let mut parts = file.split("__");
            match (parts.next(), parts.next(), parts.next()) {
                (Some("api"), Some(version), None) => Some((String::new(), version.to_owned())),
                (Some("apis"), Some(group), Some(version)) => {
                    Some((group.to_owned(), version.to_owned()))
                }
                _ => None,
            }
        })
        .filter(|(_, version)| is_stable(version))
        .find(|(group, version)| {
            let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
            base64(&digest[..8]) == hash
        })
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let mut number = 0_usize;
        for at in 0..3 {
            number = number << 8 | usize::from(chunk.get(at).copied().unwrap_or(0));
        }
        for at in 0..4 {
            let letter = if at <= chunk.len() {
                char::from(LETTERS[number >> (18 - 6 * at) & 63])
            } else {
                '='
            };
            let _ = write!(out, "{letter}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_padded_one() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
    }

    #[test]
    fn stable_versions_have_a_number_alone() {
        assert!(is_stable("v1") && is_stable("v12"));
        assert!(!is_stable("v1beta1") && !is_stable("v") && !is_stable("1"));
    }
}
