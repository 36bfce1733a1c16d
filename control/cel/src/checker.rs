//! Checks names and types: finds the type of an expression, or its issues.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::ast::{Comprehension, Expr, Initial, Kind, Literal, Macro};
use crate::env::Env;
use crate::functions;
use crate::issue::{Issue, Issues};
use crate::run::moment;
use crate::types::{Type, TypeBindings};
use crate::{literals, regex};

/// The types and resolved names of an expression and its parts.
pub(crate) struct CheckedExpression {
    pub of: Type,
    /// The types of the parts, by their address in the tree.
    types: HashMap<usize, Type>,
}

impl CheckedExpression {
    /// The type of a part.
    pub fn type_of(&self, part: &Expr) -> Option<&Type> {
        self.types.get(&std::ptr::from_ref(part).addr())
    }

    /// The type of a call's argument; the receiver counts.
    pub fn argument(&self, call: &Expr, place: usize) -> Option<&Type> {
        let Kind::Call {
            target, arguments, ..
        } = &call.kind
        else {
            return None;
        };
        // a receiver that is part of the function's name has no type
        let target = target
            .as_deref()
            .filter(|target| self.type_of(target).is_some());
        let part = target.into_iter().chain(arguments).nth(place)?;
        self.type_of(part)
    }
}

/// The type of `expression` and of all its parts.
pub(crate) fn check(
    source: &str,
    expression: &Expr,
    env: &Env,
) -> Result<CheckedExpression, Issues> {
    let mut checker = Checker {
        env,
        scopes: Vec::new(),
        issues: Vec::new(),
        later: Vec::new(),
        formatted: 0,
        types: HashMap::new(),
    };
    let of = checker.infer(expression);
    if checker.issues.is_empty() {
        checker.issues.append(&mut checker.later);
    }
    if checker.issues.is_empty() {
        Ok(CheckedExpression {
            of: of.settled(),
            types: checker.types,
        })
    } else {
        Err(Issues::new(source, checker.issues))
    }
}

struct Checker<'a> {
    env: &'a Env,
    /// Variables of the macros around.
    scopes: Vec<(String, Type)>,
    issues: Vec<Issue>,
    /// Issues that are reported only if there are no others.
    later: Vec<Issue>,
    /// How many calls of `format` are around.
    formatted: usize,
    types: HashMap<usize, Type>,
}

