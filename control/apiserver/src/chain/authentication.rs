//! The filter that finds out who asks.

use std::time::Instant;

use control_access::User;
use control_auth::Notes;
use control_request::peer::PeerCertificates;
use control_types::status::Status;
use http::header::AUTHORIZATION;

use super::auditing;
use super::passage::Passage;

/// Returns who asks, and whether that is a component in the process.
///
/// # Errors
/// 401 for wrong credentials.
pub(super) async fn authenticate(passage: &mut Passage<'_>) -> Result<(User, bool), Status> {
    // In-process components say who they are; the network listener never sets this.
    if let Some(user) = passage.parts.extensions.get::<User>() {
        return Ok((user.clone(), true));
    }
    let Passage {
        api, record, parts, ..
    } = passage;
    let notes = Notes {
        warnings: &record.warnings,
        annotations: &record.annotations,
    };
    let asked = Instant::now();
    let step = record.step("authentication");
    let found = api.config.access.authenticate(parts, notes);
    let found = control_tracing::under(step.as_ref(), found).await;
    drop(step);
    let counts = &api.metrics.requests;
    let shown = parts.headers.contains_key(AUTHORIZATION)
        || parts.extensions.get::<PeerCertificates>().is_some();
    counts.authenticated(found.is_ok(), shown, asked.elapsed());
    match found {
        Ok(user) => {
            api.metrics.access.user(&user.name);
            Ok((user, false))
        }
        Err(status) => {
            auditing::begin(passage, None);
            if let Some(entry) = &mut passage.record.audit {
                entry.refused(status.code, &control_audit::credentials(&passage.parts));
            }
            Err(status)
        }
    }
}
