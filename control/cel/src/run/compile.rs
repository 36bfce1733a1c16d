//! Compiles the checked tree to a program: names become slots, constants are folded where
//! cel-go folds them, calls get their function and cost.

use std::collections::HashMap;

use super::convert;
use super::cost::Rule;
use super::error::Error;
use super::library;
use super::meter::Meter;
use super::node::{Base, Call, CallTarget, Const, Fold, Node, Step};
use crate::ast::{Comprehension, Expr, Kind, Literal};
use crate::checker::{CheckedExpression, bind, dotted, type_constant};
use crate::env::Env;
use crate::functions;
use crate::regex;
use crate::types::Type;

/// A compiled expression and the variables that it reads.
pub(crate) struct CompiledNode {
    pub root: Node,
    pub variables: Vec<String>,
}

/// Compiles an expression.
///
/// # Errors
/// When a constant cannot be converted as the expression wants.
pub(crate) fn compile(
    expression: &Expr,
    env: &Env,
    checked: &CheckedExpression,
) -> Result<CompiledNode> {
    let mut compiler = Compiler {
        env,
        checked,
        scopes: Vec::new(),
        variables: Vec::new(),
        indexes: HashMap::new(),
    };
    let root = compiler.node(expression)?;
    Ok(CompiledNode {
        root,
        variables: compiler.variables,
    })
}

struct Compiler<'a> {
    env: &'a Env,
    checked: &'a CheckedExpression,
    /// Variables of the macros around; their place is their slot.
    scopes: Vec<String>,
    variables: Vec<String>,
    indexes: HashMap<String, usize>,
}

type Result<T> = std::result::Result<T, Error>;