impl Checker<'_> {
    fn report(&mut self, at: &Expr, message: String) -> Type {
        self.issues.push(Issue {
            offset: Some(at.offset),
            message,
        });
        Type::Error
    }

    fn undeclared(&mut self, at: &Expr, name: &str) -> Type {
        self.report(
            at,
            format!("undeclared reference to '{name}' (in container '')"),
        )
    }

    fn lookup(&self, name: &str) -> Option<Type> {
        if let Some((_, of)) = self.scopes.iter().rev().find(|(known, _)| known == name) {
            return Some(of.clone());
        }
        self.env.lookup(name).cloned().or_else(|| type_name(name))
    }

    fn infer(&mut self, expression: &Expr) -> Type {
        let of = self.infer_new(expression);
        self.types
            .insert(std::ptr::from_ref(expression).addr(), of.clone());
        of
    }

    fn infer_new(&mut self, expression: &Expr) -> Type {
        match &expression.kind {
            Kind::Literal(literal) => literal_type(literal),
            Kind::Ident(name) => match self.lookup(name) {
                Some(of) => of,
                None => self.undeclared(expression, name),
            },
            Kind::Select {
                target,
                field,
                optional,
            } => self.select(expression, target, field, *optional),
            Kind::Has(select) => {
                self.infer(select);
                Type::Bool
            }
            Kind::Call {
                function,
                target,
                arguments,
            } => match target {
                Some(target) => self.method(expression, function, target, arguments),
                None => self.call(expression, function, arguments),
            },
            Kind::List(items) => {
                let types: Vec<Type> = items
                    .iter()
                    .map(|(item, optional)| self.entry(item, *optional))
                    .collect();
                let parts = items.iter().map(|(item, _)| item);
                Type::List(Box::new(self.one_type(parts, types)))
            }
            Kind::Map(entries) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for (key, value, optional) in entries {
                    keys.push(self.infer(key));
                    values.push(self.entry(value, *optional));
                }
                let parts = entries.iter().map(|(key, ..)| key);
                let keys = self.one_type(parts, keys);
                let parts = entries.iter().map(|(_, value, _)| value);
                Type::Map(Box::new(keys), Box::new(self.one_type(parts, values)))
            }
            Kind::Struct { name, fields } => {
                let of = match name.as_str() {
                    "google.protobuf.Duration" => Type::Duration,
                    "google.protobuf.Timestamp" => Type::Timestamp,
                    known if is_wrapper(known) => Type::Dyn,
                    known if self.env.patches && (known == "JSONPatch" || is_object(known)) => {
                        Type::made(known)
                    }
                    other => return self.undeclared(expression, other),
                };
                for field in fields {
                    let given = self.entry(&field.value, field.optional);
                    self.check_field(&of, field, &given);
                }
                of
            }
            Kind::Comprehension(inner) => self.comprehension(expression, inner),
        }
    }

    /// Returns the common type of all parts of a literal. A mismatch is reported only if
    /// there are no other issues, and not for arguments of `format`.
    fn one_type<'e>(&mut self, parts: impl Iterator<Item = &'e Expr>, types: Vec<Type>) -> Type {
        let mut known: Option<&Type> = None;
        for (part, of) in parts.zip(&types) {
            match known {
                None => known = Some(of),
                Some(known) if self.formatted > 0 || equivalent(known, of) => {}
                Some(known) => {
                    let message = format!("expected type '{known}' but found '{of}'");
                    self.tell_later(part, message);
                    break;
                }
            }
        }
        join(types)
    }

    fn tell_later(&mut self, at: &Expr, message: String) {
        self.later.push(Issue {
            offset: Some(at.offset),
            message,
        });
    }

    /// The type of an item of a list or map; optional ones are unwrapped.
    fn entry(&mut self, item: &Expr, optional: bool) -> Type {
        match self.infer(item) {
            Type::Optional(inner) if optional => *inner,
            of => of,
        }
    }

    /// Checks that a value fits the field of a constructed object.
    fn check_field(&mut self, of: &Type, field: &Initial, given: &Type) {
        let Type::Made(of) = of else { return };
        let name = &field.name;
        let message = match made_field(of, name) {
            None => format!("expected type of field '{name}' is '' but provided type is '{given}'"),
            Some(wanted) if !TypeBindings::default().fits(&wanted, given) => format!(
                "expected type of field '{name}' is '{wanted}' but provided type is '{given}'"
            ),
            Some(_) => return,
        };
        self.issues.push(Issue {
            offset: Some(field.offset),
            message,
        });
    }

    fn select(&mut self, at: &Expr, target: &Expr, field: &str, optional: bool) -> Type {
        if let Some(name) = dotted(at)
            && let Some(of) = self.env.lookup(&name).cloned().or_else(|| type_name(&name))
        {
            return of;
        }
        let of = self.infer(target);
        let (of, wrapped) = match of {
            Type::Optional(inner) => (*inner, true),
            of => (of, optional),
        };
        let found = match of {
            Type::Dyn | Type::Param(_) => Type::Dyn,
            // optional fields are distinguished from unknown ones
            Type::Error if optional => Type::Dyn,
            Type::Error => return Type::Error,
            // a library type whose fields are not declared
            Type::Opaque(name) if name.starts_with("kubernetes.") => {
                let message = format!("unexpected failed resolution of '{name}'");
                return self.report(at, message);
            }
            Type::Map(_, value) => *value,
            Type::Object(object) => match object.fields.iter().find(|(name, _)| *name == field) {
                Some((_, of)) => of(),
                None => return self.report(at, format!("undefined field '{field}'")),
            },
            Type::Declared(schema) => match schema.property(field) {
                Some(of) => of.type_of(),
                None => return self.report(at, format!("undefined field '{field}'")),
            },
            Type::Made(of) => match made_field(&of, field) {
                Some(of) => of,
                None => return self.report(at, format!("undefined field '{field}'")),
            },
            Type::Record(fields) => match fields.into_iter().find(|(name, _)| name == field) {
                Some((_, of)) => of,
                None => return self.report(at, format!("undefined field '{field}'")),
            },
            other => {
                let message = format!("type '{other}' does not support field selection");
                return self.report(at, message);
            }
        };
        if wrapped {
            Type::Optional(Box::new(found))
        } else {
            found
        }
    }

    fn method(&mut self, at: &Expr, function: &str, target: &Expr, arguments: &[Expr]) -> Type {
        if self.env.bindings
            && let Some((variable, init, body)) = bind(function, Some(target), arguments)
        {
            return self.binding(variable, init, body);
        }
        // `optional.of(x)`: a function whose name has a dot
        if let Some(name) = dotted(target) {
            let name = format!("{name}.{function}");
            let known = self.env.patches || !name.starts_with("jsonpatch.");
            if known
                && functions::overloads(&name).is_some_and(|all| all.iter().any(|one| !one.method))
            {
                return self.call(at, &name, arguments);
            }
        }
        let of = self.infer(target);
        if let (Type::Optional(inner), "optMap" | "optFlatMap", [variable, value]) =
            (&of, function, arguments)
        {
            return self.optional_map(inner, function, variable, value);
        }
        if let (Type::List(_) | Type::Dyn, "sortBy", [variable, value]) = (&of, function, arguments)
            && let Kind::Ident(name) = &variable.kind
        {
            let item = match &of {
                Type::List(items) => (**items).clone(),
                other => other.clone(),
            };
            self.scopes.push((name.clone(), item));
            let key = self.infer(value);
            self.scopes.pop();
            if !comparable(&key, &key) {
                let types = [of, Type::list(key)];
                return self.no_overload(at, "@sortByAssociatedKeys", true, &types);
            }
            return of;
        }
        let mut types = vec![of];
        self.formatted += usize::from(function == "format");
        types.extend(arguments.iter().map(|argument| self.infer(argument)));
        self.formatted -= usize::from(function == "format");
        if let ("format", Some(text), [argument]) = (function, literals::text(target), arguments)
            && let Kind::List(items) = &argument.kind
        {
            let type_of = |part: &Expr| {
                let at = std::ptr::from_ref(part).addr();
                self.types.get(&at).cloned().unwrap_or(Type::Dyn)
            };
            if let Some((part, why)) = literals::check_format(text, items, &type_of) {
                self.tell_later(part.unwrap_or(at), why);
            }
        }
        self.resolve(at, function, true, &types, arguments)
    }

    fn binding(&mut self, variable: &Expr, init: &Expr, body: &Expr) -> Type {
        let Kind::Ident(name) = &variable.kind else {
            let message = "cel.bind() variable names must be simple identifiers";
            return self.report(variable, message.to_owned());
        };
        let of = self.infer(init);
        self.scopes.push((name.clone(), of));
        let of = self.infer(body);
        self.scopes.pop();
        of
    }

    fn optional_map(
        &mut self,
        inner: &Type,
        function: &str,
        variable: &Expr,
        value: &Expr,
    ) -> Type {
        let Kind::Ident(name) = &variable.kind else {
            return self.report(
                variable,
                format!("{function}() variable name must be a simple identifier"),
            );
        };
        self.scopes.push((name.clone(), inner.clone()));
        let of = self.infer(value);
        self.scopes.pop();
        match of {
            of if function == "optMap" => Type::Optional(Box::new(of)),
            of => of,
        }
    }

    fn call(&mut self, at: &Expr, function: &str, arguments: &[Expr]) -> Type {
        if matches!(function, "_&&_" | "_||_") {
            for argument in arguments {
                let of = self.infer(argument);
                if !TypeBindings::default().fits(&Type::Bool, &of) {
                    let message = format!("expected type 'bool' but found '{of}'");
                    self.report(argument, message);
                }
            }
            return Type::Bool;
        }
        let types: Vec<Type> = arguments.iter().map(|a| self.infer(a)).collect();
        if let ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) = (function, types.as_slice()) {
            if comparable(a, b) {
                return Type::Bool;
            }
            return self.no_overload(at, function, false, &types);
        }
        self.resolve(at, function, false, &types, arguments)
    }

    fn resolve(
        &mut self,
        at: &Expr,
        function: &str,
        method: bool,
        types: &[Type],
        arguments: &[Expr],
    ) -> Type {
        let Some(overloads) = functions::overloads(function) else {
            return self.undeclared(at, function);
        };
        let mut results: Vec<Type> = Vec::new();
        for overload in overloads.iter().filter(|one| one.method == method) {
            let mut bindings = TypeBindings::default();
            if overload.parameters.len() == types.len()
                && overload
                    .parameters
                    .iter()
                    .zip(types)
                    .all(|(wanted, given)| bindings.fits(wanted, given))
            {
                results.push(bindings.apply(&overload.result));
            }
        }
        if results.is_empty() {
            return self.no_overload(at, function, method, types);
        }
        if function == "matches"
            && let Some(last) = arguments.last()
            && let Kind::Literal(Literal::String(pattern)) = &last.kind
            && (!regex::balanced(pattern) || regex::compile(pattern).is_err())
        {
            self.tell_later(last, "invalid matches argument".to_owned());
        }
        if let (Some(constant), [argument]) = (function_of_text(function), arguments)
            && let Kind::Literal(Literal::String(text)) = &argument.kind
            && !constant(text)
        {
            self.tell_later(argument, format!("invalid {function} argument"));
        }
        // several matching overloads with different result types
        if results.len() > 1 && results.iter().any(Type::is_unbound) {
            return Type::Dyn;
        }
        join(results)
    }

    fn no_overload(&mut self, at: &Expr, function: &str, method: bool, types: &[Type]) -> Type {
        if types.contains(&Type::Error) {
            return Type::Error;
        }
        let list = |types: &[Type]| {
            let all: Vec<String> = types.iter().map(ToString::to_string).collect();
            all.join(", ")
        };
        let applied = match types {
            [target, rest @ ..] if method => format!("{target}.({})", list(rest)),
            all => format!("({})", list(all)),
        };
        let message = format!("found no matching overload for '{function}' applied to '{applied}'");
        self.report(at, message)
    }

    fn comprehension(&mut self, at: &Expr, inner: &Comprehension) -> Type {
        let range = self.infer(&inner.range);
        let (key, value) = match &range {
            Type::List(items) => (Type::Int, (**items).clone()),
            Type::Map(keys, values) => ((**keys).clone(), (**values).clone()),
            Type::Dyn | Type::Param(_) => (Type::Dyn, Type::Dyn),
            Type::Error => (Type::Error, Type::Error),
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(&inner.range, message);
                (Type::Error, Type::Error)
            }
        };
        let bound = inner.variables.len();
        match inner.variables.as_slice() {
            [one] => {
                // a single variable runs over items of a list, keys of a map
                let of = if matches!(range, Type::Map(..)) {
                    key.clone()
                } else {
                    value.clone()
                };
                self.scopes.push((one.clone(), of));
            }
            many => {
                for (name, of) in many.iter().zip([&key, &value]) {
                    self.scopes.push((name.clone(), of.clone()));
                }
            }
        }
        let mut last = Type::Dyn;
        let conditions = match inner.of {
            Macro::All | Macro::Exists | Macro::ExistsOne | Macro::Filter => inner.steps.len(),
            Macro::List | Macro::Map | Macro::Entries => inner.steps.len().saturating_sub(1),
        };
        for (i, step) in inner.steps.iter().enumerate() {
            last = self.infer(step);
            let filters = match inner.of {
                Macro::All | Macro::Exists => false,
                Macro::ExistsOne | Macro::Filter => true,
                Macro::List | Macro::Map | Macro::Entries => i + 1 < inner.steps.len(),
            };
            if filters && !TypeBindings::default().fits(&Type::Bool, &last) {
                // a filter is part of a conditional
                let made = match inner.of {
                    Macro::ExistsOne => Type::Int,
                    Macro::Filter => Type::list(value.clone()),
                    Macro::List => match inner.steps.get(i + 1) {
                        Some(next) => Type::list(self.infer(next)),
                        None => Type::Dyn,
                    },
                    _ => Type::Dyn,
                };
                let types = [last.clone(), made.clone(), made];
                self.no_overload(at, "_?_:_", false, &types);
            } else if i < conditions && !TypeBindings::default().fits(&Type::Bool, &last) {
                let message = format!("expected type 'bool' but found '{last}'");
                self.report(step, message);
            }
        }
        self.scopes
            .truncate(self.scopes.len().saturating_sub(bound));
        match inner.of {
            Macro::All | Macro::Exists | Macro::ExistsOne => Type::Bool,
            Macro::List => Type::List(Box::new(last)),
            Macro::Filter => match range {
                Type::Map(keys, _) => Type::List(keys),
                Type::Dyn => Type::list(Type::Dyn),
                other => other,
            },
            Macro::Map => Type::Map(Box::new(key), Box::new(last)),
            Macro::Entries => last,
        }
    }
}

