//! Estimates the maximum cost of an expression before it runs, from the sizes that the
//! schema allows. The figures are those of cel-go's estimator with the additions of
//! Kubernetes, quirks included: they decide which rules a custom resource may have.

use crate::ast::{Comprehension, Expr, Kind, Literal, Macro};
use crate::checker::{CheckedExpression, bind, dotted};
use crate::functions::{self, Overload};
use crate::schema::Schema;
use crate::types::{Type, TypeBindings};

/// The least and the most of something: a size or a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// At least.
    pub min: u64,
    /// At most; [`u64::MAX`] when nothing bounds it.
    pub max: u64,
}

/// The most that a rule of a custom resource may be estimated to cost.
pub const RULE_LIMIT: u64 = 10_000_000;
/// The most that all rules of one `CustomResourceDefinition` may be.
pub const CRD_LIMIT: u64 = 100_000_000;

/// Returns the message for users when `what` (such as `estimated rule cost`) exceeds its
/// limit.
#[must_use]
pub fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        // never `1.0x`
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

impl Estimate {
    const UNKNOWN: Self = Self {
        min: 0,
        max: u64::MAX,
    };

    const fn fixed(size: u64) -> Self {
        Self {
            min: size,
            max: size,
        }
    }

    const fn add(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    const fn multiply(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    /// Times a factor, rounded up.
    fn times(self, factor: f64) -> Self {
        // from 2^64 on the cast stays at the largest number
        let one = |size: u64| (size as f64 * factor).ceil() as u64;
        Self {
            min: one(self.min),
            max: one(self.max),
        }
    }

    /// A look over text: a tenth.
    fn looked(self) -> Self {
        self.times(0.1)
    }
}

/// The estimates for the items of a list or the entries of a map.
#[derive(Clone, Copy, Debug)]
struct Inner {
    list: bool,
    key: Estimate,
    value: Estimate,
}

/// What is known of a part of an expression.
/// What the loop over nothing costs as which `cel.bind` is written.
const LOOP: u64 = 10;

#[derive(Clone, Debug, Default)]
struct EstimatedPart {
    cost: Option<Estimate>,
    size: Option<Estimate>,
    inner: Option<Inner>,
    /// Its path in the schema: a variable, then fields, `@items`, `@values`, `@keys`.
    path: Vec<String>,
    of: Option<Type>,
    /// A literal number.
    number: Option<i64>,
    /// How large the schema allows the items of a list to be.
    item: Option<Estimate>,
}

impl EstimatedPart {
    fn cost(&self) -> Estimate {
        self.cost.unwrap_or(Estimate::fixed(0))
    }

    fn size(&self) -> Estimate {
        self.size.unwrap_or(Estimate::UNKNOWN)
    }
}

/// Estimates a checked expression whose variables are all declared by `root`.
pub(crate) fn estimate(
    expression: &Expr,
    checked: &CheckedExpression,
    root: Option<&Schema>,
) -> Estimate {
    let mut estimator = Estimator {
        checked,
        root,
        locals: Vec::new(),
    };
    estimator.part(expression).cost()
}

struct Estimator<'a> {
    checked: &'a CheckedExpression,
    root: Option<&'a Schema>,
    locals: Vec<(String, EstimatedPart)>,
}

impl Estimator<'_> {
    /// The size that the schema allows at a path.
    fn declared(&self, path: &[String]) -> Option<Estimate> {
        let (_, steps) = path.split_first()?;
        let mut at = self.root?;
        for (i, step) in steps.iter().enumerate() {
            at = match step.as_str() {
                "@items" | "@values" => at.items()?,
                "@keys" if at.is_map() => {
                    // where nothing bounds keys, that counts as nothing
                    let max = u64::try_from(at.longest_key).unwrap_or(0);
                    return (i + 1 == steps.len()).then_some(Estimate { min: 0, max });
                }
                "@keys" | "@indices" => return None,
                name => match at.property(name) {
                    Some(of) => of,
                    None => at.any_items()?,
                },
            };
        }
        Some(Estimate {
            min: 0,
            max: u64::try_from(at.most()).unwrap_or(0),
        })
    }

