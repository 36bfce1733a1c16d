//! `x-kubernetes-validations` of a definition (KEP-2876): validation of rules and their
//! estimated costs.
//!
//! Expressions are compiled as they are when objects are checked. Kubernetes keeps two
//! environments, one for new expressions and one for stored ones, so that a server can be
//! downgraded; since 1.34 every library has long been in both, so there is one here.

use std::collections::BTreeMap;
use std::sync::Arc;

use control_cel::{CRD_LIMIT, Env, RULE_LIMIT, Schema, Type, exceeds};
use control_types::value;
use control_types::value::Value;

use crate::error::{ErrorKind, Errors, FieldError, Path};
use crate::tree::Read;

/// The number of most expensive expressions that are reported.
const TOLD: usize = 4;
/// The allowed reasons of a rule.
const REASONS: &[&str] = &[
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Checks the texts of all rules in a schema; their expressions are left to
/// [`expressions`].
pub(crate) fn texts(schema: &Value, at: &Path<'_>, errors: &mut Errors) {
    let all = at.child("x-kubernetes-validations");
    for (i, rule) in schema.items("x-kubernetes-validations").iter().enumerate() {
        text(schema, rule, &all.index(i), errors);
    }
}

fn text(schema: &Value, rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let broken = |text: &str| text.contains(['\n', '\r']);
    let (stated, message) = (rule.text("rule").trim(), rule.text("message"));
    let message_at = at.child("message");
    if stated.is_empty() {
        errors.required(&at.child("rule"), "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(&message_at, message, "must be non-empty if specified");
    } else if broken(message.trim()) {
        errors.invalid(&message_at, message, "must not contain line breaks");
    } else if broken(stated) && message.trim().is_empty() {
        let why = "message must be specified if rule contains line breaks";
        errors.required(&message_at, why);
    }
    let made = rule.text("messageExpression");
    if !made.is_empty() && made.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.required(&at.child("messageExpression"), why);
    }
    if rule.has("reason") && !REASONS.contains(&rule.text("reason")) {
        errors.not_supported(&at.child("reason"), rule.text("reason"), REASONS);
    }
    let path = rule.text("fieldPath");
    let path_at = at.child("fieldPath");
    if path.is_empty() {
        return;
    }
    if path.trim().is_empty() {
        errors.invalid(&path_at, path, "must be non-empty if specified");
    }
    if broken(path) {
        errors.invalid(&path_at, path, "must not contain line breaks");
    }
    if field_path(schema, path).is_none() {
        errors.invalid(&path_at, path, "must be a valid path");
    }
}

/// A `fieldPath` as errors show it, without a dot before it; `None`: it leads to
/// nothing that the schema has.
pub(crate) fn field_path(schema: &Value, path: &str) -> Option<String> {
    let mut out = String::new();
    let mut at = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            // a delimiter in the place of a name is taken for one, and is none
            if end == 0 {
                return None;
            }
            let (word, left) = after.split_at(end);
            name = word.to_owned();
            rest = left;
        } else {
            let after = rest.strip_prefix("['")?;
            let (word, left) = quoted(after)?;
            name = word;
            rest = left.strip_prefix(']')?;
        }
        if at.has("properties") {
            at = at.at("properties").get(&name)?;
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
        } else if at.has("additionalProperties") {
            at = at.at("additionalProperties");
            out.push('[');
            out.push_str(&name);
            out.push(']');
        } else {
            return None;
        }
    }
    Some(out)
}

/// A text up to its closing quote, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '\'' => return Some((out, &text[i + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => out.push('\n'),
                'r' => out.push('\r'),
                't' => out.push('\t'),
                '\\' => out.push('\\'),
                '\'' => out.push('\''),
                _ => return None,
            },
            c => out.push(c),
        }
    }
    None
}

