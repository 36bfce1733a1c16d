//! What a scope selects (`ScopedResourceSelectorRequirement`).

use control_types::labels::Operator;
use control_types::value::Value;

use crate::tree::Read as _;

/// Kinds without scopes.
pub(super) fn none(_scope: &Value, _object: &Value) -> bool {
    false
}

/// Returns whether a selector matches one of the names, or the absence of names.
pub(super) fn selects(selector: &Value, names: &[&str]) -> bool {
    let values = selector.items("values").iter();
    let values: Vec<&str> = values.map(crate::tree::Read::as_text).collect();
    let operator = Operator::from_name(selector.text("operator")).filter(|it| !it.is_numeric());
    let one = |name: Option<&str>| operator.is_some_and(|it| it.holds(&values, name));
    match names {
        [] => one(None),
        names => names.iter().any(|name| one(Some(name))),
    }
}
