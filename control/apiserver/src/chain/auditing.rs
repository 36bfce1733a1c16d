//! The filter that writes down what is asked, and what the audit log is told of the answer.

use control_access::User;
use control_request::body::{self, Body};
use control_request::negotiate::Format;
use control_types::status::Status;
use http::Response;
use http::header::ACCEPT_ENCODING;

use super::finish;
use super::passage::Passage;
use control_registry::reply;

/// How large a Status may be that is looked into for the audit log.
const STATUS: usize = 64 * 1024;

/// Begins the audit log's entry of a request, if there is to be one.
pub(super) fn begin(passage: &mut Passage<'_>, user: Option<&User>) {
    let record = &mut *passage.record;
    let (Some(audit), Some(id)) = (&passage.api.config.chain.audit, &record.id) else {
        return;
    };
    record.audit = audit.begin(&control_audit::AuditedRequest {
        info: passage.info,
        parts: &passage.parts,
        user,
        id,
        received: jiff::Timestamp::now(),
        annotations: &record.annotations,
    });
}

/// Writes down what is asked.
///
/// # Errors
/// 500 when it must be written and cannot be; 4xx when the body cannot be read.
pub(super) async fn write_request(passage: &mut Passage<'_>, caller: &User) -> Result<(), Status> {
    begin(passage, Some(caller));
    let Passage {
        record,
        info,
        parts,
        body,
        time,
        ..
    } = passage;
    if let Some(traced) = &mut record.traced
        && !traced.set_user(caller)
    {
        record.traced = None;
    }
    let Some(entry) = &mut record.audit else {
        return Ok(());
    };
    if !entry.reach(control_audit::Stage::RequestReceived).await {
        return Err(Status::internal("failed to store audit event"));
    }
    if entry.wants_response() {
        // Its object is to be read before it is packed.
        parts.headers.remove(ACCEPT_ENCODING);
    }
    let whole = entry.wants_request();
    if (whole || entry.wants_name()) && time.is_some() && !info.is_read_only() {
        let sent = std::mem::replace(body, body::empty());
        let bytes = control_strategy::decode::read(sent).await?;
        match info.verb {
            "delete" | "deletecollection" => entry.deletion(&parts.headers, &bytes),
            _ if whole => entry.request(&parts.headers, &bytes),
            _ => entry.name(&parts.headers, &bytes),
        }
        *body = body::full(bytes);
    }
    Ok(())
}

/// Tells the audit log of an answer, now and when it ends.
pub(super) async fn write_answer(
    mut entry: control_audit::Entry,
    response: Response<Body>,
    failure: Option<&Status>,
    panicked: bool,
    (is_long, deletes): (bool, bool),
) -> Response<Body> {
    let code = response.status().as_u16();
    if code != 401 || failure.is_none() {
        entry.answered(code, failure);
    } else {
        // Who it was is not known, and how he tried was told already; the answer
        // is the whole of it.
        entry.reach(control_audit::Stage::ResponseStarted).await;
        return response;
    }
    if panicked {
        entry.reach(control_audit::Stage::Panic).await;
        return response;
    }
    if is_long {
        entry.reach(control_audit::Stage::ResponseStarted).await;
        let last = control_audit::LastStage::new(entry);
        return response.map(|body| finish::until(body, last));
    }
    // What was deleted stands in a Status, which is written at any level.
    let deleted = deletes && failure.is_none();
    let response = if entry.wants_response() || deleted {
        let (head, body) = response.into_parts();
        match http_body_util::BodyExt::collect(body).await {
            Ok(all) => {
                let bytes = all.to_bytes();
                if entry.wants_response() {
                    entry.response(&head.headers, &bytes);
                }
                if deleted && bytes.len() <= STATUS {
                    entry.deleted(&head.headers, &bytes);
                }
                Response::from_parts(head, body::full(bytes))
            }
            Err(error) => {
                let status = Status::internal(error);
                reply::failure(&status, Format::default())
            }
        }
    } else {
        response
    };
    entry.reach(control_audit::Stage::ResponseComplete).await;
    response
}