/// Compiles all rules of an otherwise valid schema, and sums up their estimated costs.
/// `unchanged`: the schema was stored before, so the cost of single rules is not limited.
pub(crate) fn expressions(schema: &Value, at: &Path<'_>, unchanged: bool, errors: &mut Errors) {
    let mut walk = RuleWalk {
        errors,
        unchanged,
        total: 0,
        expensive: Vec::new(),
    };
    let place = RulePlace {
        schema,
        resource: true,
        cardinality: Some(1),
        uncorrelated: None,
        declared: None,
    };
    walk.node(place, at);
    if walk.total <= CRD_LIMIT {
        return;
    }
    let (total, expensive) = (walk.total, walk.expensive);
    for (_, path) in expensive {
        errors.extend([FieldError {
            kind: ErrorKind::Forbidden,
            field: path,
            bad_value: None,
            detail: "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema".into(),
        }]);
    }
    let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
    errors.forbidden(at, exceeds(what, total, CRD_LIMIT));
}

struct RuleWalk<'e> {
    errors: &'e mut Errors,
    unchanged: bool,
    total: u64,
    /// The most expensive expressions that cost a hundredth of all that is allowed.
    expensive: Vec<(u64, String)>,
}

/// A schema and its path.
#[derive(Clone)]
struct RulePlace<'a> {
    schema: &'a Value,
    /// Whether it is that of a whole object.
    resource: bool,
    /// The maximum number of its values; `None` if unbounded.
    cardinality: Option<u64>,
    /// The first part around it whose values cannot be found again in an older object.
    uncorrelated: Option<String>,
    /// The schema that expressions see, as far as the context determines it.
    declared: Option<Arc<Schema>>,
}

impl<'a> RulePlace<'a> {
    /// The place of a part. `declared`: what is known of it from here.
    fn below(
        &self,
        schema: &'a Value,
        correlated: bool,
        at: &Path<'_>,
        declared: Option<Arc<Schema>>,
    ) -> Self {
        let own = match self.schema.text("type") {
            "object" if self.schema.has("additionalProperties") => {
                self.schema.int("maxProperties").map(|n| n.max(0))
            }
            "array" => self.schema.int("maxItems").map(|n| n.max(0)),
            _ => Some(1),
        };
        let factor = own.and_then(|own| u64::try_from(own).ok());
        Self {
            schema,
            resource: schema.flag("x-kubernetes-embedded-resource"),
            cardinality: self
                .cardinality
                .zip(factor)
                .map(|(outer, own)| outer.saturating_mul(own)),
            uncorrelated: self
                .uncorrelated
                .clone()
                .or_else(|| (!correlated).then(|| at.to_string())),
            declared,
        }
    }
}

