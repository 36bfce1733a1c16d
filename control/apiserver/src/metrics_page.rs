//! The pages of metrics.

use control_metrics::{Format, Page};
use http::header::ACCEPT;
use http::{HeaderMap, Response};

use crate::api::Api;
use crate::metrics::write_version;
use control_registry::reply;
use control_request::body::Body;
use control_serving::process;

/// The page that Prometheus reads.
pub(crate) async fn metrics_page(api: &Api, headers: &HeaderMap) -> Response<Body> {
    let size = api.store().size().await;
    let form = form(headers);
    let mut page = Page::new(form);
    match api.metrics.open_metrics() {
        Ok(text) => page.open_metrics(&text),
        Err(_) => return reply::text(500, "metrics cannot be written"),
    }
    if let Some(more) = api.config.chain.more_metrics {
        let mut text = String::new();
        more(&mut text);
        page.open_metrics(&text);
    }
    let mut tasks = String::new();
    api.supervisor.write_metrics(&mut tasks);
    page.open_metrics(&tasks);
    api.metrics.requests.write(&api.counts, &mut page);
    let decided = api.config.access.decided();
    api.metrics.access.write(&decided, &mut page);
    api.admission_metrics.durations.write(&mut page);
    api.config.chain.gates.write(&mut page);
    api.config.egress.write(&mut page);
    if let Some(tracer) = &api.config.chain.tracer {
        tracer.write(&mut page);
    }
    api.storage.write_metrics(size, &mut page);
    api.allocators.write(&mut page);
    api.aggregator.write_metrics(&mut page);
    process::write(&mut page);
    write_version(&mut page);
    api.fairness.write_metrics(&mut page);
    if let Some(audit) = &api.config.chain.audit {
        audit.write(&mut page);
    }
    reply::bytes(200, form.media_type(), page.finish())
}

/// The page by which it is judged how well the server does.
pub(crate) fn slis_page(api: &Api, headers: &HeaderMap) -> Response<Body> {
    let form = form(headers);
    let mut page = Page::new(form);
    api.metrics.health.write(&mut page);
    process::write_start(&mut page);
    reply::bytes(200, form.media_type(), page.finish())
}

/// In which form Prometheus wants a page.
fn form(headers: &HeaderMap) -> Format {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    Format::accepted_by(accept.unwrap_or_default())
}
