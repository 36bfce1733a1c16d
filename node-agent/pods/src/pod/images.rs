//! Images: there already, or fetched, with the credentials that fit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::cri::{self, Runtime, api};
use crate::objects::pod::Pod;
use crate::objects::source::{DataKind, Objects};

/// Fetches images, a few at once.
pub struct Images {
    runtime: Arc<dyn Runtime>,
    slots: Semaphore,
}

/// What was done to have the image.
#[derive(Clone, Debug, PartialEq)]
pub enum Had {
    /// It was there.
    Present,
    /// It was fetched.
    Pulled {
        /// How long the fetching took.
        took: Duration,
        /// The same, with the wait for its turn.
        waited: Duration,
    },
}

/// Why there is no image. `Display` is the waiting message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is no image's.
    #[error(
        "Failed to apply default image tag \"{0}\": couldn't parse image name \"{0}\": invalid reference format"
    )]
    Name(String),
    /// It is not there and must not be fetched.
    #[error("Container image \"{0}\" is not present with pull policy of Never")]
    Never(String),
    /// The runtime cannot say whether it is there.
    #[error("Failed to inspect image \"{0}\": {1}")]
    Inspect(String, cri::Error),
    /// It could not be fetched.
    #[error("{0}")]
    Pull(cri::Error),
}

impl Error {
    /// The waiting reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Name(_) => "InvalidImageName",
            Self::Never(_) => "ErrImageNeverPull",
            Self::Inspect(..) => "ImageInspectError",
            Self::Pull(_) => "ErrImagePull",
        }
    }
}

impl Images {
    /// Over this runtime; `pulls` may go on at once, more only compete for the
    /// same line.
    #[must_use]
    pub fn new(runtime: Arc<dyn Runtime>, pulls: usize) -> Self {
        Self {
            runtime,
            slots: Semaphore::new(pulls),
        }
    }

    /// The image of a container, by its pull policy. `pulling` is called when
    /// it is about to be fetched.
    ///
    /// # Errors
    /// When there is none and none can be had.
    pub async fn ensure(
        &self,
        pod: &Pod,
        name: &str,
        policy: &str,
        objects: &dyn Objects,
        pulling: impl FnOnce() + Send,
    ) -> Result<(api::Image, Had), Error> {
        if !is_reference(name) {
            return Err(Error::Name(name.to_owned()));
        }
        let wanted = with_tag(name);
        if policy != "Always"
            && let Some(image) = self.find(&wanted).await?
        {
            return Ok((image, Had::Present));
        }
        if policy == "Never" {
            return Err(Error::Never(name.to_owned()));
        }
        pulling();
        let asked = Instant::now();
        let _slot = self.slots.acquire().await;
        let started = Instant::now();
        self.pull(pod, &wanted, objects)
            .await
            .map_err(Error::Pull)?;
        let had = Had::Pulled {
            took: started.elapsed(),
            waited: asked.elapsed(),
        };
        match self.find(&wanted).await? {
            Some(image) => Ok((image, had)),
            None => Err(Error::Pull(cri::Error {
                method: "PullImage",
                code: tonic::Code::NotFound,
                message: format!("image \"{name}\" is not there after it was pulled"),
            })),
        }
    }

    async fn find(&self, name: &str) -> Result<Option<api::Image>, Error> {
        self.runtime
            .image_status(request(name))
            .await
            .map(|answer| answer.image.filter(|image| !image.id.is_empty()))
            .map_err(|e| Error::Inspect(name.to_owned(), e))
    }

    async fn pull(&self, pod: &Pod, name: &str, objects: &dyn Objects) -> cri::Result<()> {
        let mut tries: Vec<Option<api::AuthConfig>> = credentials(pod, name, objects)
            .await
            .into_iter()
            .map(Some)
            .collect();
        if tries.is_empty() {
            tries.push(None);
        }
        let mut last = None;
        for auth in tries {
            let asked = self.runtime.pull_image(api::PullImageRequest {
                image: request(name).image,
                auth,
                sandbox_config: None,
            });
            match asked.await {
                Ok(_) => return Ok(()),
                Err(error) => last = Some(error),
            }
        }
        last.map_or(Ok(()), Err)
    }
}

fn request(name: &str) -> api::ImageRequest {
    api::ImageRequest {
        image: Some(api::ImageSpec {
            image: name.to_owned(),
            ..api::ImageSpec::default()
        }),
    }
}

