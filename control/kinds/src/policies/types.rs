//! Type checking of a policy's expressions against the types of its objects:
//! `status.typeChecking` of a `ValidatingAdmissionPolicy`.

use std::sync::Arc;

use control_cel::{Schema, Type};
use control_types::value;
use control_types::value::Value;

use crate::rules::expressions::{self, Names, Types};
use crate::tree::Read;

/// The type of an object that a policy is about.
#[derive(Clone, Debug)]
pub struct Subject {
    /// `group/version, Kind=kind`, as warnings begin.
    pub name: String,
    /// The schema of its objects; `None` allows anything.
    pub schema: Option<Arc<Schema>>,
}

/// How many types a rule of a policy is compared with.
pub const MOST_TYPES: usize = 10;

/// The `expressionWarnings` of a policy's `spec`. `params`: what its parameters look
/// like, where that is known.
#[must_use]
pub fn warnings(spec: &Value, subjects: &[Subject], params: Option<&Arc<Schema>>) -> Vec<Value> {
    let params_type = params.map_or(Type::Dyn, Schema::type_of);
    let all: Vec<(&str, Names)> = subjects
        .iter()
        .map(|subject| {
            let object = subject.schema.as_ref().map_or(Type::Dyn, Schema::type_of);
            let mut names = Names {
                params: spec.has("paramKind"),
                authorizer: true,
                variables: Some(Vec::new()),
                types: Some(Types {
                    object,
                    params: params_type.clone(),
                }),
                ..Names::default()
            };
            for variable in spec.items("variables") {
                let of = expressions::type_of(variable.text("expression"), &names);
                names.declare(variable.text("name"), &of.unwrap_or(Type::Dyn));
            }
            (subject.name.as_str(), names)
        })
        .collect();
    let mut found = Vec::new();
    for (i, validation) in spec.items("validations").iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let expression = validation.text(field);
            if expression.is_empty() {
                continue;
            }
            let told: Vec<String> = all
                .iter()
                .filter_map(|(name, names)| {
                    let issues = expressions::type_of(expression, names).err()?;
                    Some(format!("{name}: {issues}\n"))
                })
                .collect();
            if !told.is_empty() {
                let at = format!("spec.validations[{i}].{field}");
                found.push(value!({"fieldRef": (at), "warning": (told.join("\n"))}));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use control_types::schema::TypeId;

    use super::*;

    fn subject(name: &str, of: &str) -> Subject {
        let of = TypeId::by_name(of).expect("a type of the API");
        Subject {
            name: name.into(),
            schema: Schema::of_type(of),
        }
    }

    fn told(expressions: &[&str], subjects: &[Subject]) -> Vec<Option<String>> {
        let validations: Vec<Value> = expressions
            .iter()
            .map(|text| value!({"expression": (*text)}))
            .collect();
        let spec = value!({
            "variables": [{"name": "v", "expression": "object.spec.containers"}],
            "validations": (Value::Array(validations))
        });
        let found = warnings(&spec, subjects, None);
        (0..expressions.len())
            .map(|i| {
                let at = format!("spec.validations[{i}].expression");
                let warning = found.iter().find(|one| one.text("fieldRef") == at)?;
                Some(warning.text("warning").to_owned())
            })
            .collect()
    }

    /// As a stock controller told them (1.36.3).
    #[test]
    fn expressions_are_compared_with_the_types_of_the_api() {
        let pod = [subject("/v1, Kind=Pod", "io.k8s.api.core.v1.Pod")];
        for (expression, wrong) in [
            ("object.spec.foo == 1", Some("1:12: undefined field 'foo'")),
            // quantities are of no one type, and so of none
            (
                "object.spec.containers[0].resources.limits['memory'] == 1",
                Some("1:36: undefined field 'limits'"),
            ),
            (
                "object.spec.containers[0].ports[0].hostPort == 'a'",
                Some("1:45: found no matching overload for '_==_' applied to '(int, string)'"),
            ),
            (
                "object.spec.containers[0].livenessProbe.httpGet.port == 'a'",
                None,
            ),
            (
                "object.metadata.creationTimestamp == 'a'",
                Some(
                    "1:35: found no matching overload for '_==_' applied to '(timestamp, string)'",
                ),
            ),
            (
                "object.metadata.managedFields[0].fieldsV1.x == 1",
                Some("1:42: undefined field 'x'"),
            ),
            ("has(object.spec.foo)", Some("1:4: undefined field 'foo'")),
            (
                "object.spec.nodeSelector['a'] == 1",
                Some("1:31: found no matching overload for '_==_' applied to '(string, int)'"),
            ),
            (
                "variables.v == 'a'",
                Some(
                    "1:13: found no matching overload for '_==_' applied to '(list(dyn), string)'",
                ),
            ),
            (
                "object.metadata.namespace == 1",
                Some("1:27: found no matching overload for '_==_' applied to '(string, int)'"),
            ),
            (
                "authorizer.requestResource.check('a').allowed()",
                Some("1:11: unexpected failed resolution of 'kubernetes.authorization.Authorizer'"),
            ),
            ("object.metadata.labels.all(k, k != '')", None),
        ] {
            let found = told(&[expression], &pod).remove(0);
            match (&found, wrong) {
                (None, None) => {}
                (Some(found), Some(wrong)) => {
                    let wanted = format!("/v1, Kind=Pod: ERROR: <input>:{wrong}\n | ");
                    assert!(found.starts_with(&wanted), "{expression}: {found}");
                    assert!(found.ends_with("^\n"), "{found:?}");
                }
                _ => panic!("{expression}: {found:?}"),
            }
        }
    }

    #[test]
    fn every_type_speaks_for_itself() {
        let both = [
            subject("/v1, Kind=ConfigMap", "io.k8s.api.core.v1.ConfigMap"),
            subject("/v1, Kind=Secret", "io.k8s.api.core.v1.Secret"),
        ];
        let found = told(&["object.binaryData.a == 'x'"], &both).remove(0);
        assert_eq!(
            found.as_deref(),
            Some(
                "/v1, Kind=ConfigMap: ERROR: <input>:1:21: found no matching overload for '_==_' applied to '(bytes, string)'\n | object.binaryData.a == 'x'\n | ....................^\n\n/v1, Kind=Secret: ERROR: <input>:1:7: undefined field 'binaryData'\n | object.binaryData.a == 'x'\n | ......^\n"
            )
        );
    }
}
