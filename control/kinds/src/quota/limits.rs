//! Resources that require a covering quota: `limitedResources` in the configuration of
//! the plugin `ResourceQuota`.
//!
//! As in Kubernetes, scopes of all limits are compared with every kind that has scopes,
//! whatever resource the limit names, and a quota covers a scope by its name alone,
//! whatever values it selects.

use control_types::value::Value;

use super::amount::Usage;
use super::tracked::measure;
use crate::tree::Read as _;

/// The resources that require a quota; none unless configured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits(pub Vec<Limit>);

/// One of `limitedResources`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limit {
    /// Group of the resource.
    pub group: String,
    /// Plural of the resource.
    pub plural: String,
    /// Substrings of names: resources whose name contains one require a quota.
    pub contains: Vec<String>,
    /// Scopes (`ScopedResourceSelectorRequirement`): objects in them must be covered.
    pub scopes: Vec<Value>,
}

// === impl Limits ===

impl Limits {
    /// Whether nothing must be covered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names, of those that an object takes something of, that a quota must cover.
    pub(super) fn names(&self, group: &str, plural: &str, takes: &Usage) -> Vec<String> {
        let of = |limit: &&Limit| limit.group == group && limit.plural == plural;
        let mut names: Vec<String> = Vec::new();
        for limit in self.0.iter().filter(of) {
            let limited = |name: &str| limit.contains.iter().any(|part| name.contains(&**part));
            for (name, amount) in takes.iter() {
                if amount.is_positive() && limited(name) {
                    names.push(name.to_owned());
                }
            }
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The scopes that an object is in and that a quota must cover.
    pub(super) fn scopes(&self, group: &str, plural: &str, object: &Value) -> Vec<&Value> {
        let Some(measure) = measure(group, plural) else {
            return Vec::new();
        };
        let all = self.0.iter().flat_map(|limit| &limit.scopes);
        all.filter(|scope| (measure.in_scope)(scope, object))
            .collect()
    }
}

/// Prints scopes as Go prints a list of them.
pub(super) fn show(scopes: &[&Value]) -> String {
    let one = |scope: &&Value| {
        let values: Vec<&str> = scope.items("values").iter().map(Value::as_text).collect();
        format!(
            "{{{} {} [{}]}}",
            scope.text("scopeName"),
            scope.text("operator"),
            values.join(" ")
        )
    };
    let all: Vec<String> = scopes.iter().map(one).collect();
    format!("[{}]", all.join(" "))
}