/// Whether text can name an image: `[registry/]path[:tag][@digest]`.
fn is_reference(name: &str) -> bool {
    let (name, digest) = match name.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (name, None),
    };
    if digest.is_some_and(|d| !d.contains(':') || !d.is_ascii()) {
        return false;
    }
    let (path, tag) = split_tag(name);
    let tag_fits = tag.is_none_or(|tag| {
        !tag.is_empty()
            && tag.len() <= 128
            && tag
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
    });
    let mut parts = path.split('/').peekable();
    let mut first = true;
    let mut fits = !path.is_empty() && path.len() <= 255;
    while let Some(part) = parts.next() {
        let is_host = first && parts.peek().is_some() && part.contains(['.', ':']);
        let allowed = |c: char| {
            c.is_ascii_lowercase()
                || c.is_ascii_digit()
                || "._-".contains(c)
                || (is_host && (c.is_ascii_uppercase() || ":[]".contains(c)))
        };
        fits &= !part.is_empty() && part.chars().all(allowed);
        first = false;
    }
    fits && tag_fits
}

fn split_tag(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (name, None),
    }
}

fn with_tag(name: &str) -> String {
    if name.contains('@') || split_tag(name).1.is_some() {
        name.to_owned()
    } else {
        format!("{name}:latest")
    }
}

/// The registry of an image, as credentials name it.
fn registry(name: &str) -> &str {
    match name.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => "docker.io",
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DockerConfig {
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    username: String,
    password: String,
    auth: String,
    identitytoken: String,
    registrytoken: String,
}

/// The pod's credentials that fit the image, the most particular first.
async fn credentials(pod: &Pod, image: &str, objects: &dyn Objects) -> Vec<api::AuthConfig> {
    let mut found: Vec<(usize, api::AuthConfig)> = Vec::new();
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
                found.push((length, auth(&server, entry)));
            }
        }
    }
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    found.into_iter().map(|(_, auth)| auth).collect()
}

/// How much of the image's name an entry names, if it is for it.
fn fits(server: &str, image: &str) -> Option<usize> {
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
    let host_fits = match host.strip_prefix("*.") {
        Some(suffix) => own
            .strip_suffix(suffix)
            .and_then(|rest| rest.strip_suffix('.'))
            .is_some_and(|label| !label.contains('.')),
        None if own == "docker.io" => {
            ["docker.io", "index.docker.io", "registry-1.docker.io"].contains(&host)
        }
        None => own == host,
    };
    let rest = image
        .strip_prefix(own)
        .and_then(|rest| rest.strip_prefix('/'))
        .unwrap_or(image);
    let path_fits = path.is_empty()
        || rest
            .strip_prefix(path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '@']));
    (host_fits && path_fits).then_some(host.len() + path.len())
}

fn auth(server: &str, entry: Entry) -> api::AuthConfig {
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

/// The number of the user that an image runs as, if it is one.
#[must_use]
pub fn image_uid(image: &api::Image) -> Option<i64> {
    image.uid.as_ref().map(|u| u.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_nonsense() {
        for good in [
            "busybox",
            "docker.io/library/busybox:1.36",
            "localhost:5000/a/b_c:v1",
            "registry.k8s.io/pause@sha256:0123",
            "orlop.dev/demo:latest",
        ] {
            assert!(is_reference(good), "{good}");
        }
        for bad in [
            "", "Busybox", "a b", "a//b", "a:", "a:x/y:", "a@digest", "/a",
        ] {
            assert!(!is_reference(bad), "{bad}");
        }
        assert_eq!(with_tag("localhost:5000/a"), "localhost:5000/a:latest");
        assert_eq!(with_tag("a:1"), "a:1");
    }

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
            ("ghcr.io", "quay.io/a/b", false),
        ];
        for (server, image, wanted) in cases {
            assert_eq!(fits(server, image).is_some(), wanted, "{server} {image}");
        }
    }

    #[test]
    fn user_and_password_come_from_auth_when_not_given() {
        let entry = Entry {
            auth: base64::engine::general_purpose::STANDARD.encode("me:p:w"),
            ..Entry::default()
        };
        let auth = auth("r", entry);
        assert_eq!(
            (auth.username.as_str(), auth.password.as_str()),
            ("me", "p:w")
        );
    }
}
