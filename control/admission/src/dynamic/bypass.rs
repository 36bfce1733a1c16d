//! A way past policies and webhooks for an operator who stands at the machine.
//!
//! A webhook that is down, or a policy that is wrong, may refuse every request, those
//! among them that would mend it. (Their configurations can always be written; but the
//! Deployment that serves a webhook cannot.) A request with the header [`HEADER`] is
//! not shown to them if whoever sends it is a member of `system:masters` by credentials
//! of its own and connects over a loopback address. The audit log tells of it, and so
//! does a warning. Anybody else is refused rather than heard without it.

use std::net::IpAddr;

use control_access::MASTERS;
use control_types::status::Status;
use http::HeaderMap;

use control_request::RequestContext;
use control_request::peer::ClientAddr;

/// The header that asks for it, with the value `true`.
pub const HEADER: &str = "orlop-bypass-admission";
/// What the audit log is told.
pub const ANNOTATION: &str = "admission.orlop.dev/bypassed";

/// Headers by which one speaks for somebody else.
const OTHERS: [&str; 2] = ["impersonate-user", "x-remote-user"];

/// Whether policies and webhooks are passed by.
///
/// # Errors
/// 400 for other values of the header, 403 for who may not ask for it.
pub fn is_granted(context: &RequestContext) -> Result<bool, Status> {
    let headers = &context.parts.headers;
    if !headers.contains_key(HEADER) {
        return Ok(false);
    }
    let address = context.parts.extensions.get::<ClientAddr>();
    let address = address.map(|address| address.0.ip());
    decide(headers, &context.user.groups, address)?;
    Ok(true)
}

/// Writes into the audit log, the server's own log and the answer that nobody was asked.
pub fn log(context: &RequestContext) {
    let info = &context.info;
    tracing::warn!(
        user = context.user.name,
        verb = info.verb,
        path = info.path,
        "admission policies and webhooks are bypassed"
    );
    context.annotate(ANNOTATION, "policies and webhooks were not asked");
    let warning = "admission policies and webhooks were bypassed";
    context.warnings.extend([warning.to_owned()]);
}

/// The pure part.
fn decide(headers: &HeaderMap, groups: &[String], address: Option<IpAddr>) -> Result<(), Status> {
    let refused = |why: &str| {
        Err(Status::forbidden(
            "",
            "",
            "",
            &format!("the header {HEADER} is {why}"),
        ))
    };
    if headers.get(HEADER).is_some_and(|value| value != "true") {
        return Err(Status::bad_request(format!(
            "the header {HEADER} has no other value than `true`"
        )));
    }
    if !address.is_some_and(|address| address.to_canonical().is_loopback()) {
        return refused("taken over a loopback address only");
    }
    if OTHERS.iter().any(|header| headers.contains_key(*header)) {
        return refused("not taken from who speaks for somebody else");
    }
    if !groups.iter().any(|group| group == MASTERS) {
        return refused(&format!("taken from members of {MASTERS} only"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_an_administrator_at_the_machine_passes() {
        let masters = vec![MASTERS.to_owned()];
        let others = vec!["system:authenticated".to_owned()];
        let plain = || {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_static("true"));
            headers
        };
        let with = |header: &'static str, value: &'static str| {
            let mut headers = plain();
            headers.insert(header, HeaderValue::from_static(value));
            headers
        };
        let local: Option<IpAddr> = Some([127, 0, 0, 1].into());
        let mapped = "::ffff:127.0.0.1".parse().ok();
        let remote: Option<IpAddr> = Some([10, 0, 0, 1].into());
        let table = [
            (plain(), &masters, local, None),
            (plain(), &masters, mapped, None),
            (plain(), &masters, remote, Some(403)),
            (plain(), &masters, None, Some(403)),
            (plain(), &others, local, Some(403)),
            (with("impersonate-user", "root"), &masters, local, Some(403)),
            (with("x-remote-user", "root"), &masters, local, Some(403)),
            (with(HEADER, "yes"), &masters, local, Some(400)),
        ];
        for (at, (headers, groups, address, wanted)) in table.into_iter().enumerate() {
            let code = decide(&headers, groups, address)
                .err()
                .map(|status| status.code);
            assert_eq!(code, wanted, "row {at}");
        }
    }
}