    /// Fills in the size of a part, when nothing else told it.
    fn settle(
        &self,
        expression: &Expr,
        mut part: EstimatedPart,
        local: Option<Estimate>,
    ) -> EstimatedPart {
        part.of = self.checked.type_of(expression).cloned().or(part.of);
        if matches!(part.of, Some(Type::List(_))) && !part.path.is_empty() {
            let mut path = part.path.clone();
            path.push("@items".to_owned());
            part.item = self.declared(&path);
        }
        if part.size.is_none() {
            part.size = self
                .declared(&part.path)
                .or_else(|| {
                    part.of
                        .as_ref()
                        .is_some_and(is_scalar)
                        .then_some(Estimate::fixed(1))
                })
                .or(local);
        }
        part
    }

    fn part(&mut self, expression: &Expr) -> EstimatedPart {
        let mut local = None;
        let part = match &expression.kind {
            Kind::Literal(literal) => literal_part(literal),
            Kind::Ident(name) => {
                let known = self.locals.iter().rev().find(|(known, _)| known == name);
                match known {
                    Some((_, known)) => {
                        local = known.size;
                        EstimatedPart {
                            cost: Some(Estimate::fixed(1)),
                            path: known.path.clone(),
                            inner: known.inner,
                            ..EstimatedPart::default()
                        }
                    }
                    None => EstimatedPart {
                        cost: Some(Estimate::fixed(1)),
                        path: vec![name.clone()],
                        ..EstimatedPart::default()
                    },
                }
            }
            Kind::Select {
                target,
                field,
                optional,
            } => self.select(expression, target, field, *optional),
            Kind::Has(select) => match &select.kind {
                Kind::Select { target, .. } => EstimatedPart {
                    cost: Some(self.part(target).cost()),
                    ..EstimatedPart::default()
                },
                _ => EstimatedPart::default(),
            },
            Kind::Call {
                function,
                target,
                arguments,
            } => self.call(expression, function, target.as_deref(), arguments),
            Kind::List(items) => {
                let parts: Vec<EstimatedPart> =
                    items.iter().map(|(item, _)| self.part(item)).collect();
                EstimatedPart {
                    cost: Some(sum(&parts).add(Estimate::fixed(10))),
                    size: Some(Estimate::fixed(items.len() as u64)),
                    inner: Some(Inner {
                        list: true,
                        key: Estimate::fixed(1),
                        value: sizes(&parts),
                    }),
                    ..EstimatedPart::default()
                }
            }
            Kind::Map(entries) => {
                let keys: Vec<EstimatedPart> =
                    entries.iter().map(|(key, ..)| self.part(key)).collect();
                let values: Vec<EstimatedPart> = entries
                    .iter()
                    .map(|(_, value, _)| self.part(value))
                    .collect();
                EstimatedPart {
                    cost: Some(sum(&keys).add(sum(&values)).add(Estimate::fixed(30))),
                    size: Some(Estimate::fixed(entries.len() as u64)),
                    inner: Some(Inner {
                        list: false,
                        key: sizes(&keys),
                        value: sizes(&values),
                    }),
                    ..EstimatedPart::default()
                }
            }
            Kind::Struct { fields, .. } => {
                let parts: Vec<EstimatedPart> =
                    fields.iter().map(|one| self.part(&one.value)).collect();
                EstimatedPart {
                    cost: Some(sum(&parts).add(Estimate::fixed(40))),
                    ..EstimatedPart::default()
                }
            }
            Kind::Comprehension(inner) => self.comprehension(inner),
        };
        self.settle(expression, part, local)
    }

