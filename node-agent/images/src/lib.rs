//! Images: there already, or fetched, with the credentials that fit.

pub mod credentials;
pub mod providers;
pub mod pulls;

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use node_agent_cri::{Runtime, api};
use node_agent_objects::pod::Pod;
use node_agent_objects::source::ObjectReader;
use tokio::sync::Semaphore;

use crate::credentials::{Credential, CredentialSource};
use crate::providers::CredentialProviders;
use crate::pulls::{PullRecords, PullVerdict};

/// Pulls images, a limited number at a time.
pub struct ImagePuller {
    runtime: Arc<dyn Runtime>,
    slots: Semaphore,
    pulls: PullRecords,
    providers: CredentialProviders,
}

/// Whether an image was present or was pulled.
#[derive(Clone, Debug, PartialEq)]
pub enum PullOutcome {
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

/// Why an image is not available. `Display` is the waiting message.
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
    Inspect(String, node_agent_cri::RuntimeError),
    /// It could not be fetched.
    #[error("{0}")]
    Pull(node_agent_cri::RuntimeError),
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

impl ImagePuller {
    /// Over this runtime; `at_once` may be fetched at once, more only compete for the
    /// same line.
    #[must_use]
    pub fn new(
        runtime: Arc<dyn Runtime>,
        at_once: usize,
        pulls: PullRecords,
        providers: CredentialProviders,
    ) -> Self {
        Self {
            runtime,
            slots: Semaphore::new(at_once),
            pulls,
            providers,
        }
    }

    /// Takes over what an agent before this one was fetching when it ended.
    pub async fn adopt(&self) {
        if !self.pulls.was_fetching() {
            return;
        }
        let listed = self
            .runtime
            .list_images(api::ListImagesRequest { filter: None })
            .await;
        if let Ok(listed) = listed {
            let images: Vec<(String, Vec<String>)> = listed
                .images
                .into_iter()
                .map(|image| {
                    let mut names = image.repo_tags;
                    names.extend(image.repo_digests);
                    (image.id, names)
                })
                .collect();
            self.pulls.adopt(&images);
        }
    }

    /// Forgets what images were fetched with that are gone; `ids` are those of
    /// all that there were at `since`.
    pub fn forget_all_but(&self, ids: &[String], since: Timestamp) {
        self.pulls.keep(ids, since);
    }

