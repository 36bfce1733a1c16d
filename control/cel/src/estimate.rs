//! Estimates the maximum cost of an expression before it runs, from the sizes that the
//! schema allows. The figures are those of cel-go's estimator with the additions of
//! Kubernetes, quirks included: they decide which rules a custom resource may have.

mod bounds;
mod overload;
mod part;

use crate::ast::{Comprehension, Expr, Kind, Macro};
use crate::checker::{CheckedExpression, bind, dotted};
use crate::functions::{self, Overload};
use crate::schema::Schema;
use crate::types::{Type, TypeBindings};

use overload::{compared, of_overload};
use part::{
    EstimatedPart, Inner, both, is_scalar, item_of, key_of, literal_part, single_of, sizes, sum,
};

pub use bounds::{CRD_LIMIT, Estimate, RULE_LIMIT, exceeds};

/// The cost of the empty loop as which `cel.bind` is expanded.
const LOOP: u64 = 10;

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
