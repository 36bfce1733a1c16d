//! Kubernetes' internal types, which its messages print instead of the published ones:
//! their fields have Go's names, are in another order and are never left out.

use crate::generated::internal::INTERNAL;
use crate::value::{Map, Value};

/// A type that Kubernetes works with inside.
#[derive(Debug)]
pub struct Internal {
    /// `core.PodSpec`
    pub name: &'static str,
    /// Its fields in their order.
    pub fields: &'static [InternalField],
}

/// A field: its name in Go, its name in the published type, and its type. A published
/// name that begins with `^` belongs to the enclosing object.
pub type InternalField = (&'static str, &'static str, FieldType);

/// The type of a field; numbers identify types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// Text; empty if absent.
    Text,
    /// A number; 0 if absent.
    Number,
    /// Yes or no; no where there is nothing.
    Truth,
    /// A quantity; `"0"` if absent.
    Quantity,
    /// Whatever the published type has; null where it has nothing.
    Plain,
    /// The same; `{}` where it has nothing.
    Object,
    /// The object's metadata, inlined among the type's fields.
    Meta,
    /// Another of these types.
    Struct(u16),
    /// The same, or null.
    Pointer(u16),
    /// Many, or null.
    List(u16),
    /// Many by name, or null.
    Map(u16),
    /// The fields of another type, inlined among those of this one.
    Inline(u16),
}

/// A published value of a type as it is inside; one of an unknown type as it is.
#[must_use]
pub fn form(name: &str, value: &Value) -> Value {
    match INTERNAL.binary_search_by(|one| one.name.cmp(name)) {
        Ok(at) if value.as_object().is_some() => {
            let mut out = Map::new();
            fill(&INTERNAL[at], value, &Value::Null, &mut out);
            Value::Object(out)
        }
        _ => value.clone(),
    }
}

fn fill(of: &Internal, value: &Value, around: &Value, out: &mut Map) {
    for (go, json, what) in of.fields {
        let given = match json.strip_prefix('^') {
            Some(json) => around.get(json),
            None => value.get(json),
        };
        let given = given.filter(|given| !matches!(given, Value::Null));
        let member = match *what {
            FieldType::Inline(at) => {
                fill(type_of(at), value, around, out);
                continue;
            }
            FieldType::Meta => {
                for (key, value) in value
                    .get("metadata")
                    .and_then(Value::as_object)
                    .into_iter()
                    .flatten()
                {
                    out.insert(key.clone(), value.clone());
                }
                continue;
            }
            FieldType::Text => given.cloned().unwrap_or_else(|| Value::from("")),
            FieldType::Number => given.cloned().unwrap_or_else(|| Value::from(0)),
            FieldType::Truth => given.cloned().unwrap_or_else(|| Value::from(false)),
            FieldType::Quantity => given.cloned().unwrap_or_else(|| Value::from("0")),
            FieldType::Plain => given.cloned().unwrap_or_default(),
            FieldType::Object => given.cloned().unwrap_or_else(|| Value::Object(Map::new())),
            FieldType::Struct(at) => object(at, given.unwrap_or(&Value::Null), value),
            FieldType::Pointer(at) => given.map_or(Value::Null, |given| object(at, given, value)),
            FieldType::List(at) => match given.and_then(Value::as_array) {
                Some(items) => items.iter().map(|item| object(at, item, value)).collect(),
                None => Value::Null,
            },
            FieldType::Map(at) => match given.and_then(Value::as_object) {
                Some(map) => {
                    let mut inner = Map::new();
                    for (key, item) in map {
                        inner.insert(key.clone(), object(at, item, value));
                    }
                    Value::Object(inner)
                }
                None => Value::Null,
            },
        };
        out.insert(*go, member);
    }
}

fn object(at: u16, value: &Value, around: &Value) -> Value {
    let mut out = Map::new();
    fill(type_of(at), value, around, &mut out);
    Value::Object(out)
}

fn type_of(at: u16) -> &'static Internal {
    &INTERNAL[usize::from(at)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn types_stand_in_the_order_of_their_names() {
        assert!(INTERNAL.is_sorted_by_key(|one| one.name));
    }

    #[test]
    fn a_small_type_is_shown_whole_and_in_gos_names() {
        let strategy = value!({"type": "Other", "rollingUpdate": {"partition": 1}});
        assert_eq!(
            form("apps.StatefulSetUpdateStrategy", &strategy).to_string(),
            r#"{"Type":"Other","RollingUpdate":{"Partition":1,"MaxUnavailable":null}}"#
        );
        let range = value!({"cidrs": ["10.0.0.0/8"]});
        assert_eq!(
            form("networking.ServiceCIDRSpec", &range).to_string(),
            r#"{"CIDRs":["10.0.0.0/8"]}"#
        );
    }

    #[test]
    fn what_stands_elsewhere_in_the_published_type_is_found() {
        let spec = value!({
            "hostNetwork": true,
            "securityContext": {"runAsUser": 1},
            "volumes": [{"name": "v", "emptyDir": {}}]
        });
        let inside = form("core.PodSpec", &spec);
        assert_eq!(
            inside.path(&["SecurityContext", "HostNetwork"]),
            Some(&true.into())
        );
        assert_eq!(
            inside.path(&["SecurityContext", "RunAsUser"]),
            Some(&1.into())
        );
        assert_eq!(inside.path(&["Containers"]), Some(&Value::Null));
        let volume = &inside.items_at(&["Volumes"])[0];
        assert_eq!(volume.str_at(&["Name"]), Some("v"));
        assert_eq!(volume.path(&["HostPath"]), Some(&Value::Null));
        assert_eq!(volume.str_at(&["EmptyDir", "Medium"]), Some(""));
    }

    #[test]
    fn what_is_no_object_of_a_known_type_stays_as_it_is() {
        assert_eq!(form("core.PodSpec", &Value::Null), Value::Null);
        assert_eq!(form("no.Such", &value!({"a": 1})), value!({"a": 1}));
    }
}
