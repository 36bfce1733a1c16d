//! Users as reviews carry them.

use control_access::User;
use control_types::value;
use control_types::value::Value;

/// The texts of a list.
pub(crate) fn texts(of: &Value, path: &[&str]) -> Vec<String> {
    let items = of.items_at(path).iter();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A list of texts.
pub(crate) fn list(texts: &[String]) -> Value {
    texts
        .iter()
        .map(|text| Value::from(text.as_str()))
        .collect()
}

/// What else is known of a user.
pub(crate) fn extra(user: &User) -> Value {
    let mut extra = Value::object();
    for (key, values) in &user.extra {
        extra.insert(key.as_str(), list(values));
    }
    extra
}

/// A user as `authentication.k8s.io/v1` has it.
pub(crate) fn user_info(user: &User) -> Value {
    let mut info = value!({ "username": (user.name.as_str()) });
    if !user.uid.is_empty() {
        info.insert("uid", user.uid.as_str());
    }
    info.insert("groups", list(&user.groups));
    if !user.extra.is_empty() {
        info.insert("extra", extra(user));
    }
    info
}

/// Reads a user whose name is in the field `name`.
pub(crate) fn read(of: &Value, name: &str) -> User {
    let text = |field: &str| of.str_at(&[field]).unwrap_or_default().to_owned();
    let extra = of.get("extra").and_then(Value::as_object);
    let extra = extra.into_iter().flat_map(control_types::Map::iter);
    User {
        name: text(name),
        uid: text("uid"),
        groups: texts(of, &["groups"]),
        extra: extra
            .map(|(key, values)| (key.to_string(), texts(values, &[])))
            .collect(),
    }
}
