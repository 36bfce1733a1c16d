//! Selects the objects of a kind that a quota counts.

use control_types::value::Value;

use super::tracked::measure;
use crate::tree::Read as _;

/// Whether an object is in all scopes of a quota. Without any it always is; kinds
/// that know no scopes are in none.
pub(super) fn matches(quota: &Value, group: &str, plural: &str, object: &Value) -> bool {
    all(quota).all(|scope| is_in(&scope, group, plural, object))
}

/// The names of the scopes of a quota that an object is in.
pub(super) fn met(quota: &Value, group: &str, plural: &str, object: &Value) -> Vec<String> {
    all(quota)
        .filter(|scope| is_in(scope, group, plural, object))
        .map(|scope| scope.text("scopeName").to_owned())
        .collect()
}

fn is_in(scope: &Value, group: &str, plural: &str, object: &Value) -> bool {
    measure(group, plural).is_some_and(|measure| (measure.in_scope)(scope, object))
}

/// All scopes of a quota in their long form.
fn all(quota: &Value) -> impl Iterator<Item = Value> + '_ {
    let spec = quota.at("spec");
    let named = spec.items("scopes").iter().map(|scope| {
        let mut selector = Value::object();
        selector.insert("scopeName", scope.as_text());
        selector.insert("operator", "Exists");
        selector
    });
    let selected = spec.at("scopeSelector").items("matchExpressions");
    named.chain(selected.iter().cloned())
}
