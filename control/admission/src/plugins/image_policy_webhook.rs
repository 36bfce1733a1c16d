//! `ImagePolicyWebhook`: another server is asked whether images may run.
//!
//! It is sent an `ImageReview` (`imagepolicy.k8s.io/v1alpha1`) with the images of a
//! pod, its annotations with `.image-policy.k8s.io/` in their keys and its namespace.
//! Answers are remembered for a while. When it cannot be asked, the configuration says
//! whether images may run all the same, and the audit log is told.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use control_types::meta;
use control_types::status::Status;
use control_types::value::{ConvertError, Value};
use control_types::{error_chain, value};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use control_proxy::egress::{Dialer, kubeconfig};
use control_proxy::{AnswerCache, Reviewer};

use crate::admission::{Admission, AdmissionResult, Change, wait};
use crate::attributes::Attributes;
use crate::settings::PluginError;

/// What stands before the keys of what the audit log is told.
const PREFIX: &str = "imagepolicywebhook.image-policy.k8s.io/";
/// Annotations with this in their key are passed on.
const PASSED: &str = ".image-policy.k8s.io/";
/// How many answers are remembered, and how large each of them is at most, in bytes.
const MOST: usize = 1024;
const LONGEST: usize = 10_000;
/// How long the server may take for an answer; kubeconfigs cannot say it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The plugin: the server that is asked, and what it answered lately.
#[derive(Debug)]
pub struct ImagePolicyWebhook {
    server: Reviewer,
    answers: AnswerCache<[u8; 32], Arc<ImageReview>>,
    allowed_for: Duration,
    denied_for: Duration,
    default_allow: bool,
}

/// `ImageReviewStatus`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ImageReview {
    allowed: bool,
    reason: String,
    audit_annotations: std::collections::BTreeMap<String, String>,
}

/// The configuration, which has no version and one member.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ImagePolicyConfiguration {
    image_policy: ImagePolicySettings,
}

/// How the server is asked. Times: -1 for none, 0 for the usual.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ImagePolicySettings {
    #[serde(rename = "kubeConfigFile")]
    kubeconfig: PathBuf,
    /// Seconds for which a yes is remembered.
    #[serde(rename = "allowTTL")]
    allow: i64,
    /// Seconds for which a no is remembered.
    #[serde(rename = "denyTTL")]
    deny: i64,
    /// Milliseconds before the server is asked again.
    #[serde(rename = "retryBackoff")]
    backoff: i64,
    /// Whether images may run when the server cannot be asked.
    #[serde(rename = "defaultAllow")]
    default_allow: bool,
}

// === impl ImagePolicyConfiguration ===

impl ImagePolicyConfiguration {
    /// The server that it names.
    ///
    /// # Errors
    /// When a time is out of range, or the kubeconfig cannot be used.
    pub fn server(self) -> Result<ImagePolicyWebhook, PluginError> {
        let Self { image_policy: told } = self;
        let (second, millisecond) = (Duration::from_secs(1), Duration::from_millis(1));
        let half_an_hour = 1800;
        let pause = time("retryBackoff", told.backoff, millisecond, 300_000, 500)?;
        let allowed_for = time("allowTTL", told.allow, second, half_an_hour, 300)?;
        let denied_for = time("denyTTL", told.deny, second, half_an_hour, 30)?;
        if told.kubeconfig == Path::new("") {
            return Err(PluginError::Required(
                "imagePolicy.kubeConfigFile".to_owned(),
            ));
        }
        let server = Reviewer::open(&told.kubeconfig, TIMEOUT, Dialer::default())?.pausing(pause);
        Ok(ImagePolicyWebhook {
            server,
            answers: AnswerCache::new(MOST),
            allowed_for,
            denied_for,
            default_allow: told.default_allow,
        })
    }
}

/// A time in some unit: none for -1, the usual for 0.
fn time(
    name: &str,
    said: i64,
    unit: Duration,
    most: u32,
    usual: u32,
) -> Result<Duration, PluginError> {
    match (said, u32::try_from(said)) {
        (-1, _) => Ok(Duration::ZERO),
        (0, _) => Ok(unit * usual),
        (_, Ok(said)) if said <= most => Ok(unit * said),
        _ => Err(PluginError::Invalid {
            field: format!("imagePolicy.{name}"),
            value: said.to_string(),
            must: format!("valid value is between {unit:?} and {:?}", unit * most),
        }),
    }
}

// === impl ImagePolicyWebhook ===

impl Admission for ImagePolicyWebhook {
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        _warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        wait(self.check(attributes, change))
    }
}

impl ImagePolicyWebhook {
    /// What it says about a review's `spec`.
    async fn ask(&self, spec: Value) -> Result<Arc<ImageReview>, ImageReviewError> {
        let key: [u8; 32] = Sha256::digest(spec.to_vec()).into();
        if let Some(known) = self.answers.get(&key) {
            return Ok(known);
        }
        let review = value!({
            "kind": "ImageReview", "apiVersion": "imagepolicy.k8s.io/v1alpha1",
            "metadata": {}, "spec": (spec), "status": {"allowed": false}
        });
        let answer = read(self.server.review(&review).await?)?;
        let annotations = answer.audit_annotations.iter();
        let size = answer.reason.len()
            + annotations
                .map(|(key, text)| key.len() + text.len())
                .sum::<usize>();
        let answer = Arc::new(answer);
        if size <= LONGEST {
            let lasts = match answer.allowed {
                true => self.allowed_for,
                false => self.denied_for,
            };
            self.answers.put(key, Arc::clone(&answer), lasts);
        }
        Ok(answer)
    }

