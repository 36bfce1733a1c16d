//! What is counted of conversions, under kube-apiserver's names.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Why a conversion failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The webhook could not be asked.
    Call,
    /// It did not convert, or its answer cannot be read.
    Malformed,
    /// It did not answer as many objects as it was sent.
    Partial,
    /// It answered other objects.
    Invalid,
}

impl Failure {
    fn as_str(self) -> &'static str {
        match self {
            Self::Call => "conversion_webhook_call_failure",
            Self::Malformed => "conversion_webhook_malformed_response_failure",
            Self::Partial => "conversion_webhook_partial_response_failure",
            Self::Invalid => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConversionLabels {
    result: &'static str,
    failure_type: &'static str,
}

/// All that is counted.
#[derive(Debug, Clone)]
pub struct ConversionCounts {
    requests: Family<ConversionLabels, Counter>,
    durations: Family<ConversionLabels, Histogram>,
}

impl ConversionCounts {
    /// Counts that are shown by `registry`.
    #[must_use]
    pub fn registered(registry: &mut Registry) -> Self {
        let all = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| {
                Histogram::new([
                    0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0,
                    60.0,
                ])
            }),
        };
        registry.register(
            "apiserver_conversion_webhook_request",
            "Requests to conversion webhooks by what became of them",
            all.requests.clone(),
        );
        registry.register(
            "apiserver_conversion_webhook_duration_seconds",
            "Time that conversion webhooks took",
            all.durations.clone(),
        );
        all
    }

    /// Counts a conversion.
    pub fn asked(&self, outcome: Result<(), Failure>, took: Duration) {
        let labels = match outcome {
            Ok(()) => ConversionLabels {
                result: "success",
                failure_type: "",
            },
            Err(failure) => ConversionLabels {
                result: "failure",
                failure_type: failure.as_str(),
            },
        };
        self.requests.get_or_create(&labels).inc();
        let durations = self.durations.get_or_create(&labels);
        durations.observe(took.as_secs_f64());
    }
}
