//! The filter that finds out as whom the request is made.

use control_access::User;
use control_types::status::Status;

use super::passage::Passage;

/// Returns the user that counts.
///
/// # Errors
/// 403 when the caller may not impersonate that one.
pub(super) async fn impersonate(
    passage: &mut Passage<'_>,
    caller: User,
    is_local: bool,
) -> Result<User, Status> {
    let Passage {
        api,
        record,
        info,
        parts,
        ..
    } = passage;
    let other = match api.config.access.impersonate(&caller, parts, info) {
        Some(asked) if !is_local => {
            let step = record.step("impersonation");
            Some(control_tracing::under(step.as_ref(), asked).await?)
        }
        _ => None,
    };
    if let (Some(entry), Some(other)) = (&mut record.audit, &other) {
        entry.impersonated(&other.user, &other.constraint);
    }
    Ok(other.map_or(caller, |other| other.user))
}
