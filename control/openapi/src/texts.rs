//! What the API says in words, as generated; inflated when documents are made.

use std::io::Read as _;

use control_types::generated::TEXTS;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value;

/// All texts.
#[derive(Debug, Default, Deserialize)]
pub struct Texts {
    types: FxHashMap<String, TypeTexts>,
    parameters: FxHashMap<String, FxHashMap<String, ParameterText>>,
}

/// What is said of one type.
#[derive(Debug, Default, Deserialize)]
pub struct TypeTexts {
    /// Its description; may be empty.
    #[serde(default, rename = "d")]
    pub description: String,
    /// Descriptions of fields.
    #[serde(default, rename = "f")]
    pub fields: FxHashMap<String, String>,
    /// Values that fields may have, or the items of lists and maps.
    #[serde(default, rename = "e")]
    pub enumerations: FxHashMap<String, Vec<Value>>,
    /// Kinds that it is decoded for.
    #[serde(default, rename = "k")]
    pub kinds: Vec<Gvk>,
    /// `x-kubernetes-unions`; may be null.
    #[serde(default, rename = "u")]
    pub unions: Value,
}

/// Group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Gvk {
    /// Group; empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
}

/// Type and description of a parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ParameterText(
    /// `string`, `integer`, `boolean`
    pub String,
    /// What it does.
    pub String,
);

impl Texts {
    /// The generated texts; empty if the file in the program were damaged, which
    /// a test excludes.
    #[must_use]
    pub fn read() -> Self {
        // A head for people ends with an empty line.
        let head = TEXTS.windows(2).position(|two| two == b"\n\n");
        let packed = head.map_or(&[][..], |at| &TEXTS[at + 2..]);
        let mut plain = Vec::with_capacity(1 << 20);
        if let Err(error) = flate2::read::ZlibDecoder::new(packed).read_to_end(&mut plain) {
            tracing::error!(%error, "the descriptions of the API are damaged");
            return Self::default();
        }
        serde_json::from_slice(&plain).unwrap_or_else(|error| {
            tracing::error!(%error, "the descriptions of the API are damaged");
            Self::default()
        })
    }

    /// The texts of some types alone, and of all parameters.
    #[must_use]
    pub fn of_types(wanted: impl Fn(&str) -> bool) -> Self {
        let mut texts = Self::read();
        texts.types.retain(|name, _| wanted(name));
        texts.types.shrink_to_fit();
        texts
    }

    /// What is said of a type.
    #[must_use]
    pub fn find_type(&self, name: &str) -> Option<&TypeTexts> {
        self.types.get(name)
    }

    /// A parameter of some options.
    #[must_use]
    pub fn parameter(&self, options: &str, name: &str) -> Option<&ParameterText> {
        self.parameters.get(options)?.get(name)
    }

    /// The names of the parameters of some options.
    pub fn parameters(&self, options: &str) -> impl Iterator<Item = &str> {
        self.parameters
            .get(options)
            .into_iter()
            .flat_map(|all| all.keys().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_whole() {
        let texts = Texts::read();
        let container = texts.find_type("io.k8s.api.core.v1.Container").unwrap();
        assert!(
            container
                .description
                .starts_with("A single application container")
        );
        assert_eq!(
            container.enumerations["imagePullPolicy"],
            ["Always", "IfNotPresent", "Never"]
        );
        assert_eq!(
            texts.parameter("ListOptions", "limit").unwrap().0,
            "integer"
        );
        assert!(texts.parameters("PodExecOptions").any(|name| name == "tty"));
        let head = String::from_utf8_lossy(&TEXTS[..256]);
        assert!(head.contains("Apache License"), "{head}");
    }
}
