//! `AdmissionReview`: the question that a webhook is asked, and what its answer says.
//! All pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_types::status::{Status, quote};
use control_types::value::{Map, Value};

use super::hook::ReviewVersion;

/// What a webhook answers.
#[derive(Debug, PartialEq)]
pub(super) struct WebhookAnswer {
    /// Whether the request may go on.
    pub allowed: bool,
    /// Why not, in its words.
    pub result: Option<Value>,
    /// What it changes: the JSON of a patch, and its type.
    pub patch: Option<(Vec<u8>, String)>,
    /// What it tells the audit log.
    pub annotations: Vec<(String, String)>,
    /// What it tells the client.
    pub warnings: Vec<String>,
}

impl ReviewVersion {
    fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }
}

/// The bytes of a review of a request, which is given without its objects: they are
/// JSON already, for all webhooks alike.
pub(super) fn encode(
    version: ReviewVersion,
    mut request: Value,
    uid: &str,
    object: &[u8],
    old: &[u8],
) -> Vec<u8> {
    for written in ["object", "oldObject"] {
        request.remove(written);
    }
    request.insert("uid", uid);
    let mut out = Vec::with_capacity(1024 + object.len() + old.len());
    out.extend_from_slice(b"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/");
    out.extend_from_slice(version.as_str().as_bytes());
    out.extend_from_slice(b"\",\"request\":");
    out.extend_from_slice(&request.to_vec());
    // The request has members: what follows joins them.
    if out.last() == Some(&b'}') {
        out.pop();
    }
    out.extend_from_slice(b",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b",\"oldObject\":");
    out.extend_from_slice(old);
    out.extend_from_slice(b"}}");
    out
}

/// Why an answer is no review of this version at all, in Kubernetes' words.
pub(super) fn undecodable(version: ReviewVersion, review: &Value) -> Option<String> {
    let text = |field: &str| review.str_at(&[field]).unwrap_or_default();
    let (given, kind) = (text("apiVersion"), text("kind"));
    let known = matches!(given, "admission.k8s.io/v1" | "admission.k8s.io/v1beta1");
    if !given.is_empty() && !kind.is_empty() {
        if !known || kind != "AdmissionReview" {
            return Some(format!(
                "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                quote(kind),
                quote(given)
            ));
        }
        let given = given.trim_start_matches("admission.k8s.io/");
        let wanted = version.as_str();
        if given != wanted {
            return Some(format!(
                "converting ({given}.AdmissionReview) to ({wanted}.AdmissionReview): unknown conversion"
            ));
        }
    }
    let response = review.get("response")?;
    if let Some(allowed) = response.get("allowed")
        && !matches!(allowed, Value::Bool(_) | Value::Null)
    {
        return Some(format!(
            "json: cannot unmarshal {} into Go struct field AdmissionResponse.response.allowed of type bool",
            allowed.type_name()
        ));
    }
    match STANDARD.decode(response.str_at(&["patch"]).unwrap_or_default()) {
        Err(base64::DecodeError::InvalidByte(at, _)) => {
            Some(format!("illegal base64 data at input byte {at}"))
        }
        _ => None,
    }
}

/// Error for an answer that fits no question, in Kubernetes' words.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("webhook response was absent")]
    Absent,
    #[error("response.patch is not base64")]
    Patch(#[source] base64::DecodeError),
    #[error("expected response.uid={}, got {}", quote(expected), quote(found))]
    Uid { expected: String, found: String },
    #[error(
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {version}, Kind={kind}"
    )]
    Kind { version: String, kind: String },
    #[error("webhook returned response.patch but not response.patchType")]
    NoPatchType,
    #[error("webhook returned response.patchType but not response.patch")]
    NoPatch,
    #[error("webhook returned invalid response.patchType of \"\"")]
    EmptyPatchType,
    #[error("validating webhook may not return response.patch")]
    ValidatingPatch,
    #[error("validating webhook may not return response.patchType")]
    ValidatingPatchType,
}

/// Reads the answer to the review of `uid`.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(
    version: ReviewVersion,
    uid: &str,
    mutating: bool,
    review: &Value,
) -> Result<WebhookAnswer, ReviewError> {
    let response = review
        .get("response")
        .filter(|response| response.as_object().is_some())
        .ok_or(ReviewError::Absent)?;
    let text = |field: &str| response.str_at(&[field]).unwrap_or_default();
    let encoded = text("patch");
    let patch = STANDARD.decode(encoded).map_err(ReviewError::Patch)?;
    let patch_type = response.str_at(&["patchType"]);
    if version == ReviewVersion::V1 {
        if text("uid") != uid {
            return Err(ReviewError::Uid {
                expected: uid.to_owned(),
                found: text("uid").to_owned(),
            });
        }
        let (given, kind) = (
            review.str_at(&["apiVersion"]).unwrap_or_default(),
            review.str_at(&["kind"]).unwrap_or_default(),
        );
        if (given, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
            let given = if given.is_empty() { "/" } else { given };
            return Err(ReviewError::Kind {
                version: given.to_owned(),
                kind: kind.to_owned(),
            });
        }
        match (mutating, patch.is_empty(), patch_type) {
            (true, false, None) => return Err(ReviewError::NoPatchType),
            (true, true, Some(_)) => return Err(ReviewError::NoPatch),
            (true, false, Some("")) => return Err(ReviewError::EmptyPatchType),
            (false, false, _) => return Err(ReviewError::ValidatingPatch),
            (false, true, Some(_)) => return Err(ReviewError::ValidatingPatchType),
            _ => {}
        }
    }
    // The older version has one type of patches and does not say so.
    let patch_type = match version {
        ReviewVersion::V1 => patch_type.unwrap_or_default(),
        ReviewVersion::V1beta1 => "JSONPatch",
    };
    let annotations = response.get("auditAnnotations").and_then(Value::as_object);
    let result = response.get("status").filter(|result| !result.is_null());
    Ok(WebhookAnswer {
        allowed: response.bool_at(&["allowed"]).unwrap_or_default(),
        result: result.cloned(),
        patch: (mutating && !patch.is_empty()).then(|| (patch, patch_type.to_owned())),
        annotations: annotations
            .into_iter()
            .flat_map(Map::iter)
            .filter_map(|(key, value)| Some((key.as_str().to_owned(), value.as_str()?.to_owned())))
            .collect(),
        warnings: response
            .items_at(&["warnings"])
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    })
}

