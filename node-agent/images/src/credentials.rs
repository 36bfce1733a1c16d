//! What registries are told of who asks: from the pod's secrets.

use std::collections::BTreeMap;

use base64::Engine as _;
use node_agent_cri::api;
use node_agent_files::digest;
use node_agent_objects::pod::Pod;
use node_agent_objects::source::{DataKind, ObjectReader};
use serde::{Deserialize, Serialize};

/// A user name and password for a registry, and where they come from.
#[derive(Clone, PartialEq)]
pub struct Credential {
    /// What the runtime is given.
    pub auth: api::AuthConfig,
    /// Where it comes from.
    pub source: CredentialSource,
}

/// The origin of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// The node: all its pods may use it.
    Node,
    /// A secret of the pod.
    Secret(PullSecret),
    /// A plugin that was shown the pod's service account.
    Account(PullAccount),
}

/// An image pull secret that was used for a pull.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PullSecret {
    /// Its identity.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Of what was in it.
    pub credential_hash: String,
}

/// A service account that was used for a pull.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PullAccount {
    /// Its identity.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DockerConfig {
    auths: BTreeMap<String, AuthEntry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AuthEntry {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
    registrytoken: String,
}

/// The pod's credentials that fit the image, the most particular first.
pub async fn of_pod(pod: &Pod, image: &str, objects: &dyn ObjectReader) -> Vec<Credential> {
    let mut found: Vec<(usize, Credential)> = Vec::new();
    for reference in &pod.spec.image_pull_secrets {
        let Ok(secret) = objects
            .data(DataKind::Secret, pod.namespace(), &reference.name)
            .await
        else {
            continue;
        };
        let auths = if let Some(text) = secret.entries.get(".dockerconfigjson") {
            serde_json::from_slice::<DockerConfig>(text)
                .unwrap_or_default()
                .auths
        } else if let Some(text) = secret.entries.get(".dockercfg") {
            serde_json::from_slice(text).unwrap_or_default()
        } else {
            continue;
        };
        for (server, entry) in auths {
            if let Some(length) = fits(&server, image) {
                let auth = auth(&server, entry);
                let source = CredentialSource::Secret(PullSecret {
                    uid: secret.uid.clone(),
                    namespace: pod.namespace().to_owned(),
                    name: reference.name.clone(),
                    credential_hash: hash(&auth),
                });
                found.push((length, Credential { auth, source }));
            }
        }
    }
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    found
        .into_iter()
        .map(|(_, credential)| credential)
        .collect()
}

fn hash(auth: &api::AuthConfig) -> String {
    let parts = [
        &auth.username,
        &auth.password,
        &auth.identity_token,
        &auth.registry_token,
    ];
    digest(&serde_json::json!(parts).to_string())
}

/// The registry of an image, as credentials name it.
fn registry(name: &str) -> &str {
    match name.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => "docker.io",
    }
}

/// The name of an image without tag and digest, with its registry.
#[must_use]
pub fn repository(name: &str) -> String {
    let name = name.split('@').next().unwrap_or(name);
    let name = match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => path,
        _ => name,
    };
    if registry(name) != "docker.io" || name.starts_with("docker.io/") {
        name.to_owned()
    } else if name.contains('/') {
        format!("docker.io/{name}")
    } else {
        format!("docker.io/library/{name}")
    }
}

/// Whether a host is what the pattern means: `*` stands for any letters of one
/// part between dots, and a port has to be the same.
fn host_fits(pattern: &str, host: &str) -> bool {
    let port = |text: &str| text.split_once(':').map(|(_, port)| port.to_owned());
    let parts = |text: &str| -> Vec<String> {
        let name = text.split(':').next().unwrap_or(text);
        name.split('.').map(str::to_owned).collect()
    };
    let (wanted, found) = (parts(pattern), parts(host));
    port(pattern) == port(host)
        && wanted.len() == found.len()
        && wanted.iter().zip(&found).all(|(p, t)| part_fits(p, t))
}