/// Whether two types of items are the same; what nothing is known of is none.
fn equivalent(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Error | Type::Param(_), _) | (_, Type::Error | Type::Param(_)) => true,
        (Type::List(a), Type::List(b))
        | (Type::Optional(a), Type::Optional(b))
        | (Type::Type(a), Type::Type(b)) => equivalent(a, b),
        (Type::Map(a, b), Type::Map(c, d)) => equivalent(a, c) && equivalent(b, d),
        (a, b) => a == b,
    }
}

/// Returns the check whether a literal text can be converted.
fn function_of_text(function: &str) -> Option<fn(&str) -> bool> {
    match function {
        "timestamp" => Some(|text| moment::parse(text).is_some()),
        "duration" => Some(|text| control_types::duration::parse(text).is_some()),
        _ => None,
    }
}

/// Returns whether values can be ordered: of equal ordered types, or numbers of any two
/// types.
fn comparable(a: &Type, b: &Type) -> bool {
    let number = |of: &Type| matches!(of, Type::Int | Type::Uint | Type::Double);
    let ordered = |of: &Type| {
        number(of)
            || of.is_open()
            || matches!(
                of,
                Type::Bool | Type::String | Type::Bytes | Type::Duration | Type::Timestamp
            )
    };
    ordered(a) && ordered(b) && (a.is_open() || b.is_open() || a == b || (number(a) && number(b)))
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// The name of a type, when it can be a value.
pub(crate) fn type_constant(name: &str) -> Option<Cow<'static, str>> {
    type_name(name).map(|_| Cow::Owned(name.to_owned()))
}

