//! The filter that finds out whether the request may be done.

use std::time::Instant;

use control_access::{Attributes, User};
use control_auth::Access;
use control_types::status::Status;

use super::passage::{Passage, Record};
use control_registry::authorizer::{Verdict, VerdictResult, attributes, decide, denied};

/// Lets pass what the user may do.
///
/// # Errors
/// 403, and 500 when nobody could say.
pub(super) async fn authorize(passage: &mut Passage<'_>, user: &User) -> Result<(), Status> {
    let attributes = attributes(passage.info, user);
    let asked = Instant::now();
    let step = passage.record.step("authorization");
    let access = &*passage.api.config.access;
    let verdict = decide_and_note(access, passage.record, &attributes);
    let verdict = control_tracing::under(step.as_ref(), verdict).await?;
    drop(step);
    let counts = &passage.api.metrics.requests;
    counts.authorized(verdict == Verdict::Allow, asked.elapsed());
    match verdict {
        Verdict::Allow => Ok(()),
        Verdict::Deny(reason) => {
            passage.record.unheard();
            Err(denied(&attributes, &reason))
        }
    }
}

/// Whether a request may be done, and why, if the audit log is to know.
async fn decide_and_note(
    access: &dyn Access,
    record: &Record,
    attributes: &Attributes,
) -> VerdictResult {
    if record.audit.is_none() {
        return decide(access, attributes).await;
    }
    let decision = access.explain(attributes).await;
    if !decision.allowed && decision.error.is_some() {
        // Whether that is a refusal or a failure is not for an explanation to say.
        record
            .annotations
            .add("authorization.k8s.io/reason", "internal error");
        return decide(access, attributes).await;
    }
    let annotations = &record.annotations;
    let (verdict, word) = if decision.allowed {
        (Verdict::Allow, "allow")
    } else {
        (Verdict::Deny(decision.reason.clone()), "forbid")
    };
    annotations.add("authorization.k8s.io/decision", word);
    annotations.add("authorization.k8s.io/reason", decision.reason);
    Ok(verdict)
}
