//! `--tracing-config-file`: kube-apiserver's `TracingConfiguration`.

use std::path::{Path, PathBuf};

use control_types::{value, yaml};
use serde::Deserialize;

/// Where spans go, and of how many requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The collector: `host:port`, or `unix:///path`.
    pub endpoint: String,
    /// Of a million requests that nobody else traces.
    pub rate: u32,
}

/// Why requests cannot be traced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the tracing configuration `{}`", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// What it says cannot be.
    #[error("the tracing configuration cannot be used: {0}")]
    Wrong(String),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    endpoint: Option<String>,
    sampling_rate_per_million: Option<i64>,
}

/// Where a collector usually is.
const ENDPOINT: &str = "localhost:4317";
const VERSIONS: [&str; 3] = [
    "apiserver.config.k8s.io/v1",
    "apiserver.config.k8s.io/v1beta1",
    "apiserver.config.k8s.io/v1alpha1",
];

// === impl Config ===

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = std::fs::read(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&bytes)
    }

    /// Reads YAML or JSON.
    ///
    /// # Errors
    /// [`Error::Wrong`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let document = yaml::read(bytes).map_err(|error| Error::Wrong(error.to_string()))?;
        let file: File =
            value::from_value(&document.value).map_err(|error| Error::Wrong(error.to_string()))?;
        if file.kind != "TracingConfiguration" || !VERSIONS.contains(&&*file.api_version) {
            return Err(Error::Wrong(format!(
                "it is a `{}` of `{}`, and must be a `TracingConfiguration` of `{}`",
                file.kind, file.api_version, VERSIONS[0]
            )));
        }
        let rate = file.sampling_rate_per_million.unwrap_or_default();
        let rate = u32::try_from(rate).ok().filter(|rate| *rate <= 1_000_000);
        let rate = rate.ok_or_else(|| {
            Error::Wrong("samplingRatePerMillion must lie between 0 and 1000000".into())
        })?;
        Ok(Self {
            endpoint: file.endpoint.unwrap_or_else(|| ENDPOINT.to_owned()),
            rate,
        })
    }
}
