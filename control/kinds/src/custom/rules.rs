//! `x-kubernetes-validations`: CEL rules about values of a schema (KEP-2876).
//!
//! Rules are compiled when the first object is written; until then only their text is
//! kept. All rules of an object share one budget.

use std::sync::{Arc, OnceLock};

use control_cel::{Bindings, Budget, Env, Error, Issues, Program, Schema, Type, Val};
use control_types::structural::ListType;
use control_types::value::{Key, Value};

use super::correlate;
use crate::error::{ErrorKind, Errors, FieldError};
use crate::tree::Read;

/// The rules of a schema and of all below it; there are rules somewhere in it.
#[derive(Debug)]
pub(super) struct SchemaRules {
    schema: Arc<Schema>,
    /// The type as messages name it.
    of: &'static str,
    own: Box<[Rule]>,
    properties: Box<[(Key, SchemaRules)]>,
    additional: Option<Box<SchemaRules>>,
    items: Option<Box<SchemaRules>>,
}

#[derive(Debug)]
struct Rule {
    stated: Value,
    made: OnceLock<CompiledRule>,
}

/// A compiled rule; `Err`: why it is none.
#[derive(Debug)]
struct CompiledRule {
    rule: Result<Program, Issues>,
    message: Option<Program>,
}

/// The state of evaluating all rules.
struct Run<'e> {
    errors: &'e mut Errors,
    budget: Budget,
    ended: bool,
    /// Whether only unchanged values are checked; otherwise only changed ones.
    lenient: bool,
}

impl SchemaRules {
    /// Returns the rules of a schema; `None` if there are none.
    pub(super) fn new(props: &Value, root: bool) -> Option<Self> {
        props.as_object()?;
        let own: Box<[Rule]> = props
            .items("x-kubernetes-validations")
            .iter()
            .map(|stated| Rule {
                stated: stated.clone(),
                made: OnceLock::new(),
            })
            .collect();
        let properties: Box<[(Key, Self)]> = props
            .at("properties")
            .as_object()
            .into_iter()
            .flat_map(control_types::Map::iter)
            .filter_map(|(name, props)| Some((name.clone(), Self::new(props, false)?)))
            .collect();
        let below = |name: &str| Self::new(props.at(name), false).map(Box::new);
        let (additional, items) = (below("additionalProperties"), below("items"));
        let none =
            own.is_empty() && properties.is_empty() && additional.is_none() && items.is_none();
        if none {
            return None;
        }
        Some(Self {
            schema: Schema::read_declaration(props, root)?,
            of: match props.text("type") {
                "object" => "object",
                "array" => "array",
                "string" => "string",
                "integer" => "integer",
                "number" => "number",
                "boolean" => "boolean",
                _ => "",
            },
            own,
            properties,
            additional,
            items,
        })
    }

    /// Evaluates the rules on an object and its former state.
    pub(super) fn check(
        &self,
        structure: &control_types::structural::Schema,
        object: &Value,
        old: Option<&Value>,
        errors: &mut Errors,
    ) {
        let mut run = Run {
            errors,
            budget: Budget::new(Budget::OBJECT),
            ended: false,
            lenient: false,
        };
        self.below(Some(structure), object, old, "", &mut run);
    }

    /// Evaluates the rules on values that an update leaves unchanged: violations are
    /// allowed, and reported as warnings (KEP-4008).
    pub(super) fn let_through(
        &self,
        structure: &control_types::structural::Schema,
        object: &Value,
        old: &Value,
    ) -> Vec<String> {
        let mut errors = Errors::new();
        let mut run = Run {
            errors: &mut errors,
            budget: Budget::new(Budget::OBJECT),
            ended: false,
            lenient: true,
        };
        self.below(Some(structure), object, Some(old), "", &mut run);
        errors.iter().map(ToString::to_string).collect()
    }

