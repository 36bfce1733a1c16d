//! The names that an expression may use.

use crate::types::Type;

/// The names that an expression may use.
#[derive(Clone, Debug, Default)]
pub struct Env {
    variables: Vec<(&'static str, Type)>,
    pub(crate) patches: bool,
    pub(crate) bindings: bool,
}

impl Env {
    /// Returns an environment with only the functions of every expression.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            variables: Vec::new(),
            patches: false,
            bindings: false,
        }
    }

    /// The environment with one more variable.
    #[must_use]
    pub fn with(mut self, name: &'static str, of: Type) -> Self {
        self.variables.push((name, of));
        self
    }

    /// Adds the types for mutations: `Object{…}`, `JSONPatch{…}` and
    /// `jsonpatch.escapeKey`.
    #[must_use]
    pub const fn with_patches(mut self) -> Self {
        self.patches = true;
        self
    }

    /// Adds the macro that names parts of an expression: `cel.bind(name, value,
    /// expression)`.
    #[must_use]
    pub const fn with_bindings(mut self) -> Self {
        self.bindings = true;
        self
    }

    pub(crate) fn lookup(&self, name: &str) -> Option<&Type> {
        self.variables
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, of)| of)
    }
}