/// The types that can be named as values.
fn type_name(name: &str) -> Option<Type> {
    let of = match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::Map(Box::new(Type::Dyn), Box::new(Type::Dyn)),
        "type" => Type::Dyn,
        "optional_type" => Type::Optional(Box::new(Type::Dyn)),
        "google.protobuf.Duration" => Type::Duration,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "net.IP" => Type::Opaque("net.IP"),
        "net.CIDR" => Type::Opaque("net.CIDR"),
        _ => return None,
    };
    Some(Type::Type(Box::new(of)))
}

/// The messages of the language itself whose values are plain ones.
fn is_wrapper(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "Any",
        "BoolValue",
        "BytesValue",
        "DoubleValue",
        "Empty",
        "FieldMask",
        "FloatValue",
        "Int32Value",
        "Int64Value",
        "ListValue",
        "StringValue",
        "Struct",
        "UInt32Value",
        "UInt64Value",
        "Value",
    ];
    name.strip_prefix("google.protobuf.")
        .is_some_and(|name| NAMES.contains(&name))
}

/// Returns the type of a field of a mutation's object; types of objects are only known at
/// run time.
fn made_field(of: &str, field: &str) -> Option<Type> {
    match (of, field) {
        ("JSONPatch", "op" | "path" | "from") => Some(Type::String),
        ("JSONPatch", "value") => Some(Type::Dyn),
        // its type has no name
        ("JSONPatch", _) => None,
        _ => Some(Type::Dyn),
    }
}

