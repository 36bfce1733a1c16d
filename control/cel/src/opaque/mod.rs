//! Values of the types that Kubernetes adds to the language.

pub(crate) mod authorizer;
pub(crate) mod format;
pub(crate) mod semver;
pub(crate) mod url;