    /// All that the pod can show for the image.
    async fn credentials(
        &self,
        pod: &Pod,
        name: &str,
        objects: &dyn ObjectReader,
    ) -> Vec<Credential> {
        let mut all = credentials::of_pod(pod, name, objects).await;
        all.extend(self.providers.credentials(pod, name, objects).await);
        all
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
        objects: &dyn ObjectReader,
        pulling: impl FnOnce() + Send,
    ) -> Result<(api::Image, PullOutcome), Error> {
        if !is_reference(name) {
            return Err(Error::Name(name.to_owned()));
        }
        let wanted = with_tag(name);
        let mut shown = None;
        if policy != "Always"
            && let Some(image) = self.find(&wanted).await?
        {
            let may = match self.pulls.verdict(&wanted, &image.id) {
                PullVerdict::Yes => true,
                PullVerdict::No => false,
                PullVerdict::AskFor => {
                    let credentials = self.credentials(pod, &wanted, objects).await;
                    let may = self.pulls.suffices(&wanted, &image.id, &credentials);
                    shown = Some(credentials);
                    may
                }
            };
            if may {
                return Ok((image, PullOutcome::Present));
            }
        }
        // that it is there is not told to those who may not use it
        if policy == "Never" {
            return Err(Error::Never(name.to_owned()));
        }
        pulling();
        let asked = Instant::now();
        let _slot = self.slots.acquire().await;
        let started = Instant::now();
        let credentials = match shown {
            Some(credentials) => credentials,
            None => self.credentials(pod, &wanted, objects).await,
        };
        self.pulls
            .begin(&wanted)
            .map_err(|e| Error::Pull(unnoted(&e)))?;
        let mut note = PullReport {
            pulls: &self.pulls,
            image: &wanted,
            done: None,
        };
        let source = self.pull(&wanted, credentials).await.map_err(Error::Pull)?;
        let had = PullOutcome::Pulled {
            took: started.elapsed(),
            waited: asked.elapsed(),
        };
        match self.find(&wanted).await? {
            Some(image) => {
                note.done = Some((image.id.clone(), source));
                Ok((image, had))
            }
            None => Err(Error::Pull(node_agent_cri::RuntimeError {
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

    /// Fetches an image with the first of the credentials that will do; whose
    /// that was.
    async fn pull(
        &self,
        name: &str,
        credentials: Vec<Credential>,
    ) -> node_agent_cri::Result<CredentialSource> {
        let mut tries: Vec<(Option<api::AuthConfig>, CredentialSource)> = credentials
            .into_iter()
            .map(|credential| (Some(credential.auth), credential.source))
            .collect();
        if tries.is_empty() {
            tries.push((None, CredentialSource::Node));
        }
        let mut last = None;
        for (auth, source) in tries {
            let asked = self.runtime.pull_image(api::PullImageRequest {
                image: request(name).image,
                auth,
                sandbox_config: None,
            });
            match asked.await {
                Ok(_) => return Ok(source),
                Err(error) => last = Some(error),
            }
        }
        last.map_or(Ok(CredentialSource::Node), Err)
    }
}

/// Records how a pull ended, even if its pod is gone by then.
struct PullReport<'a> {
    pulls: &'a PullRecords,
    image: &'a str,
    done: Option<(String, CredentialSource)>,
}

impl Drop for PullReport<'_> {
    fn drop(&mut self) {
        let done = self.done.as_ref().map(|(id, source)| (id.as_str(), source));
        self.pulls.end(self.image, done);
    }
}

fn unnoted(error: &std::io::Error) -> node_agent_cri::RuntimeError {
    node_agent_cri::RuntimeError {
        method: "PullImage",
        code: tonic::Code::Internal,
        message: format!("failed to record image pull intent: {error}"),
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

/// The number of the user that an image runs as, if it is one.
#[must_use]
pub fn image_uid(image: &api::Image) -> Option<i64> {
    image.uid.as_ref().map(|u| u.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_agent_kubelet_config::PullVerification;
    use node_agent_objects::fake::FakeObjects;
    use node_agent_objects::source::DataKind;

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

    #[tokio::test]
    async fn an_image_of_anothers_secret_is_fetched_again_and_with_never_it_is_not_there() {
        let root = tempfile::tempdir().unwrap();
        let runtime: Arc<dyn Runtime> = Arc::new(node_agent_cri::fake::Fake::default());
        let images = ImagePuller::new(
            runtime,
            1,
            PullRecords::new(root.path(), PullVerification::Fetched),
            CredentialProviders::default(),
        );
        let objects = FakeObjects::default();
        let auths = r#"{"auths":{"r.io":{"username":"me","password":"pw"}}}"#;
        objects.put(DataKind::Secret, "own", &[(".dockerconfigjson", auths)]);
        let pod = |secret: &str| -> Pod {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "web", "namespace": "default", "uid": "u"},
                "spec": {"imagePullSecrets": [{"name": secret}]}}))
            .unwrap()
        };
        let ask = |secret: &'static str, policy: &'static str| {
            let (images, objects, pod) = (&images, &objects, pod(secret));
            async move {
                let mut fetched = false;
                let had = images
                    .ensure(&pod, "r.io/app:1", policy, objects, || fetched = true)
                    .await;
                had.map(|_| fetched).map_err(|e| e.reason())
            }
        };
        // the fake has every image: it was there before the agent
        assert_eq!(ask("none", "IfNotPresent").await, Ok(false));
        assert_eq!(ask("own", "Always").await, Ok(true));
        assert_eq!(ask("own", "IfNotPresent").await, Ok(false));
        assert_eq!(ask("own", "Never").await, Ok(false));
        assert_eq!(ask("none", "Never").await, Err("ErrImageNeverPull"));
        // the registry lets everybody have it, as it turns out
        assert_eq!(ask("none", "IfNotPresent").await, Ok(true));
        assert_eq!(ask("none", "Never").await, Ok(false));
    }
}