/// `Object`, and the types of its parts: `Object.spec`, …
fn is_object(name: &str) -> bool {
    name == "Object" || name.starts_with("Object.")
}

/// The variable, its value and the expression of a `cel.bind`.
pub(crate) fn bind<'e>(
    function: &str,
    target: Option<&Expr>,
    arguments: &'e [Expr],
) -> Option<(&'e Expr, &'e Expr, &'e Expr)> {
    let named = matches!(&target?.kind, Kind::Ident(name) if name == "cel");
    match arguments {
        [variable, init, body] if named && function == "bind" => Some((variable, init, body)),
        _ => None,
    }
}

/// `a.b.c` as one name, if the expression is nothing else.
pub(crate) fn dotted(expression: &Expr) -> Option<String> {
    match &expression.kind {
        Kind::Ident(name) => Some(name.clone()),
        Kind::Select {
            target,
            field,
            optional: false,
        } => Some(format!("{}.{field}", dotted(target)?)),
        _ => None,
    }
}

/// The one type of all, or open when they differ.
fn join(types: Vec<Type>) -> Type {
    // an unspecified type fits everywhere
    let mut all = types.into_iter().filter(|of| !matches!(of, Type::Param(_)));
    let Some(first) = all.next() else {
        return Type::Param('_');
    };
    if all.all(|of| of == first) {
        first
    } else {
        Type::Dyn
    }
}