impl Compiler<'_> {
    fn node(&mut self, expression: &Expr) -> Result<Node> {
        match &expression.kind {
            Kind::Literal(literal) => Ok(Node::Const(constant(literal))),
            Kind::Ident(name) => Ok(self.ident(name)),
            Kind::Select { .. } => self.select(expression, false),
            Kind::Has(select) => self.select(select, true),
            Kind::Call {
                function,
                target,
                arguments,
            } => self.call(expression, function, target.as_deref(), arguments),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { name, fields } => {
                let fields = fields
                    .iter()
                    .map(|one| {
                        Ok((
                            one.name.as_str().into(),
                            self.node(&one.value)?,
                            one.optional,
                        ))
                    })
                    .collect::<Result<_>>()?;
                Ok(Node::Made(name.as_str().into(), fields))
            }
            Kind::Comprehension(inner) => self.fold(inner),
        }
    }

    fn slot(&self, name: &str) -> Option<usize> {
        self.scopes.iter().rposition(|known| known == name)
    }

    fn variable(&mut self, name: &str) -> usize {
        if let Some(index) = self.indexes.get(name) {
            return *index;
        }
        let index = self.variables.len();
        self.variables.push(name.to_owned());
        self.indexes.insert(name.to_owned(), index);
        index
    }

    fn path(base: Base, steps: Vec<Step>) -> Node {
        Node::Path {
            base,
            steps: steps.into(),
            charged: true,
            test: false,
        }
    }

    fn ident(&mut self, name: &str) -> Node {
        if let Some(slot) = self.slot(name) {
            return Self::path(Base::Slot(slot), Vec::new());
        }
        if self.env.lookup(name).is_none()
            && let Some(constant) = type_constant(name)
        {
            return Node::Const(Const::Type(constant));
        }
        Self::path(Base::Var(self.variable(name)), Vec::new())
    }

    /// `a.b.c` as the name of a type or a variable.
    fn qualified(&mut self, expression: &Expr) -> Option<Node> {
        let name = dotted(expression)?;
        let first = name.split('.').next().unwrap_or("");
        if self.slot(first).is_some() {
            return None;
        }
        if self.env.lookup(&name).is_some() {
            return Some(Self::path(Base::Var(self.variable(&name)), Vec::new()));
        }
        type_constant(&name).map(|name| Node::Const(Const::Type(name)))
    }

    fn select(&mut self, expression: &Expr, test: bool) -> Result<Node> {
        if !test && let Some(node) = self.qualified(expression) {
            return Ok(node);
        }
        let Kind::Select {
            target,
            field,
            optional,
        } = &expression.kind
        else {
            return self.node(expression);
        };
        let target = self.node(target)?;
        let step = Step {
            by: CallTarget::Field(field.trim_matches('`').into()),
            optional: *optional,
        };
        Ok(extend(target, step, test))
    }

    fn list(&mut self, items: &[(Expr, bool)]) -> Result<Node> {
        let items: Vec<(Node, bool)> = items
            .iter()
            .map(|(item, optional)| Ok((self.node(item)?, *optional)))
            .collect::<Result<_>>()?;
        let constants: Option<Vec<Const>> = items
            .iter()
            .map(|(item, optional)| match item {
                Node::Const(item) if !optional => Some(item.clone()),
                _ => None,
            })
            .collect();
        Ok(match constants {
            Some(constants) => Node::Const(Const::List(constants.into())),
            None => Node::List(items.into()),
        })
    }

    fn map(&mut self, entries: &[(Expr, Expr, bool)]) -> Result<Node> {
        let entries: Vec<(Node, Node, bool)> = entries
            .iter()
            .map(|(key, value, optional)| Ok((self.node(key)?, self.node(value)?, *optional)))
            .collect::<Result<_>>()?;
        let constants: Option<Vec<(Const, Const)>> = entries
            .iter()
            .map(|entry| match entry {
                (Node::Const(key), Node::Const(value), false) => Some((key.clone(), value.clone())),
                _ => None,
            })
            .collect();
        Ok(match constants {
            Some(constants) => Node::Const(Const::Map(constants.into())),
            None => Node::Map(entries.into()),
        })
    }

    fn all(&mut self, expressions: &[Expr]) -> Result<Vec<Node>> {
        expressions.iter().map(|one| self.node(one)).collect()
    }

    fn call(
        &mut self,
        at: &Expr,
        function: &str,
        target: Option<&Expr>,
        arguments: &[Expr],
    ) -> Result<Node> {
        match (function, target, arguments) {
            ("_&&_", None, terms) => return Ok(Node::And(self.all(terms)?.into())),
            ("_||_", None, terms) => return Ok(Node::Or(self.all(terms)?.into())),
            ("_?_:_", None, [condition, yes, no]) => {
                let parts = [
                    self.node(condition)?,
                    uncharged(self.node(yes)?),
                    uncharged(self.node(no)?),
                ];
                return Ok(Node::If(Box::new(parts)));
            }
            ("_[_]" | "_[?_]", None, [target, index]) => {
                let target = self.node(target)?;
                let by = match self.node(index)? {
                    Node::Const(index) => CallTarget::Const(index),
                    index => CallTarget::Node(uncharged(index)),
                };
                let optional = function == "_[?_]";
                return Ok(extend(target, Step { by, optional }, false));
            }
            ("@in", None, [item, list]) => {
                let (item, list) = (self.node(item)?, self.node(list)?);
                return Ok(self.within(at, item, list));
            }
            ("or" | "orValue", Some(target), [other]) => {
                let parts = [self.node(target)?, self.node(other)?];
                return Ok(Node::OrElse(Box::new(parts), function == "orValue"));
            }
            ("optMap" | "optFlatMap" | "sortBy", Some(target), [variable, value])
                if matches!(&variable.kind, Kind::Ident(_)) =>
            {
                let Kind::Ident(name) = &variable.kind else {
                    return Err(Error::NoSuchOverload);
                };
                let target = self.node(target)?;
                let slot = self.scopes.len();
                self.scopes.push(name.clone());
                let value = self.node(value);
                self.scopes.pop();
                let parts = Box::new([target, value?]);
                return Ok(match function {
                    "sortBy" => Node::SortBy(parts, slot),
                    name => Node::OptMap(parts, slot, name == "optFlatMap"),
                });
            }
            _ => {}
        }
        if let Some((variable, init, body)) = bind(function, target, arguments)
            && let Kind::Ident(name) = &variable.kind
        {
            let init = self.node(init)?;
            let slot = self.scopes.len();
            self.scopes.push(name.clone());
            let body = self.node(body);
            self.scopes.pop();
            return Ok(Node::Bind(Box::new([init, body?]), slot));
        }
        // `optional.of(x)`: a function whose name has a dot
        let namespaced = target
            .and_then(dotted)
            .map(|name| format!("{name}.{function}"))
            .filter(|name| {
                functions::overloads(name).is_some_and(|all| all.iter().any(|one| !one.method))
            });
        let (name, target) = match &namespaced {
            Some(name) => (name.as_str(), None),
            None => (function, target),
        };
        let mut nodes = Vec::with_capacity(arguments.len() + 1);
        for argument in target.into_iter().chain(arguments) {
            nodes.push(self.node(argument)?);
        }
        self.apply(at, name, target.is_some(), nodes)
    }

    fn apply(&mut self, at: &Expr, name: &str, method: bool, arguments: Vec<Node>) -> Result<Node> {
        let native = library::find(name, method).ok_or(Error::NoSuchOverload)?;
        if let (
            "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp"
            | "uint" | "type",
            [Node::Const(value)],
        ) = (name, arguments.as_slice())
        {
            if name == "dyn" {
                return Ok(Node::Const(value.clone()));
            }
            let value = native(&mut Meter::new(u64::MAX), &[value.value()])?;
            if let Some(value) = Const::from_value(&value) {
                return Ok(Node::Const(value));
            }
        }
        let pattern = match (name, arguments.as_slice()) {
            ("matches", [_, Node::Const(Const::Text(pattern))]) => {
                Some(regex::compile(pattern).map_err(|error| Error::failed(error.to_string()))?)
            }
            _ => None,
        };
        Ok(Node::Call(Box::new(Call {
            native,
            arguments: arguments.into(),
            cost: self.cost(at, name, method),
            name: name.into(),
            pattern,
        })))
    }

    fn within(&self, at: &Expr, item: Node, list: Node) -> Node {
        if let Node::Const(Const::List(all)) = &list {
            let simple = all.iter().all(|one| {
                matches!(
                    one,
                    Const::Bool(_)
                        | Const::Int(_)
                        | Const::Uint(_)
                        | Const::Double(_)
                        | Const::Text(_)
                        | Const::Null
                )
            });
            let list = self.checked.argument(at, 1);
            if simple && matches!(list, Some(Type::List(_))) {
                if all.is_empty() {
                    return Node::Const(Const::Bool(false));
                }
                return Node::Within(Box::new(item), all.to_vec().into());
            }
        }
        let cost = match self.checked.argument(at, 1) {
            Some(Type::List(_)) => Rule::Items,
            _ => Rule::Fixed(1),
        };
        Node::Call(Box::new(Call {
            native: library::find("@in", false).unwrap_or(convert::dyn_value),
            arguments: [item, list].into(),
            cost,
            name: "@in".into(),
            pattern: None,
        }))
    }

    /// Returns the cost rule of a call. If the types allow several overloads, some are
    /// charged as if nothing was known about them.
    fn cost(&self, at: &Expr, name: &str, method: bool) -> Rule {
        let is = |place: usize, wanted: &[Type]| {
            self.checked
                .argument(at, place)
                .is_some_and(|of| wanted.contains(of))
        };
        let text = [Type::String, Type::Bytes];
        match name {
            "_==_" => Rule::Equal,
            "_!=_" => Rule::Compare,
            "_<_" | "_<=_" | "_>_" | "_>=_" if is(0, &text) || is(1, &text) => Rule::Compare,
            "_+_" if is(0, &text) || is(1, &text) => Rule::Append,
            "startsWith" | "endsWith" | "strings.quote" | "format" => Rule::Traverse(1),
            "bytes" if is(0, &[Type::String]) => Rule::Traverse(1),
            "string" if is(0, &[Type::Bytes]) => Rule::Traverse(1),
            "matches" if method => Rule::Pattern,
            "contains" => Rule::Contains,
            "check" => Rule::Fixed(350_000),
            "fieldSelector" | "labelSelector" => Rule::Selector,
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Rule::Deep,
            "url"
            | "lowerAscii"
            | "upperAscii"
            | "substring"
            | "trim"
            | "jsonpatch.escapeKey"
            | "cidr"
            | "isIP"
            | "isCIDR"
            | "quantity"
            | "isQuantity"
            | "semver"
            | "isSemver" => Rule::Traverse(1),
            "ip" if !method => Rule::Traverse(1),
            "replace" | "split" | "ip.isCanonical" => Rule::Traverse(2),
            "join" => Rule::Result(2),
            "find" | "findAll" => Rule::Pattern,
            "containsIP" => Rule::Address(is(1, &[Type::String])),
            "containsCIDR" => Rule::Network(is(1, &[Type::String])),
            "validate" => Rule::Format,
            "slice" | "lists.range" | "reverse" => Rule::Allocate,
            "flatten" => Rule::Flatten,
            "distinct" => Rule::SelfCompare,
            "sort" => match self.checked.argument(at, 0) {
                Some(Type::List(items)) if !items.is_open() => Rule::SelfCompare,
                _ => Rule::Fixed(1),
            },
            "sets.contains" | "sets.intersects" => Rule::Sets(1),
            "sets.equivalent" => Rule::Sets(2),
            _ => Rule::Fixed(1),
        }
    }

    fn fold(&mut self, inner: &Comprehension) -> Result<Node> {
        let range = self.node(&inner.range)?;
        let slot = self.scopes.len();
        self.scopes.extend(inner.variables.iter().cloned());
        let steps = self.all(&inner.steps);
        self.scopes.truncate(slot);
        let mut steps = steps?;
        let step = steps.pop().ok_or(Error::NoSuchOverload)?;
        Ok(Node::Fold(Box::new(Fold {
            of: inner.of,
            range,
            two: inner.variables.len() == 2,
            slot,
            filter: steps.pop(),
            step,
        })))
    }
}