    /// Looks at the images of a pod.
    ///
    /// # Errors
    /// 403 when the server does not want one of them, or cannot be asked.
    async fn check(&self, attributes: &Attributes<'_>, change: Change<'_>) -> Result<(), Status> {
        let lists: &[&str] = match attributes.subresource {
            "" => &["containers", "initContainers"],
            _ => &["ephemeralContainers"],
        };
        let context = attributes.context;
        let spec = spec(change.new, lists, &context.info.namespace);
        let answer = match self.ask(spec).await {
            Ok(answer) => answer,
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(error, "the image policy webhook cannot be asked");
                if self.default_allow {
                    context.annotate(Cow::from(format!("{PREFIX}failed-open")), "true");
                    return Ok(());
                }
                return Err(attributes.refuse(change.new, &error));
            }
        };
        for (key, text) in &answer.audit_annotations {
            context.annotate(format!("{PREFIX}{key}"), text.as_str());
        }
        let why = match (answer.allowed, &*answer.reason) {
            (true, _) => return Ok(()),
            (false, "") => "one or more images rejected by webhook backend".to_owned(),
            (false, reason) => {
                format!("image policy webhook backend denied one or more images: {reason}")
            }
        };
        Err(attributes.refuse(change.new, &why))
    }
}

/// Error of a webhook that does not say whether images may run.
#[derive(Debug, thiserror::Error)]
enum ImageReviewError {
    #[error(transparent)]
    NoAnswer(#[from] kubeconfig::Error),
    #[error("the answer is of kind {0:?}, no ImageReview")]
    Kind(String),
    #[error("the answer cannot be read")]
    Unreadable(#[source] ConvertError),
}

fn read(mut answer: Value) -> Result<ImageReview, ImageReviewError> {
    let kind = answer.str_at(&["kind"]).unwrap_or("ImageReview");
    if kind != "ImageReview" {
        return Err(ImageReviewError::Kind(kind.to_owned()));
    }
    match answer.remove("status") {
        None | Some(Value::Null) => Ok(ImageReview::default()),
        Some(status) => value::from_value(&status).map_err(ImageReviewError::Unreadable),
    }
}

/// `ImageReviewSpec` of these lists of a pod's containers.
fn spec(pod: &Value, lists: &[&str], namespace: &str) -> Value {
    let mut containers = Vec::new();
    for container in lists.iter().flat_map(|list| pod.items_at(&["spec", list])) {
        let mut one = Value::object();
        if let Some(image) = container
            .str_at(&["image"])
            .filter(|image| !image.is_empty())
        {
            one.insert("image", image);
        }
        containers.push(one);
    }
    let mut annotations = Value::object();
    for (key, text) in meta::annotations(pod).filter(|(key, _)| key.contains(PASSED)) {
        annotations.insert(key, text);
    }
    let mut spec = Value::object();
    if !containers.is_empty() {
        spec.insert("containers", Value::Array(containers));
    }
    if annotations.as_object().is_some_and(|all| !all.is_empty()) {
        spec.insert("annotations", annotations);
    }
    spec.insert("namespace", namespace);
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_with_the_annotations_that_are_meant_for_it() {
        let pod = value!({
            "metadata": {"annotations": {"a.image-policy.k8s.io/ticket": "1", "other": "2"}},
            "spec": {
                "initContainers": [{"image": "i"}], "containers": [{"image": "c"}, {}],
                "ephemeralContainers": [{"image": "e"}]
            }
        });
        assert_eq!(
            spec(&pod, &["containers", "initContainers"], "n"),
            value!({
                "containers": [{"image": "c"}, {}, {"image": "i"}],
                "annotations": {"a.image-policy.k8s.io/ticket": "1"},
                "namespace": "n"
            })
        );
        assert_eq!(
            spec(&value!({}), &["ephemeralContainers"], "n"),
            value!({"namespace": "n"})
        );
    }

    #[test]
    fn times_have_a_usual_value_a_range_and_a_way_to_say_none() {
        let seconds = |said| {
            time("allowTTL", said, Duration::from_secs(1), 1800, 300)
                .map_err(|error| error.to_string())
        };
        assert_eq!(seconds(0), Ok(Duration::from_secs(300)));
        assert_eq!(seconds(-1), Ok(Duration::ZERO));
        assert_eq!(seconds(1800), Ok(Duration::from_secs(1800)));
        for wrong in [-2, 1801, i64::MAX, i64::MIN] {
            assert_eq!(
                seconds(wrong),
                Err(format!(
                    "imagePolicy.allowTTL: Invalid value: {wrong}: valid value is between 1s and 1800s"
                ))
            );
        }
    }

    #[test]
    fn an_answer_without_a_status_allows_nothing() {
        assert_eq!(read(value!({})).ok(), Some(ImageReview::default()));
        assert!(read(value!({"kind": "Status"})).is_err());
        assert!(read(value!({"status": {"allowed": "yes"}})).is_err());
        let yes = read(value!({"status": {"allowed": true}, "kind": "ImageReview"}));
        assert!(yes.expect("an answer").allowed);
    }
}