    fn select(&mut self, at: &Expr, target: &Expr, field: &str, optional: bool) -> EstimatedPart {
        if self.checked.type_of(target).is_none() {
            // a name with dots: a type, or one variable
            let name = dotted(at).unwrap_or_default();
            return EstimatedPart {
                cost: Some(Estimate::fixed(1)),
                path: vec![name],
                ..EstimatedPart::default()
            };
        }
        let target = self.part(target);
        if optional {
            return EstimatedPart {
                cost: Some(target.cost().add(Estimate::fixed(1))),
                ..EstimatedPart::default()
            };
        }
        let stepped = matches!(
            target.of,
            Some(
                Type::Map(..)
                    | Type::Object(_)
                    | Type::Declared(_)
                    | Type::Record(_)
                    | Type::Param(_)
            )
        );
        let mut path = target.path.clone();
        path.push(field.to_owned());
        EstimatedPart {
            cost: Some(target.cost().add(Estimate::fixed(u64::from(stepped)))),
            path,
            ..EstimatedPart::default()
        }
    }

    fn call(
        &mut self,
        at: &Expr,
        function: &str,
        target: Option<&Expr>,
        arguments: &[Expr],
    ) -> EstimatedPart {
        let namespaced = target
            .filter(|target| self.checked.type_of(target).is_none())
            .and_then(dotted)
            .map(|name| format!("{name}.{function}"));
        if let ("optMap" | "optFlatMap" | "sortBy", Some(target), [variable, value]) =
            (function, target, arguments)
            && let Kind::Ident(name) = &variable.kind
        {
            return self.bound(function, target, name, value);
        }
        if let Some((variable, init, body)) = bind(function, target, arguments)
            && let Kind::Ident(name) = &variable.kind
        {
            let init = self.part(init);
            let cost = init.cost();
            let body = self.with(
                vec![(name.clone(), EstimatedPart { cost: None, ..init })],
                |this| this.part(body),
            );
            // with an empty loop around
            let cost = cost.add(body.cost()).add(Estimate::fixed(LOOP));
            return EstimatedPart {
                cost: Some(cost),
                ..body
            };
        }
        let (function, target) = match &namespaced {
            Some(name) => (name.as_str(), None),
            None => (function, target),
        };
        let parts: Vec<EstimatedPart> = arguments.iter().map(|one| self.part(one)).collect();
        let target = target.map(|target| self.part(target));
        let costs = sum(&parts);
        match (function, parts.as_slice()) {
            ("dyn", [inner]) => {
                return EstimatedPart {
                    cost: Some(costs.add(Estimate::fixed(1))),
                    size: inner.size,
                    inner: inner.inner,
                    ..EstimatedPart::default()
                };
            }
            ("_&&_" | "_||_", [first, ..]) => {
                return EstimatedPart {
                    cost: Some(Estimate {
                        min: first.cost().min,
                        max: costs.max,
                    }),
                    ..EstimatedPart::default()
                };
            }
            ("_?_:_", [condition, yes, no]) => {
                return EstimatedPart {
                    cost: Some(condition.cost().add(yes.cost().union(no.cost()))),
                    size: Some(yes.size().union(no.size())),
                    inner: both(yes.inner, no.inner),
                    ..EstimatedPart::default()
                };
            }
            ("_[_]", [list, _]) => {
                let step = if matches!(list.of, Some(Type::Map(..))) {
                    "@values"
                } else {
                    "@items"
                };
                let mut path = list.path.clone();
                path.push(step.to_owned());
                return EstimatedPart {
                    cost: Some(costs.add(Estimate::fixed(1))),
                    size: list.inner.map(|inner| inner.value),
                    path,
                    ..EstimatedPart::default()
                };
            }
            _ => {}
        }
        if let ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) = (function, parts.as_slice()) {
            let text = [a, b]
                .iter()
                .any(|part| matches!(part.of, Some(Type::String | Type::Bytes)));
            let open = [a, b]
                .iter()
                .all(|part| part.of.as_ref().is_none_or(Type::is_open));
            let mut cost = Estimate::fixed(1);
            if text || open {
                let both = compared(a.size(), b.size());
                cost = if text { both } else { both.union(cost) };
            }
            return EstimatedPart {
                cost: Some(costs.add(cost)),
                ..EstimatedPart::default()
            };
        }
        let overloads = self.candidates(at, function, target.is_some());
        let mut all: Option<(Estimate, Option<Estimate>)> = None;
        for overload in &overloads {
            let (cost, size) = of_overload(function, overload, target.as_ref(), &parts);
            all = Some(match all {
                None => (cost, size),
                Some((before, known)) => (
                    before.union(cost),
                    match (known, size) {
                        (Some(a), Some(b)) => Some(a.union(b)),
                        (a, b) => a.or(b),
                    },
                ),
            });
        }
        let (cost, size) = all.unwrap_or((Estimate::fixed(1), None));
        let target_cost = target
            .as_ref()
            .map_or(Estimate::fixed(0), EstimatedPart::cost);
        let inner = match (function, parts.as_slice()) {
            ("_+_", [a, b]) => both(a.inner, b.inner),
            _ => None,
        };
        EstimatedPart {
            cost: Some(target_cost.add(costs).add(cost)),
            size,
            inner,
            ..EstimatedPart::default()
        }
    }

    /// Returns the possible overloads of a call.
    fn candidates(&self, at: &Expr, function: &str, method: bool) -> Vec<&'static Overload> {
        let all = functions::overloads(function).unwrap_or_default();
        all.iter()
            .filter(|one| one.method == method)
            .filter(|one| {
                let mut bindings = TypeBindings::default();
                one.parameters.iter().enumerate().all(|(i, wanted)| {
                    self.checked
                        .argument(at, i)
                        .is_some_and(|given| bindings.fits(wanted, given))
                }) && self.checked.argument(at, one.parameters.len()).is_none()
            })
            .collect()
    }

    fn with<T>(
        &mut self,
        bound: Vec<(String, EstimatedPart)>,
        run: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let before = self.locals.len();
        self.locals.extend(bound);
        let out = run(self);
        self.locals.truncate(before);
        out
    }

    fn bound(&mut self, function: &str, target: &Expr, name: &str, value: &Expr) -> EstimatedPart {
        let range = self.part(target);
        if function == "sortBy" {
            let item = item_of(&range);
            let key = self.with(vec![(name.to_owned(), item)], |this| this.part(value));
            let each = key.cost().add(Estimate::fixed(12));
            let square = range.size().multiply(range.size()).times(2.0);
            return EstimatedPart {
                cost: Some(
                    range
                        .cost()
                        .add(Estimate::fixed(10 + 1 + 1 + 10 + 1 + 11))
                        .add(range.size().multiply(each))
                        .add(square),
                ),
                size: range.size,
                inner: range.inner,
                ..EstimatedPart::default()
            };
        }
        let of = match &range.of {
            Some(Type::Optional(inner)) => Some((**inner).clone()),
            _ => None,
        };
        let local = EstimatedPart {
            size: of
                .as_ref()
                .is_some_and(is_scalar)
                .then_some(Estimate::fixed(1)),
            of,
            ..EstimatedPart::default()
        };
        let value = self.with(vec![(name.to_owned(), local)], |this| this.part(value));
        // asked whether it is there, bound with an empty loop around, wrapped again
        let wrapped = u64::from(function == "optMap");
        let there = range
            .cost()
            .add(value.cost())
            .add(Estimate::fixed(11 + wrapped));
        EstimatedPart {
            cost: Some(
                range
                    .cost()
                    .add(Estimate::fixed(1))
                    .add(there.union(Estimate::fixed(1))),
            ),
            ..EstimatedPart::default()
        }
    }

    fn comprehension(&mut self, inner: &Comprehension) -> EstimatedPart {
        let range = self.part(&inner.range);
        let mut bound = Vec::new();
        match inner.variables.as_slice() {
            [one] => bound.push((one.clone(), single_of(&range))),
            many => {
                let (mut key, item) = (key_of(&range), item_of(&range));
                // the estimator of cel-go keeps both paths in one place when
                // there is room behind the first: the key is taken for the item
                if !range.path.is_empty() && !range.path.len().is_power_of_two() {
                    key.path.clone_from(&item.path);
                }
                for (name, part) in many.iter().zip([key, item]) {
                    bound.push((name.clone(), part));
                }
            }
        }
        let steps: Vec<EstimatedPart> = self.with(bound, |this| {
            inner.steps.iter().map(|step| this.part(step)).collect()
        });
        let step = steps.last().map_or(Estimate::fixed(0), EstimatedPart::cost);
        let filter = (steps.len() > 1).then(|| {
            steps
                .first()
                .map_or(Estimate::fixed(0), EstimatedPart::cost)
        });
        let fixed = Estimate::fixed;
        let size = range.size();
        // a condition around the addition: the branch that adds nothing reads the result
        let chosen = |cost: Estimate| match filter {
            Some(filter) => filter.add(cost.union(fixed(1))),
            None => cost,
        };
        let made = |inner: Option<Inner>, each: Estimate, start: u64| EstimatedPart {
            cost: Some(range.cost().add(fixed(start + 1)).add(size.multiply(each))),
            size: Some(size),
            inner,
            ..EstimatedPart::default()
        };
        let list_of = |value: Estimate| {
            Some(Inner {
                list: true,
                key: fixed(1),
                value: fixed(0).union(value),
            })
        };
        let truth = |each: Estimate, result: u64| EstimatedPart {
            cost: Some(range.cost().add(fixed(result)).add(size.multiply(each))),
            size: Some(fixed(1)),
            ..EstimatedPart::default()
        };
        let logical = |again: u64| Estimate {
            min: 1 + again,
            max: step.max.saturating_add(1 + again),
        };
        match inner.of {
            Macro::All => truth(logical(2), 1),
            Macro::Exists => truth(logical(3), 1),
            Macro::ExistsOne => truth(step.add(Estimate { min: 1, max: 2 }), 2),
            Macro::Filter => {
                let value = single_of(&range).size();
                made(list_of(value), step.add(fixed(13).union(fixed(1))), 10)
            }
            Macro::List => {
                let value = steps.last().map_or(Estimate::UNKNOWN, EstimatedPart::size);
                made(list_of(value), chosen(step.add(fixed(12))), 10)
            }
            Macro::Map => made(None, chosen(step.add(fixed(3))), 30),
            Macro::Entries => made(None, chosen(step.add(fixed(2))), 30),
        }
    }
}

