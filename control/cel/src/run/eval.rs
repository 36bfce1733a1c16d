//! Evaluates a compiled expression. Costs are those of cel-go with the estimators of
//! Kubernetes, since limits on them are part of the API: a variable and each step into it
//! cost 1, macros the cost of their expansion.

use std::collections::BTreeMap;
use std::rc::Rc;

use smallvec::SmallVec;

use super::cost;
use super::error::Error;
use super::meter::Meter;
use super::node::{Base, CallTarget, Fold, Node, Step};
use super::operators::equal;
use super::value::{ConstructedValue, Entries, Key, List, Val};
use crate::ast::Macro;

/// One evaluation.
pub(crate) struct Machine<'a, 'e> {
    pub variables: &'e [Option<Val<'a>>],
    /// For the errors about variables that are not there.
    pub names: &'a [String],
    pub slots: Vec<Val<'a>>,
    pub meter: Meter,
}

type Result<'a, T = Val<'a>> = std::result::Result<T, Error>;

/// The costs of creating an empty list or map, a list, a map, a typed object.
const LIST: u64 = 10;
const MAP: u64 = 30;
const MADE: u64 = 40;

impl<'a> Machine<'a, '_> {
    pub fn eval(&mut self, node: &'a Node) -> Result<'a> {
        match node {
            Node::Const(value) => Ok(value.value()),
            Node::Path {
                base,
                steps,
                charged,
                test,
            } => self.path(base, steps, *charged, *test),
            Node::And(terms) => self.logic(terms, false),
            Node::Or(terms) => self.logic(terms, true),
            Node::If(parts) => match self.eval(&parts[0])? {
                Val::Bool(true) => self.eval(&parts[1]),
                Val::Bool(false) => self.eval(&parts[2]),
                _ => Err(Error::NoSuchOverload),
            },
            Node::Call(call) => self.call(call),
            Node::OrElse(parts, flat) => self.or_else(parts, *flat),
            Node::Within(item, all) => {
                let item = self.eval(item)?;
                let found = all.iter().any(|one| match (one, &item) {
                    (super::node::Const::Text(one), Val::Text(item)) => **one == **item,
                    (one, item) => equal(&one.value(), item),
                });
                Ok(Val::Bool(found))
            }
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Made(name, fields) => self.made(name, fields),
            Node::Fold(fold) => self.fold(fold),
            Node::Bind(parts, slot) => {
                let value = self.eval(&parts[0])?;
                self.set(*slot, value);
                self.eval(&parts[1])
            }
            Node::OptMap(parts, slot, flat) => self.opt_map(parts, *slot, *flat),
            Node::SortBy(parts, slot) => self.sort_by(parts, *slot),
        }
    }

    fn path(&mut self, base: &'a Base, steps: &'a [Step], charged: bool, test: bool) -> Result<'a> {
        let mut at = match base {
            Base::Slot(slot) => self.slots.get(*slot).cloned().unwrap_or(Val::Null),
            Base::Var(index) => match self.variables.get(*index) {
                Some(Some(value)) => value.clone(),
                _ => {
                    let name = self.names.get(*index).map_or("", String::as_str);
                    return Err(Error::failed(format!("no such attribute(s): {name}")));
                }
            },
            Base::Node(node) => self.eval(node)?,
        };
        // after an optional step, the value is wrapped again
        let mut optional = false;
        if !steps.is_empty()
            && let Val::Optional(inner) = &at
        {
            optional = true;
            match inner {
                Some(inner) => at = Val::clone(inner),
                None => {
                    self.meter.charge(u64::from(charged))?;
                    return Ok(if test { Val::Bool(false) } else { at });
                }
            }
        }
        let last = steps.len();
        for (i, step) in steps.iter().enumerate() {
            optional |= step.optional;
            let presence = optional || (test && i + 1 == last);
            let next = match self.step(&at, step, presence) {
                Ok(next) => next,
                Err(error) => {
                    // a failure is charged, too: `||` may continue after it
                    self.meter.charge(1 + u64::from(charged && !test))?;
                    return Err(error);
                }
            };
            match next {
                Some(next) => {
                    self.meter.charge(1)?;
                    at = next;
                }
                None if test && i + 1 == last => {
                    self.meter.charge(1)?;
                    return Ok(Val::Bool(false));
                }
                None => {
                    self.meter.charge(u64::from(charged && !test))?;
                    return Ok(if test {
                        Val::Bool(false)
                    } else {
                        Val::Optional(None)
                    });
                }
            }
        }
        if test {
            return Ok(Val::Bool(true));
        }
        self.meter.charge(u64::from(charged))?;
        Ok(if optional { Val::some(at) } else { at })
    }

    /// One step; `None` when there is nothing and that may be.
    fn step(
        &mut self,
        at: &Val<'a>,
        step: &'a Step,
        presence: bool,
    ) -> Result<'a, Option<Val<'a>>> {
        let by = match &step.by {
            CallTarget::Field(name) => {
                let found = match at {
                    Val::Map(map) => map.get_text(name),
                    Val::Object(made) => made.field(name).cloned().map(Ok),
                    Val::List(_) => {
                        return Err(Error::failed("unsupported index type 'string' in list"));
                    }
                    Val::Check(check) => check.field(name).map(Ok),
                    _ => None,
                };
                return match found {
                    Some(found) => found.map(Some),
                    None if presence => Ok(None),
                    None => Err(Error::NoSuchKey(name.to_string())),
                };
            }
            CallTarget::Const(by) => by.value(),
            CallTarget::Node(node) => self.eval(node)?,
        };
        index(at, &by, presence)
    }

    fn logic(&mut self, terms: &'a [Node], decisive: bool) -> Result<'a> {
        let mut failed = None;
        for term in terms {
            match self.eval(term) {
                Ok(Val::Bool(truth)) if truth == decisive => return Ok(Val::Bool(decisive)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => {
                    failed.get_or_insert(Error::NoSuchOverload);
                }
                Err(error) if error.is_final() => return Err(error),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(Val::Bool(!decisive)), Err)
    }

    fn call(&mut self, call: &'a super::node::Call) -> Result<'a> {
        let mut arguments: SmallVec<[Val<'a>; 3]> = SmallVec::new();
        let mut failed = None;
        for argument in &call.arguments {
            match self.eval(argument) {
                Ok(value) => arguments.push(value),
                // of two operands both are evaluated, and paid for
                Err(error) if call.arguments.len() <= 2 && !error.is_final() => {
                    failed.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = failed {
            self.meter.charge(1)?;
            return Err(error);
        }
        let result = match (&call.pattern, arguments.as_slice()) {
            (Some(pattern), [Val::Text(text), _]) => Ok(Val::Bool(pattern.is_match(text))),
            (Some(_), _) => Err(Error::NoSuchOverload),
            (None, arguments) => (call.native)(&mut self.meter, arguments),
        };
        let result = result.map_err(|error| match error {
            Error::NoSuchOverload => no_overload(&call.name, &arguments),
            error => error,
        });
        self.meter
            .charge(cost::of_call(call.cost, &arguments, result.as_ref().ok()))?;
        result
    }

    fn or_else(&mut self, parts: &'a [Node; 2], flat: bool) -> Result<'a> {
        match self.eval(&parts[0])? {
            Val::Optional(Some(inner)) if flat => Ok(Val::clone(&inner)),
            there @ Val::Optional(Some(_)) => Ok(there),
            Val::Optional(None) => match self.eval(&parts[1])? {
                Val::Optional(other) if !flat => Ok(Val::Optional(other)),
                _ if !flat => Err(Error::NoSuchOverload),
                other => Ok(other),
            },
            _ => Err(Error::NoSuchOverload),
        }
    }

    fn list(&mut self, items: &'a [(Node, bool)]) -> Result<'a> {
        let mut all = Vec::with_capacity(items.len());
        for (item, optional) in items {
            let item = self.eval(item)?;
            match item {
                Val::Optional(inner) if *optional => {
                    all.extend(inner.map(|item| Val::clone(&item)));
                }
                item if *optional => {
                    return Err(Error::failed(format!(
                        "cannot initialize optional list element from non-optional value {}",
                        super::convert::shown(&item)
                    )));
                }
                item => all.push(item),
            }
        }
        self.meter.charge(LIST)?;
        Ok(Val::list(all))
    }

    fn map(&mut self, entries: &'a [(Node, Node, bool)]) -> Result<'a> {
        let mut all = BTreeMap::new();
        for (key, value, optional) in entries {
            let key = self.eval(key)?;
            let value = self.eval(value)?;
            let key = Key::from_value(&key).ok_or_else(|| {
                Error::failed(format!("unsupported key type: {}", key.type_name()))
            })?;
            match value {
                Val::Optional(None) if *optional => {
                    all.remove(&key);
                }
                Val::Optional(Some(inner)) if *optional => {
                    all.insert(key, Val::clone(&inner));
                }
                value if *optional => {
                    return Err(Error::failed(format!(
                        "cannot initialize optional entry '{}' from non-optional value {}",
                        super::convert::shown(&key.into()),
                        super::convert::shown(&value)
                    )));
                }
                value => {
                    all.insert(key, value);
                }
            }
        }
        self.meter.charge(MAP)?;
        Ok(Val::Map(Entries::Own(Rc::new(all))))
    }

    fn made(
        &mut self,
        name: &'a str,
        fields: &'a [(std::sync::Arc<str>, Node, bool)],
    ) -> Result<'a> {
        let mut all: Vec<(&'a str, Val<'a>)> = Vec::with_capacity(fields.len());
        for (field, value, optional) in fields {
            let value = self.eval(value)?;
            let value = match value {
                Val::Optional(inner) if *optional => inner.map(|inner| Val::clone(&inner)),
                value => Some(value),
            };
            all.retain(|(known, _)| *known != &**field);
            all.extend(value.map(|value| (&**field, value)));
        }
        self.meter.charge(MADE)?;
        crate::kube::mutation::make(ConstructedValue { name, fields: all })
    }

    fn opt_map(&mut self, parts: &'a [Node; 2], slot: usize, flat: bool) -> Result<'a> {
        let before = self.meter.cost;
        let target = self.eval(&parts[0])?;
        let Val::Optional(inner) = target else {
            return Err(Error::NoSuchOverload);
        };
        // the macro evaluates the value twice: its presence, and its value
        let again = self.meter.cost - before;
        self.meter.charge(1)?;
        let Some(inner) = inner else {
            self.meter.charge(1)?;
            return Ok(Val::Optional(None));
        };
        self.meter.charge(again + 1)?;
        self.set(slot, Val::clone(&inner));
        let value = self.eval(&parts[1])?;
        if flat {
            return Ok(value);
        }
        self.meter.charge(1)?;
        Ok(Val::some(value))
    }

    fn set(&mut self, slot: usize, value: Val<'a>) {
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, Val::Null);
        }
        if let Some(place) = self.slots.get_mut(slot) {
            *place = value;
        }
    }

    fn sort_by(&mut self, parts: &'a [Node; 2], slot: usize) -> Result<'a> {
        let Val::List(list) = self.eval(&parts[0])? else {
            return Err(Error::NoSuchOverload);
        };
        let items = list.to_vec()?;
        let mut keys = Vec::with_capacity(items.len());
        for item in &items {
            self.set(slot, item.clone());
            keys.push(self.eval(&parts[1])?);
            self.meter.charge(12)?;
        }
        let result = super::lists::sort_by_keys(&mut self.meter, &items, &keys)?;
        // the input is read twice, the keys once, and both lists are bound and sorted
        self.meter.charge(3 + cost::sort(items.len()))?;
        Ok(result)
    }

    fn fold(&mut self, fold: &'a Fold) -> Result<'a> {
        let range = self.eval(&fold.range)?;

        match &range {
            Val::List(List::Own(items)) => {
                let pairs = items.iter().zip(0_i64..);
                self.run(
                    fold,
                    items.len(),
                    pairs.map(|(item, i)| Ok((Val::Int(i), item.clone()))),
                )
            }
            Val::List(list) => {
                let pairs = (0..list.len()).map(|i| {
                    let item = list.get(i).unwrap_or(Ok(Val::Null))?;
                    Ok((Val::Int(i as i64), item))
                });
                self.run(fold, list.len(), pairs)
            }
            Val::Map(map) => {
                let pairs = map.pairs()?;
                let one = !fold.two;
                let pairs = pairs
                    .into_iter()
                    // a single variable runs over the keys
                    .map(|(key, value)| Ok(if one { (Val::Null, key) } else { (key, value) }));
                self.run(fold, map.len(), pairs)
            }
            other => Err(Error::failed(format!(
                "got '{}', expected iterable type",
                super::convert::go_type(other)
            ))),
        }
    }

    fn bind(&mut self, fold: &Fold, key: Val<'a>, value: Val<'a>) {
        if fold.two {
            self.set(fold.slot, key);
            self.set(fold.slot + 1, value);
        } else {
            self.set(fold.slot, value);
        }
    }

    fn condition(&mut self, node: &'a Node) -> std::result::Result<bool, Error> {
        match self.eval(node)? {
            Val::Bool(truth) => Ok(truth),
            _ => Err(Error::NoSuchOverload),
        }
    }

    fn run(
        &mut self,
        fold: &'a Fold,
        length: usize,
        pairs: impl Iterator<Item = std::result::Result<(Val<'a>, Val<'a>), Error>>,
    ) -> Result<'a> {
        match fold.of {
            Macro::All => self.quantify(fold, pairs, false),
            Macro::Exists => self.quantify(fold, pairs, true),
            Macro::ExistsOne => self.exists_one(fold, pairs),
            Macro::List | Macro::Filter => self.collect_list(fold, length, pairs),
            Macro::Map | Macro::Entries => self.collect_map(fold, pairs),
        }
    }

    /// `all` and `exists`: stops at the first item that decides; errors count
    /// only when none does.
    fn quantify(
        &mut self,
        fold: &'a Fold,
        pairs: impl Iterator<Item = std::result::Result<(Val<'a>, Val<'a>), Error>>,
        decisive: bool,
    ) -> Result<'a> {
        // whether to continue: `@not_strictly_false(…)` on the result so far
        let again = if decisive { 3 } else { 2 };
        let mut failed = None;
        let mut pairs = pairs.peekable();
        while let Some(pair) = pairs.next() {
            let (key, value) = pair?;
            self.meter.charge(again + 1)?;
            self.bind(fold, key, value);
            match self.condition(&fold.step) {
                Ok(truth) if truth == decisive => {
                    // the end is noticed before the next item, if there is one
                    let asked = if pairs.peek().is_some() { again } else { 0 };
                    self.meter.charge(asked + 1)?;
                    return Ok(Val::Bool(decisive));
                }
                Ok(_) => {}
                Err(error) if error.is_final() => return Err(error),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        self.meter.charge(1)?;
        failed.map_or(Ok(Val::Bool(!decisive)), Err)
    }

    fn exists_one(
        &mut self,
        fold: &'a Fold,
        pairs: impl Iterator<Item = std::result::Result<(Val<'a>, Val<'a>), Error>>,
    ) -> Result<'a> {
        let mut count = 0_u64;
        for pair in pairs {
            let (key, value) = pair?;
            self.bind(fold, key, value);
            if self.condition(&fold.step)? {
                count += 1;
                self.meter.charge(2)?;
            }
        }
        self.meter.charge(2)?;
        Ok(Val::Bool(count == 1))
    }

    fn collect_list(
        &mut self,
        fold: &'a Fold,
        length: usize,
        pairs: impl Iterator<Item = std::result::Result<(Val<'a>, Val<'a>), Error>>,
    ) -> Result<'a> {
        let mut out = Vec::with_capacity(length.min(64));
        for pair in pairs {
            let (key, value) = pair?;
            let kept = (fold.of == Macro::Filter).then(|| value.clone());
            self.bind(fold, key, value);
            let item = if let Some(kept) = kept {
                if !self.condition(&fold.step)? {
                    continue;
                }
                self.meter.charge(1)?;
                kept
            } else {
                if let Some(filter) = &fold.filter
                    && !self.condition(filter)?
                {
                    continue;
                }
                self.eval(&fold.step)?
            };
            // the list so far, a list of the item, and both together; a
            // constant item makes a constant list
            let single = matches!(fold.step, Node::Const(_)) && fold.of == Macro::List;
            self.meter.charge(2 + if single { 0 } else { LIST })?;
            out.push(item);
        }
        self.meter.charge(1)?;
        Ok(Val::list(out))
    }

    fn collect_map(
        &mut self,
        fold: &'a Fold,
        pairs: impl Iterator<Item = std::result::Result<(Val<'a>, Val<'a>), Error>>,
    ) -> Result<'a> {
        let mut out = BTreeMap::new();
        for pair in pairs {
            let (key, value) = pair?;
            let at = Key::from_value(&key);
            self.bind(fold, key, value);
            if let Some(filter) = &fold.filter
                && !self.condition(filter)?
            {
                continue;
            }
            let value = self.eval(&fold.step)?;
            if fold.of == Macro::Map {
                // the map so far, the key, and putting it in
                self.meter.charge(3)?;
                if let Some(at) = at {
                    out.insert(at, value);
                }
                continue;
            }
            let Val::Map(entries) = value else {
                return Err(Error::NoSuchOverload);
            };
            self.meter.charge(2)?;
            for (key, value) in entries.pairs()? {
                let Some(at) = Key::from_value(&key) else {
                    continue;
                };
                if out.contains_key(&at) {
                    self.meter.charge(1)?;
                    return Err(Error::failed(format!(
                        "insert failed: key {} already exists",
                        super::convert::shown(&key)
                    )));
                }
                self.meter.work(1)?;
                out.insert(at, value);
            }
        }
        self.meter.charge(1)?;
        Ok(Val::Map(Entries::Own(Rc::new(out))))
    }
}

/// Returns the item or entry of `at` at `by`; `None` if it is missing and `presence`
/// allows that.
fn index<'a>(at: &Val<'a>, by: &Val<'a>, presence: bool) -> Result<'a, Option<Val<'a>>> {
    let found = match at {
        Val::Map(map) => Key::from_value(by).and_then(|key| map.get(&key)),
        Val::Object(made) => by
            .as_str()
            .and_then(|name| made.field(name).cloned().map(Ok)),
        Val::List(list) => {
            let whole = match by {
                Val::Int(number) => Some(*number),
                Val::Uint(number) => i64::try_from(*number).ok(),
                Val::Double(number) if (*number as i64) as f64 == *number => Some(*number as i64),
                Val::Double(number) => {
                    return Err(Error::failed(format!(
                        "unsupported index value {number} in list"
                    )));
                }
                other => {
                    return Err(Error::failed(format!(
                        "unsupported index type '{}' in list",
                        other.type_name()
                    )));
                }
            };
            let found = whole
                .and_then(|number| usize::try_from(number).ok())
                .and_then(|place| list.get(place));
            if found.is_none() && !presence {
                return Err(Error::failed(format!(
                    "index out of bounds: {}",
                    super::convert::shown(by)
                )));
            }
            found
        }
        _ => None,
    };
    match found {
        Some(found) => found.map(Some),
        None if presence => Ok(None),
        None => Err(Error::NoSuchKey(super::convert::shown(by))),
    }
}

/// Returns the error for arguments that a function does not accept: for some functions it
/// contains the types of the arguments, for operators only if the first operand has no
/// such operator.
fn no_overload(name: &str, arguments: &[Val<'_>]) -> Error {
    let number = |value: &Val<'_>| matches!(value, Val::Int(_) | Val::Uint(_) | Val::Double(_));
    let time = |value: &Val<'_>| matches!(value, Val::Duration(_) | Val::Timestamp(_));
    let text = |value: &Val<'_>| matches!(value, Val::Text(_) | Val::Bytes(_));
    let first = arguments.first().unwrap_or(&Val::Null);
    let fits = match name {
        "_+_" => number(first) || time(first) || text(first) || matches!(first, Val::List(_)),
        "_-_" => number(first) || time(first),
        "_*_" | "_/_" => number(first),
        "_%_" => matches!(first, Val::Int(_) | Val::Uint(_)),
        "_<_" | "_<=_" | "_>_" | "_>=_" => {
            number(first) || time(first) || text(first) || matches!(first, Val::Bool(_))
        }
        "_==_" | "_!=_" | "!_" | "-_" | "@in" | "startsWith" | "endsWith" | "contains"
        | "matches" | "find" | "findAll" | "containsIP" => true,
        "size" => false,
        _ => {
            let types: Vec<&str> = arguments.iter().map(Val::type_name).collect();
            return Error::failed(format!("no such overload: {name}({})", types.join(", ")));
        }
    };
    if fits {
        Error::NoSuchOverload
    } else {
        Error::failed(format!("no such overload: {name}"))
    }
}