/// What the client is told of a webhook's refusal.
pub(super) fn refusal(name: &str, result: Option<&Value>) -> Status {
    let mut status = Status::from_value(result.unwrap_or(&Value::Null));
    // It does refuse, whatever else it says.
    status.code = status.code.clamp(400, 999);
    let denied = format!("admission webhook {} denied the request", quote(name));
    status.message = match (status.message.as_str(), &*status.reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    status
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn answer(response: Value) -> Value {
        value!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "response": (response)
        })
    }

    #[test]
    fn answers_are_refused_that_fit_no_question() {
        // Whether the webhook mutates; what it answers; what is wrong with that.
        let table = [
            (true, value!({}), "webhook response was absent"),
            (
                true,
                answer(value!({"uid": "v"})),
                "expected response.uid=\"u\", got \"v\"",
            ),
            (
                true,
                value!({"response": {"uid": "u"}}),
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
            (
                true,
                value!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1", "response": {"uid": "u"}}),
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1beta1, Kind=AdmissionReview",
            ),
            (
                true,
                answer(value!({"uid": "u", "patch": "W10="})),
                "webhook returned response.patch but not response.patchType",
            ),
            (
                true,
                answer(value!({"uid": "u", "patchType": "JSONPatch"})),
                "webhook returned response.patchType but not response.patch",
            ),
            (
                true,
                answer(value!({"uid": "u", "patch": "W10=", "patchType": ""})),
                "webhook returned invalid response.patchType of \"\"",
            ),
            (
                false,
                answer(value!({"uid": "u", "patch": "W10="})),
                "validating webhook may not return response.patch",
            ),
            (
                false,
                answer(value!({"uid": "u", "patchType": "JSONPatch"})),
                "validating webhook may not return response.patchType",
            ),
        ];
        for (mutating, review, wanted) in table {
            let error = read(ReviewVersion::V1, "u", mutating, &review).expect_err(wanted);
            assert_eq!(error.to_string(), wanted);
        }
    }

    #[test]
    fn an_answer_says_all_that_it_may() {
        let review = answer(value!({
            "uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch",
            "auditAnnotations": {"a": "b"}, "warnings": ["careful"],
            "status": {"message": "m"}
        }));
        let read_one = read(ReviewVersion::V1, "u", true, &review).expect("a good answer");
        assert_eq!(
            read_one,
            WebhookAnswer {
                allowed: true,
                result: Some(value!({"message": "m"})),
                patch: Some((b"[]".to_vec(), "JSONPatch".into())),
                annotations: vec![("a".into(), "b".into())],
                warnings: vec!["careful".into()],
            }
        );
        // The older version is not looked at so closely.
        let old = value!({"response": {"allowed": true, "patch": "W10="}});
        let old = read(ReviewVersion::V1beta1, "u", true, &old).expect("taken");
        assert_eq!(old.patch, Some((b"[]".to_vec(), "JSONPatch".into())));
        let old = value!({"response": {"allowed": true, "patch": "W10="}});
        let old = read(ReviewVersion::V1beta1, "u", false, &old).expect("taken");
        assert_eq!(old.patch, None);
    }

    #[test]
    fn refusals_carry_the_webhook_s_words() {
        let table = [
            (
                None,
                400,
                "admission webhook \"w.x.y\" denied the request without explanation",
            ),
            (
                Some(value!({"message": "no", "code": 409})),
                409,
                "admission webhook \"w.x.y\" denied the request: no",
            ),
            (
                Some(value!({"reason": "Because", "code": 200})),
                400,
                "admission webhook \"w.x.y\" denied the request: Because",
            ),
        ];
        for (result, code, message) in table {
            let status = refusal("w.x.y", result.as_ref());
            assert_eq!((status.code, status.message.as_str()), (code, message));
        }
    }

    #[test]
    fn a_question_is_one_object() {
        let request = value!({"uid": "", "object": null, "name": "n"});
        let bytes = encode(ReviewVersion::V1beta1, request, "u", b"{\"a\":1}", b"null");
        let review = Value::from_slice(&bytes).expect("JSON");
        assert_eq!(
            review,
            value!({
                "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1",
                "request": {"uid": "u", "name": "n", "object": {"a": 1}, "oldObject": null}
            })
        );
    }
}
