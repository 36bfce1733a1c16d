//! Errors of scales and metrics, in kube-controller-manager's words, since conditions and
//! events show them.

use control_types::labels;

/// Reason why the scale of a target cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScaleError {
    #[error("no matches for kind \"{kind}\" in group \"{group}\"")]
    NoMatch { kind: String, group: String },
    #[error("{}", .0.chain())]
    Client(control_client::Error),
    #[error("{0}")]
    Decode(serde_json::Error),
}

/// Reason why no replicas follow from a metric.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum MetricError {
    #[error("unknown metric source")]
    Source,
    #[error("unable to fetch metrics from {api}: {why}")]
    Unavailable { api: &'static str, why: String },
    #[error("no metrics returned from {0}")]
    Empty(&'static str),
    #[error("no metrics returned")]
    NoMetrics,
    #[error(
        "unable to fetch metrics from custom metrics API: the custom metrics API server returned {0} results when we asked for exactly one"
    )]
    Count(usize),
    #[error("unable to map object to resource: {0}")]
    Mapping(String),
    #[error("{0}")]
    Selector(labels::Error),
    #[error("no pods returned by selector while calculating replica count")]
    NoPods,
    #[error(
        "unable to calculate ready pods: no pods returned by selector while calculating replica count"
    )]
    NoReadyPods,
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NoSamples,
    #[error("no metrics returned matched known pods")]
    NoKnownPods,
    #[error("missing pod-level request for {resource} in Pod {pod}")]
    NoPodRequest { resource: String, pod: String },
    #[error("missing request for {resource} in container {container} of Pod {pod}")]
    NoRequest {
        resource: String,
        container: String,
        pod: String,
    },
    #[error("container {container} not found in Pod {pod}")]
    NoContainer { container: String, pod: String },
    #[error("{0}")]
    NoTarget(&'static str),
    #[error("{what}: {error}")]
    Within { what: String, error: Box<Self> },
    #[error("{what}: {error} on {object}")]
    OnObject {
        what: String,
        error: Box<Self>,
        object: String,
    },
}

impl MetricError {
    /// Prefixes the message with the operation that failed.
    pub(super) fn within(self, what: String) -> Self {
        let error = Box::new(self);
        Self::Within { what, error }
    }
}
