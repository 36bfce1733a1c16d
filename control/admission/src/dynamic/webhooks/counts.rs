//! What is counted of webhooks, under kube-apiserver's names.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::failure::WebhookFailure;
use super::hook::Hook;
use crate::operation::Operation;

/// Higher codes are counted as this one, so that a broken webhook cannot make ever
/// more series.
const HIGHEST: u16 = 600;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    rejected: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    code: u16,
    rejected: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    error_type: &'static str,
    rejection_code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OpenLabels {
    name: String,
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExclusionLabels {
    name: String,
    kind: &'static str,
    r#type: &'static str,
    operation: &'static str,
}

/// A counter whose name does not end in `_total`: only gauges keep their names.
type Plain = Gauge<u64, AtomicU64>;

/// All that is counted.
#[derive(Debug, Clone)]
pub struct WebhookCounts {
    durations: Family<DurationLabels, Histogram>,
    requests: Family<RequestLabels, Counter>,
    rejections: Family<RejectionLabels, Plain>,
    open: Family<OpenLabels, Plain>,
    excluded: Family<ExclusionLabels, Counter>,
}

/// What became of asking a webhook.
pub(super) type Outcome<'a> = Result<(), &'a WebhookFailure>;

impl WebhookCounts {
    /// Counts that are shown by `registry`.
    #[must_use]
    pub fn registered(registry: &mut Registry) -> Self {
        let all = Self {
            durations: Family::new_with_constructor(|| {
                Histogram::new([0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0])
            }),
            requests: Family::default(),
            rejections: Family::default(),
            open: Family::default(),
            excluded: Family::default(),
        };
        registry.register(
            "apiserver_admission_webhook_admission_duration_seconds",
            "Time that an admission webhook took",
            all.durations.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_request",
            "Requests to admission webhooks by what they answered",
            all.requests.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_rejection_count",
            "Requests that an admission webhook did not let pass",
            all.rejections.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_fail_open_count",
            "Failures of admission webhooks that were ignored",
            all.open.clone(),
        );
        registry.register(
            "apiserver_admission_match_condition_exclusions",
            "Requests that match conditions kept from webhooks and policies",
            all.excluded.clone(),
        );
        all
    }

    /// Counts what became of asking a webhook. `step` is `admit` or `validating`.
    pub(super) fn asked(
        &self,
        hook: &Hook,
        step: &'static str,
        operation: Operation,
        took: Duration,
        outcome: Outcome<'_>,
    ) {
        let name = || hook.name.clone();
        let operation = operation.as_str();
        let (rejected, code, why) = match outcome {
            Ok(()) => (false, 200, None),
            Err(WebhookFailure::Calling { code, .. }) => {
                let rejected = !hook.ignores_failures;
                (rejected, *code, rejected.then_some("calling_webhook_error"))
            }
            Err(WebhookFailure::Rejected(status)) => (true, status.code, Some("no_error")),
            Err(WebhookFailure::Internal(_)) => (true, 0, Some("apiserver_internal_error")),
        };
        let code = code.min(HIGHEST);
        if let Some(error_type) = why {
            let labels = RejectionLabels {
                name: name(),
                r#type: step,
                operation,
                error_type,
                rejection_code: code,
            };
            self.rejections.get_or_create(&labels).inc();
        }
        let rejected = if rejected { "true" } else { "false" };
        let labels = RequestLabels {
            name: name(),
            r#type: step,
            operation,
            code,
            rejected,
        };
        self.requests.get_or_create(&labels).inc();
        let labels = DurationLabels {
            name: name(),
            r#type: step,
            operation,
            rejected,
        };
        let durations = self.durations.get_or_create(&labels);
        durations.observe(took.as_secs_f64());
    }

    /// Counts a failure that was ignored.
    pub(super) fn failed_open(&self, hook: &Hook, step: &'static str) {
        let labels = OpenLabels {
            name: hook.name.clone(),
            r#type: step,
        };
        self.open.get_or_create(&labels).inc();
    }

    /// Counts a request that match conditions kept from a webhook. `step` is `admit`
    /// or `validate`.
    pub(super) fn excluded(&self, hook: &Hook, step: &'static str, operation: Operation) {
        let labels = ExclusionLabels {
            name: hook.name.clone(),
            kind: "webhook",
            r#type: step,
            operation: operation.as_str(),
        };
        self.excluded.get_or_create(&labels).inc();
    }
}
