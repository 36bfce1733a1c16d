//! Why a configuration is refused.

/// Why a kubelet configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no YAML or of another shape.
    #[error("the kubelet's configuration cannot be read: {0}")]
    Form(String),
    /// It is another kind of object.
    #[error(
        "the configuration is a `{0}`; write `apiVersion: kubelet.config.k8s.io/v1beta1` and `kind: KubeletConfiguration`"
    )]
    Kind(String),
    /// The API has no such field.
    #[error("strict decoding error: unknown field \"{0}\"")]
    Unknown(String),
    /// A value cannot be.
    #[error("invalid configuration: {field}: `{value}` {why}")]
    Value {
        /// Where.
        field: &'static str,
        /// What.
        value: String,
        /// Why not.
        why: &'static str,
    },
}
