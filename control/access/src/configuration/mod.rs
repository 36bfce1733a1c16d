//! The files that say whom an API server believes, who decides and by which way it
//! reaches others: `AuthenticationConfiguration` and `AuthorizationConfiguration` of
//! `apiserver.config.k8s.io`, `EgressSelectorConfiguration` of `apiserver.k8s.io`.
//! Read and checked here; errors name the fields.

pub mod authentication;
pub mod authorization;
pub mod egress;

use control_types::status::quote;
use control_types::{value, yaml};
use serde::de::DeserializeOwned;

/// Error for an unusable configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// It is no YAML, or has another form than the kind.
    #[error("the configuration cannot be read: {0}")]
    Unreadable(String),
    /// Fields are missing or wrong.
    #[error("{}", together(.0))]
    Invalid(Vec<String>),
}

fn together(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Reads a file of a kind; its versions `v1`, `v1beta1` and `v1alpha1` are alike.
fn read<T: DeserializeOwned>(text: &[u8], kind: &str) -> Result<T, ConfigurationError> {
    let versions = ["v1", "v1beta1", "v1alpha1"];
    read_of(text, kind, "apiserver.config.k8s.io", &versions)
}

/// Reads a file of a kind of `group`, in one of `versions`, which are alike; errors name
/// the first.
fn read_of<T: DeserializeOwned>(
    text: &[u8],
    kind: &str,
    group: &str,
    versions: &[&str],
) -> Result<T, ConfigurationError> {
    let unreadable = |why: String| ConfigurationError::Unreadable(why);
    let document = yaml::read(text).map_err(|error| unreadable(error.to_string()))?;
    let mut tree = document.value;
    let (version, found) = (tree.remove("apiVersion"), tree.remove("kind"));
    let version = version.as_ref().and_then(value::Value::as_str);
    let found = found.as_ref().and_then(value::Value::as_str);
    let right = version
        .and_then(|version| version.split_once('/'))
        .is_some_and(|(of, version)| of == group && versions.contains(&version));
    if !right || found != Some(kind) {
        return Err(unreadable(format!(
            "expected apiVersion {group}/{} and kind {kind}, found {} and {}",
            versions.first().copied().unwrap_or_default(),
            quote(version.unwrap_or_default()),
            quote(found.unwrap_or_default())
        )));
    }
    value::from_value(&tree).map_err(|error| unreadable(error.to_string()))
}

/// Collects validation errors, in the API's words.
#[derive(Debug, Default)]
struct Problems(Vec<String>);

impl Problems {
    fn required(&mut self, path: &str, detail: &str) {
        let more = if detail.is_empty() { "" } else { ": " };
        self.0.push(format!("{path}: Required value{more}{detail}"));
    }

    fn invalid(&mut self, path: &str, value: &str, detail: &str) {
        let value = quote(value);
        self.0
            .push(format!("{path}: Invalid value: {value}: {detail}"));
    }

    fn duplicate(&mut self, path: &str, value: &str) {
        let value = quote(value);
        self.0.push(format!("{path}: Duplicate value: {value}"));
    }

    fn unsupported(&mut self, path: &str, value: &str, known: &[&str]) {
        let known: Vec<String> = known.iter().map(|one| quote(one)).collect();
        let (value, known) = (quote(value), known.join(", "));
        self.0.push(format!(
            "{path}: Unsupported value: {value}: supported values: {known}"
        ));
    }

    fn none(self) -> Result<(), ConfigurationError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(ConfigurationError::Invalid(self.0))
        }
    }
}