/// Extends the path into a value by one step.
fn extend(target: Node, step: Step, test: bool) -> Node {
    match target {
        Node::Path {
            base,
            steps,
            charged,
            test: false,
        } => {
            let mut steps = steps.into_vec();
            steps.push(step);
            Node::Path {
                base,
                steps: steps.into(),
                charged,
                test,
            }
        }
        target => {
            // a condition is not a value: its branches are stepped into
            let charged = !matches!(target, Node::If(_));
            Node::Path {
                base: Base::Node(Box::new(target)),
                steps: [step].into(),
                charged,
                test,
            }
        }
    }
}

/// A path that is not paid for itself.
fn uncharged(node: Node) -> Node {
    match node {
        Node::Path {
            base, steps, test, ..
        } => Node::Path {
            base,
            steps,
            charged: false,
            test,
        },
        node => node,
    }
}

fn constant(literal: &Literal) -> Const {
    match literal {
        Literal::Null => Const::Null,
        Literal::Bool(truth) => Const::Bool(*truth),
        Literal::Int(number) => Const::Int(*number),
        Literal::Uint(number) => Const::Uint(*number),
        Literal::Double(number) => Const::Double(*number),
        Literal::String(text) => Const::Text(text.as_str().into()),
        Literal::Bytes(bytes) => Const::Bytes(bytes.as_slice().into()),
    }
}