    fn below(
        &self,
        structure: Option<&control_types::structural::Schema>,
        value: &Value,
        old: Option<&Value>,
        at: &str,
        run: &mut Run<'_>,
    ) {
        if value.is_null() || run.ended {
            return;
        }
        for rule in &self.own {
            if run.ended {
                return;
            }
            self.evaluate(rule, structure, value, old, at, run);
        }
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter() {
                    let property = self.properties.iter().find(|(name, _)| name == key);
                    let before = old.and_then(|old| old.get(key));
                    if let Some((_, rules)) = property {
                        let below = structure.and_then(|of| of.property(key));
                        let at = joined(at, key);
                        rules.below(below, value, before, &at, run);
                    } else if let Some(rules) = &self.additional {
                        let below = structure.and_then(|of| of.additional_schema());
                        rules.below(
                            below,
                            value,
                            before,
                            &format!("{at}[{}]", key.as_str()),
                            run,
                        );
                    }
                }
            }
            Value::Array(items) => {
                let Some(rules) = &self.items else { return };
                for (i, item) in items.iter().enumerate() {
                    let before = match structure.map(|of| of.list_type()) {
                        Some(ListType::Map(keys)) => {
                            old.and_then(|old| correlate::item(keys, old, item))
                        }
                        _ => None,
                    };
                    let below = structure.and_then(|of| of.items());
                    rules.below(below, item, before, &format!("{at}[{i}]"), run);
                }
            }
            _ => {}
        }
    }

    fn compiled<'r>(&self, rule: &'r Rule) -> &'r CompiledRule {
        rule.made.get_or_init(|| {
            let of = self.schema.type_of();
            let old = if rule.stated.flag("optionalOldSelf") {
                Type::Optional(Box::new(of.clone()))
            } else {
                of.clone()
            };
            let env = Env::new().with("self", of).with("oldSelf", old);
            let message = rule.stated.text("messageExpression");
            CompiledRule {
                rule: control_cel::compile(rule.stated.text("rule"), &env),
                message: (!message.is_empty())
                    .then(|| control_cel::compile(message, &env).ok())
                    .flatten(),
            }
        })
    }

    fn evaluate(
        &self,
        rule: &Rule,
        structure: Option<&control_types::structural::Schema>,
        value: &Value,
        old: Option<&Value>,
        at: &str,
        run: &mut Run<'_>,
    ) {
        let stated = &rule.stated;
        let made = self.compiled(rule);
        let program = match &made.rule {
            Ok(program) => program,
            Err(why) => {
                if !run.lenient {
                    run.told(self, at, format!("rule compile error: {why}"));
                }
                return;
            }
        };
        let optional = stated.flag("optionalOldSelf");
        let transition = program.reads("oldSelf");
        let before = old.filter(|old| !old.is_null());
        if transition && before.is_none() && !optional {
            return;
        }
        let same = !transition
            && before.is_some_and(|before| correlate::is_same(structure, value, before));
        if same != run.lenient {
            return;
        }
        let bindings = match self.bindings(value, before, optional) {
            Ok(bindings) => bindings,
            Err(error) => {
                run.told(
                    self,
                    at,
                    format!("{error} evaluating rule: {}", shown(stated)),
                );
                return;
            }
        };
        match program.evaluate(&bindings, &mut run.budget) {
            Ok(result) if result.as_bool() == Some(true) => {}
            Ok(_) => {
                let message = made.message.as_ref().and_then(|message| {
                    let text = message.evaluate(&bindings, &mut run.budget).ok()?;
                    let text = text.as_str()?.trim().to_owned();
                    (!text.is_empty() && !text.contains('\n')).then_some(text)
                });
                let detail = message.unwrap_or_else(|| match stated.text("message").trim() {
                    "" => format!("failed rule: {}", stated.text("rule").trim()),
                    text => text.to_owned(),
                });
                let path = stated.text("fieldPath");
                let at = match path.strip_prefix('.') {
                    Some(path) => joined(at, path),
                    None => format!("{at}{path}"),
                };
                let whole = matches!(value, Value::Object(_) | Value::Array(_));
                let kind = match stated.text("reason") {
                    "FieldValueForbidden" => ErrorKind::Forbidden,
                    "FieldValueRequired" => ErrorKind::Required,
                    "FieldValueDuplicate" => ErrorKind::Duplicate,
                    _ => ErrorKind::Invalid,
                };
                run.errors.extend([FieldError {
                    kind,
                    field: place(&at),
                    bad_value: (!whole).then(|| value.clone()),
                    detail,
                }]);
            }
            Err(Error::Budget) => {
                run.told(self, at, Error::Budget.to_string());
                run.ended = true;
            }
            Err(Error::CostLimit) => {
                run.told(
                    self,
                    at,
                    format!(
                        "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                        Error::CostLimit,
                        shown(stated)
                    ),
                );
                run.ended = true;
            }
            Err(error @ Error::NoSuchOverload) => run.told(
                self,
                at,
                format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                    shown(stated)
                ),
            ),
            Err(error) => {
                run.told(self, at, format!("{error} evaluating rule: {}", shown(stated)));
            }
        }
    }

    fn bindings<'a>(
        &'a self,
        value: &'a Value,
        old: Option<&'a Value>,
        optional: bool,
    ) -> Result<Bindings<'a>, Error> {
        let bindings = Bindings::new().with("self", self.schema.read(value)?);
        let old = old.map(|old| self.schema.read(old)).transpose()?;
        Ok(match (old, optional) {
            (Some(old), true) => bindings.with("oldSelf", Val::some(old)),
            (None, true) => bindings.with("oldSelf", Val::Optional(None)),
            (Some(old), false) => bindings.with("oldSelf", old),
            (None, false) => bindings,
        })
    }
}

impl Run<'_> {
    /// An error of a rule itself.
    fn told(&mut self, rules: &SchemaRules, at: &str, detail: String) {
        self.errors.extend([FieldError {
            kind: ErrorKind::Invalid,
            field: place(at),
            bad_value: Some(rules.of.into()),
            detail,
        }]);
    }
}

/// A rule as errors show it: its message, or the rule itself.
fn shown(stated: &Value) -> &str {
    match stated.text("message").trim() {
        "" => stated.text("rule").trim(),
        text => text,
    }
}

fn joined(at: &str, name: &str) -> String {
    if at.is_empty() {
        name.to_owned()
    } else {
        format!("{at}.{name}")
    }
}

fn place(at: &str) -> String {
    if at.is_empty() {
        "<nil>".into()
    } else {
        at.to_owned()
    }
}