impl RuleWalk<'_> {
    fn node(&mut self, mut place: RulePlace<'_>, at: &Path<'_>) {
        let schema = place.schema;
        let rules = schema.items("x-kubernetes-validations");
        if !rules.is_empty() && place.declared.is_none() {
            place.declared = Schema::read_declaration(schema, place.resource);
        }
        let known = place.declared.as_deref();
        if let additional @ Value::Object(_) = schema.at("additionalProperties") {
            let declared = known.and_then(Schema::items_shared);
            let below = place.below(additional, true, at, declared);
            self.node(below, &at.child("additionalProperties"));
        }
        let properties = at.child("properties");
        // in the order of names; upstream has no defined order
        let ordered: BTreeMap<&str, &Value> = schema.entries("properties").collect();
        for (name, inner) in ordered {
            let declared = known
                .zip(control_cel::escape(name))
                .and_then(|(known, name)| known.property(&name).cloned());
            let below = place.below(inner, true, at, declared);
            self.node(below, &properties.key(name));
        }
        if let items @ Value::Object(_) = schema.at("items") {
            let correlated = schema.text("x-kubernetes-list-type") == "map";
            let declared = known.and_then(Schema::items_shared);
            let below = place.below(items, correlated, at, declared);
            self.node(below, &at.child("items"));
        }
        if rules.is_empty() {
            return;
        }
        let all = at.child("x-kubernetes-validations");
        let Some(declared) = &place.declared else {
            self.errors.add(
                ErrorKind::Internal,
                &all,
                None,
                "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations",
            );
            return;
        };
        for (i, rule) in rules.iter().enumerate() {
            self.rule(rule, declared, &place, &all.index(i));
        }
    }

    fn rule(&mut self, rule: &Value, declared: &Arc<Schema>, place: &RulePlace<'_>, at: &Path<'_>) {
        let rule_at = at.child("rule");
        let of = declared.type_of();
        let old = if rule.flag("optionalOldSelf") {
            Type::Optional(Box::new(of.clone()))
        } else {
            of.clone()
        };
        let env = Env::new().with("self", of).with("oldSelf", old);
        let source = rule.text("rule");
        let mut wrong = None;
        let mut reads_old = false;
        let mut cost = 0;
        match control_cel::compile(source, &env) {
            Err(issues) => wrong = Some(format!("compilation failed: {issues}")),
            Ok(program) if *program.type_of() != Type::Bool => {
                wrong = Some("cel expression must evaluate to a bool".to_owned());
            }
            Ok(program) => {
                reads_old = program.reads("oldSelf");
                let estimated = control_cel::estimate(source, &env, declared);
                cost = estimated.map_or(0, |estimate| estimate.max);
            }
        }
        let compiles = wrong.is_none();
        let times = place
            .cardinality
            .unwrap_or_else(|| declared.most_in_request());
        let cost = cost.saturating_mul(times);
        self.observe("estimated rule cost", cost, &rule_at);
        if let Some(why) = wrong {
            self.errors.invalid(&rule_at, shown(rule), why);
        }
        if compiles {
            self.message(rule, declared, &env, &at.child("messageExpression"));
        }
        if reads_old {
            if let Some(part) = &place.uncorrelated {
                self.errors.invalid(
                    &rule_at,
                    source,
                    format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {part}"
                    ),
                );
            }
        } else if let Some(optional) = rule.truth("optionalOldSelf") {
            self.errors.invalid(
                &at.child("optionalOldSelf"),
                optional,
                "may not be set if oldSelf is not used in rule",
            );
        }
    }

    fn message(&mut self, rule: &Value, declared: &Arc<Schema>, env: &Env, at: &Path<'_>) {
        let source = rule.text("messageExpression");
        if source.is_empty() {
            return;
        }
        match control_cel::compile(source, env) {
            Err(issues) => {
                let why = format!("messageExpression compilation failed: {issues}");
                self.errors.invalid(at, shown(rule), why);
            }
            Ok(program) if *program.type_of() != Type::String => {
                let why = "messageExpression must evaluate to a string";
                self.errors.invalid(at, shown(rule), why);
            }
            Ok(_) => {
                let estimated = control_cel::estimate(source, env, declared);
                let cost = estimated.map_or(0, |estimate| estimate.max);
                self.observe("estimated messageExpression cost", cost, at);
            }
        }
    }

    /// Adds the estimated cost of an expression.
    fn observe(&mut self, what: &str, cost: u64, at: &Path<'_>) {
        if !self.unchanged && cost > RULE_LIMIT {
            self.errors.forbidden(at, exceeds(what, cost, RULE_LIMIT));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= CRD_LIMIT / 100 {
            self.expensive.push((cost, at.to_string()));
            self.expensive
                .sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(TOLD);
        }
    }
}

/// A rule as errors show it: by the names that it has within the server.
fn shown(rule: &Value) -> Value {
    let or_null = |field: &str| rule.get(field).cloned().unwrap_or_default();
    value!({
        "Rule": (rule.text("rule")),
        "Message": (rule.text("message")),
        "MessageExpression": (rule.text("messageExpression")),
        "Reason": (or_null("reason")),
        "FieldPath": (rule.text("fieldPath")),
        "OptionalOldSelf": (or_null("optionalOldSelf"))
    })
}