fn part_fits(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for piece in pieces {
        if let Some(before) = last.replace(piece) {
            let before: &str = before;
            match rest.find(before) {
                Some(at) => rest = rest.get(at + before.len()..).unwrap_or_default(),
                None => return false,
            }
        }
    }
    match last {
        // no star at all
        None => rest.is_empty(),
        Some(end) => rest.ends_with(end),
    }
}

/// How much of the image's name an entry names, if it is for it.
#[must_use]
pub fn fits(server: &str, image: &str) -> Option<usize> {
    let server = server
        .trim_start_matches("https://")
        .trim_start_matches("http://")
        .trim_end_matches('/');
    let (host, path) = server.split_once('/').unwrap_or((server, ""));
    let path = if path == "v1" || path == "v2" {
        ""
    } else {
        path
    };
    let own = registry(image);
    let docker = ["docker.io", "index.docker.io", "registry-1.docker.io"];
    let is_for_host = if own == "docker.io" && docker.contains(&host) {
        true
    } else {
        host_fits(host, own)
    };
    let rest = image
        .strip_prefix(own)
        .and_then(|rest| rest.strip_prefix('/'))
        .unwrap_or(image);
    let path_fits = path.is_empty()
        || rest
            .strip_prefix(path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '@']));
    (is_for_host && path_fits).then_some(host.len() + path.len())
}

fn auth(server: &str, entry: AuthEntry) -> api::AuthConfig {
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(&entry.auth)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    let (username, password) = match decoded.as_deref().and_then(|pair| pair.split_once(':')) {
        Some((user, word)) if entry.username.is_empty() => (user.to_owned(), word.to_owned()),
        _ => (entry.username, entry.password),
    };
    api::AuthConfig {
        username,
        password,
        server_address: server.to_owned(),
        identity_token: entry.identitytoken,
        registry_token: entry.registrytoken,
        ..api::AuthConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_fit_their_registry_and_path() {
        let cases = [
            ("https://index.docker.io/v1/", "busybox:1", true),
            ("docker.io", "library/busybox", true),
            ("ghcr.io", "ghcr.io/a/b:1", true),
            ("ghcr.io/a", "ghcr.io/a/b:1", true),
            ("ghcr.io/a", "ghcr.io/ab/c", false),
            ("*.example.com", "eu.example.com/a", true),
            ("*.example.com", "x.eu.example.com/a", false),
            (
                "*.dkr.ecr.*.amazonaws.com",
                "1.dkr.ecr.eu.amazonaws.com/a",
                true,
            ),
            ("k8s*.io", "k8s1.io/a", true),
            ("k8s*.io", "x8s1.io/a", false),
            ("a*b*c.io", "a1b2c.io/x", true),
            ("a*b*c.io", "a1c.io/x", false),
            ("r.io:5000", "r.io:5000/a", true),
            ("r.io", "r.io:5000/a", false),
            ("ghcr.io", "quay.io/a/b", false),
        ];
        for (server, image, wanted) in cases {
            assert_eq!(fits(server, image).is_some(), wanted, "{server} {image}");
        }
    }

    #[test]
    fn an_images_repository_is_its_whole_name_without_tag_and_digest() {
        for (name, wanted) in [
            ("busybox:1", "docker.io/library/busybox"),
            ("a/b", "docker.io/a/b"),
            ("r.io:5000/a:1@sha256:0", "r.io:5000/a"),
            ("docker.io/a/b:1", "docker.io/a/b"),
        ] {
            assert_eq!(repository(name), wanted);
        }
    }

    #[test]
    fn user_and_password_come_from_auth_when_not_given() {
        let entry = AuthEntry {
            auth: base64::engine::general_purpose::STANDARD.encode("me:p:w"),
            ..AuthEntry::default()
        };
        let auth = auth("r", entry);
        assert_eq!(
            (auth.username.as_str(), auth.password.as_str()),
            ("me", "p:w")
        );
    }
}