/// An item of a list, a value of a map.
fn item_of(range: &EstimatedPart) -> EstimatedPart {
    let list = range
        .inner
        .map_or(matches!(range.of, Some(Type::List(_))), |inner| inner.list);
    stepped(range, if list { "@items" } else { "@values" }, |inner| {
        inner.value
    })
}

/// A key of a map, an index of a list.
fn key_of(range: &EstimatedPart) -> EstimatedPart {
    let list = range
        .inner
        .map_or(matches!(range.of, Some(Type::List(_))), |inner| inner.list);
    stepped(range, if list { "@indices" } else { "@keys" }, |inner| {
        inner.key
    })
}

/// Returns the range of a single variable: items of a list, keys of a map.
fn single_of(range: &EstimatedPart) -> EstimatedPart {
    let list = range
        .inner
        .map_or(matches!(range.of, Some(Type::List(_))), |inner| inner.list);
    if list { item_of(range) } else { key_of(range) }
}

fn stepped(range: &EstimatedPart, step: &str, size: fn(Inner) -> Estimate) -> EstimatedPart {
    let mut path = range.path.clone();
    path.push(step.to_owned());
    EstimatedPart {
        size: range.inner.map(size),
        path,
        ..EstimatedPart::default()
    }
}

fn both(a: Option<Inner>, b: Option<Inner>) -> Option<Inner> {
    let (a, b) = (a?, b?);
    Some(Inner {
        list: a.list,
        key: a.key.union(b.key),
        value: a.value.union(b.value),
    })
}

