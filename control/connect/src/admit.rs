//! Admission of connections: what policies and webhooks see of them are the options
//! of the query, as an object (`PodExecOptions` and the like).

use std::sync::Arc;

use control_admission::Operation;
use control_types::meta;
use control_types::registry::Subresource;
use control_types::schema::TypeRef;
use control_types::status::Status;
use control_types::value::Value;

use control_registry::{Context, ServedResource};
use control_request::pairs;
use control_strategy::ObjectSchema;
use control_strategy::decode::ExpectedKind;

/// Lets policies and webhooks look at a connection to the object of the path.
///
/// # Errors
/// What they refuse.
pub async fn admit(context: &Context, served: &Arc<ServedResource>) -> Result<(), Status> {
    let info = &context.info;
    let Some(of) = served.subresource(&info.subresource) else {
        return Ok(());
    };
    let kind = ExpectedKind {
        group: of.group,
        version: of.version,
        kind: of.kind,
        form: ObjectSchema::Typed(of.schema),
    };
    let (version, subresource) = (&served.version, &info.subresource);
    let attributes = context.admission(version, Operation::Connect, kind, subresource);
    let admission = &context.registry.admission;
    if !admission.is_dynamic(&attributes) {
        return Ok(());
    }
    let mut options = options(of, context.query(), &info.rest);
    admission.admit(&attributes, &mut options, None).await?;
    let validated = admission.validate_dynamic(&attributes, Some(&options), None);
    validated.await
}

/// The options of a connection. What does not fit its field is left out: whoever
/// connects reads the query itself.
fn options(of: &Subresource, query: Option<&str>, rest: &str) -> Value {
    let mut options = Value::object();
    let version = meta::join_api_version(of.group, of.version);
    meta::set_type(&mut options, &version, of.kind);
    for field in of.schema.fields() {
        let name = field.name();
        let mut values = pairs(query.unwrap_or_default())
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value);
        let value = match field.type_ref() {
            TypeRef::Bool => values
                .next()
                .map(|value| flag(&value))
                .filter(|set| *set)
                .map(Value::from),
            // The path is what follows the subresource.
            TypeRef::String if name == "path" => {
                Some(Value::from(format!("/{rest}"))).filter(|_| !rest.is_empty())
            }
            TypeRef::String => values
                .next()
                .filter(|value| !value.is_empty())
                .map(Value::from),
            TypeRef::List(item) => {
                let items: Vec<Value> = match item {
                    TypeRef::Int32 | TypeRef::Int64 => values
                        .flat_map(|value| {
                            let numbers = value.split(',').map(str::parse::<i64>);
                            numbers.filter_map(Result::ok).collect::<Vec<_>>()
                        })
                        .map(Value::from)
                        .collect(),
                    _ => values.map(Value::from).collect(),
                };
                Some(Value::from(items))
                    .filter(|list| list.as_array().is_some_and(|l| !l.is_empty()))
            }
            _ => None,
        };
        if let Some(value) = value {
            options.insert(name, value);
        }
    }
    options
}

/// A flag of a query: set unless it says `0` or `false`.
#[must_use]
pub fn flag(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

#[cfg(test)]
mod tests {
    use control_types::{registry, value};

    use super::*;

    fn subresource(plural: &str, name: &str) -> &'static Subresource {
        registry::lookup("", "v1", plural)
            .and_then(|resource| resource.subresource(name))
            .expect("a subresource")
    }

    #[test]
    fn queries_become_the_objects_that_stock_shows() {
        let exec = options(
            subresource("pods", "exec"),
            Some("command=sh&command=-c&container=c&stdin=true&tty=0"),
            "",
        );
        assert_eq!(
            exec,
            value!({
                "kind": "PodExecOptions", "apiVersion": "v1", "stdin": true,
                "container": "c", "command": ["sh", "-c"]
            })
        );
        let forward = options(subresource("pods", "portforward"), Some("ports=80,81"), "");
        assert_eq!(
            forward,
            value!({"kind": "PodPortForwardOptions", "apiVersion": "v1", "ports": [80, 81]})
        );
        let proxy = options(subresource("services", "proxy"), None, "a/b");
        assert_eq!(
            proxy,
            value!({"kind": "ServiceProxyOptions", "apiVersion": "v1", "path": "/a/b"})
        );
    }
}