fn sum(parts: &[EstimatedPart]) -> Estimate {
    parts
        .iter()
        .fold(Estimate::fixed(0), |all, part| all.add(part.cost()))
}

fn sizes(parts: &[EstimatedPart]) -> Estimate {
    parts
        .iter()
        .map(EstimatedPart::size)
        .reduce(Estimate::union)
        .unwrap_or(Estimate::fixed(0))
}

fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

fn literal_part(literal: &Literal) -> EstimatedPart {
    let size = match literal {
        Literal::String(text) => text.chars().count() as u64,
        Literal::Bytes(bytes) => bytes.len() as u64,
        _ => 1,
    };
    EstimatedPart {
        cost: Some(Estimate::fixed(0)),
        size: Some(Estimate::fixed(size)),
        number: match literal {
            Literal::Int(number) => Some(*number),
            _ => None,
        },
        ..EstimatedPart::default()
    }
}

/// Returns the cost of one overload by itself, and the size of its result.
fn of_overload(
    function: &str,
    overload: &Overload,
    target: Option<&EstimatedPart>,
    args: &[EstimatedPart],
) -> (Estimate, Option<Estimate>) {
    let fixed = |cost: u64| (Estimate::fixed(cost), None);
    let unknown = EstimatedPart::default();
    let target_or = |place: usize| args.get(place).unwrap_or(&unknown);
    let receiver = target.unwrap_or(&unknown);
    let first = target_or(0).size();
    let parameter = |place: usize| overload.parameters.get(place);
    let is_text = |of: Option<&Type>| matches!(of, Some(Type::String | Type::Bytes));
    let look = |size: Estimate| (size.looked(), None);
    match function {
        "check" => fixed(350_000),
        "fieldSelector" | "labelSelector" => {
            let requirements = first.times(0.5).times(50.0);
            (
                Estimate::fixed(10).add(first.looked()).add(requirements),
                None,
            )
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => match &receiver.of {
            Some(Type::List(items)) => {
                let mut each = Estimate::fixed(1);
                if is_text(Some(items)) {
                    // only its position in the schema tells the length of an item
                    each = each.add(receiver.item.unwrap_or(Estimate::UNKNOWN).looked());
                }
                (receiver.size().multiply(each), None)
            }
            _ => look(receiver.size()),
        },
        "url" | "jsonpatch.escapeKey" => (first.looked(), Some(first)),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            (receiver.size().looked(), Some(receiver.size()))
        }
        "replace" => (
            receiver.size().times(0.2),
            Some(replaced(receiver.size(), first, target_or(1).size())),
        ),
        "split" => {
            let most = target_or(1)
                .number
                .map_or(receiver.size().max, |n| n as u64);
            (
                receiver.size().times(0.2),
                Some(Estimate { min: 0, max: most }),
            )
        }
        "join" => {
            let list = receiver.size();
            let item = receiver.item.unwrap_or(Estimate::UNKNOWN);
            let mut size = list.multiply(item);
            if !args.is_empty() {
                size = size.add(first.multiply(Estimate {
                    min: list.min.saturating_sub(1),
                    max: list.max.saturating_sub(1),
                }));
            }
            (size.looked(), Some(size))
        }
        "find" | "findAll" => {
            let text = receiver.size();
            let cost = text
                .add(Estimate::fixed(1))
                .looked()
                .multiply(first.times(0.25));
            (
                cost,
                Some(Estimate {
                    min: 0,
                    max: text.max,
                }),
            )
        }
        "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            look(first)
        }
        "ip" if target.is_none() => look(first),
        "ip.isCanonical" => (first.times(0.2), None),
        "containsIP" | "containsCIDR" => {
            let bytes = Estimate { min: 4, max: 16 };
            let mut cost = bytes.add(bytes).looked();
            if function == "containsCIDR" {
                cost = cost.add(bytes.looked()).add(Estimate::fixed(1));
            }
            if matches!(parameter(1), Some(Type::String)) {
                cost = cost.add(first.looked());
            }
            (cost, None)
        }
        "validate" => (first.looked().times(128.0 * 0.25), None),
        "slice" => {
            let start = target_or(0).number.map_or(0, |n| n.max(0) as u64);
            let end = target_or(1)
                .number
                .map_or(receiver.size().max, |n| n.max(0) as u64);
            allocated(1.0, Estimate::fixed(end.wrapping_sub(start)))
        }
        "lists.range" => {
            let size = target_or(0).number.map_or(u64::MAX, |n| n.max(0) as u64);
            allocated(1.0, Estimate::fixed(size))
        }
        "reverse" => allocated(1.0, receiver.size()),
        "flatten" => {
            let depth = match args.first() {
                None => 1,
                Some(depth) => depth.number.map_or(u64::MAX, |n| n.max(0) as u64),
            };
            allocated(depth as f64, receiver.size())
        }
        "distinct" => allocated(2.0, receiver.size().multiply(receiver.size())),
        "sort" => {
            let text = matches!(&receiver.of, Some(Type::List(items)) if is_text(Some(items)));
            let factor = if text { 2.1 } else { 2.0 };
            allocated(factor, receiver.size().multiply(receiver.size()))
        }
        "sets.contains" | "sets.intersects" | "sets.equivalent" => {
            let times = if function == "sets.equivalent" {
                2.0
            } else {
                1.0
            };
            let cost = first.multiply(target_or(1).size()).times(times);
            (cost.add(Estimate::fixed(1)), None)
        }
        "_==_"
            if matches!(target_or(0).of, Some(Type::Opaque(_)))
                && target_or(0).of == target_or(1).of =>
        {
            match &target_or(0).of {
                Some(Type::Opaque("kubernetes.NamedFormat")) => {
                    (Estimate { min: 1, max: 64 }.looked(), None)
                }
                _ => fixed(1),
            }
        }
        "format" => look(receiver.size()),
        "bytes" if matches!(parameter(0), Some(Type::String)) => (
            first.looked(),
            Some(Estimate {
                min: first.min,
                max: first.max.saturating_mul(4),
            }),
        ),
        "string" if matches!(parameter(0), Some(Type::Bytes)) => (
            first.looked(),
            Some(Estimate {
                min: first.min / 4,
                max: first.max,
            }),
        ),
        "strings.quote" => (
            first.looked(),
            Some(Estimate {
                min: first.min.saturating_add(2),
                max: first.max.saturating_mul(2).saturating_add(2),
            }),
        ),
        "startsWith" | "endsWith" => look(first),
        "@in" if matches!(parameter(1), Some(Type::List(_))) => (target_or(1).size(), None),
        "matches" if target.is_some() => {
            let text = receiver.size().add(Estimate::fixed(1)).looked();
            (text.multiply(first.times(0.25)), None)
        }
        "contains" => (receiver.size().looked().multiply(first.looked()), None),
        "_+_" if is_text(parameter(0)) => {
            let size = first.add(target_or(1).size());
            (size.looked(), Some(size))
        }
        "_+_" if matches!(parameter(0), Some(Type::List(_))) => {
            (Estimate::fixed(1), Some(first.add(target_or(1).size())))
        }
        "_==_" | "_!=_" => (compared(first, target_or(1).size()), None),
        _ => fixed(1),
    }
}

/// Comparing two texts, or whatever has a size.
fn compared(a: Estimate, b: Estimate) -> Estimate {
    let max = a.max.min(b.max);
    Estimate {
        min: u64::from(max > 0),
        max,
    }
    .looked()
}

fn allocated(factor: f64, size: Estimate) -> (Estimate, Option<Estimate>) {
    (size.times(factor).add(Estimate::fixed(11)), Some(size))
}

/// Returns the length of a text after replacing parts of it.
fn replaced(text: Estimate, old: Estimate, new: Estimate) -> Estimate {
    let (most_times, most_kept) = if old.min == 0 {
        // an empty separator matches between all characters, and around
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (text.max.div_ceil(old.min), 0)
    };
    let (least_times, least_kept) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (text.min.div_ceil(old.max), 0)
    };
    Estimate {
        min: least_times
            .saturating_mul(new.min)
            .saturating_add(least_kept),
        max: most_times.saturating_mul(new.max).saturating_add(most_kept),
    }
}
