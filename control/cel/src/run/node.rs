//! A compiled expression: names resolved to slots and functions, constants folded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::cost::Rule;
use super::moment::Moment;
use super::native::Native;
use super::value::{ConstructedValue, Entries, Key, List, Text, Val};
use crate::ast::Macro;

/// A value that the expression writes down; can be shared between threads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Const {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    Duration(i64),
    Timestamp(Moment),
    Type(Cow<'static, str>),
    List(Arc<[Const]>),
    Map(Arc<[(Const, Const)]>),
}

/// A part of an expression.
#[derive(Debug)]
pub(crate) enum Node {
    Const(Const),
    /// A variable and the way into it.
    Path {
        base: Base,
        steps: Box<[Step]>,
        /// Whether reading the variable itself costs: it does not in the
        /// branches of a condition and as an index.
        charged: bool,
        /// Whether only the presence of the last step is tested.
        test: bool,
    },
    And(Box<[Node]>),
    Or(Box<[Node]>),
    If(Box<[Node; 3]>),
    Call(Box<Call>),
    /// `a.or(b)`, `a.orValue(b)`: the second is evaluated when the first is missing.
    OrElse(Box<[Node; 2]>, bool),
    /// `x in [constants]`
    Within(Box<Node>, Box<[Const]>),
    List(Box<[(Node, bool)]>),
    Map(Box<[(Node, Node, bool)]>),
    Made(Arc<str>, Box<[(Arc<str>, Node, bool)]>),
    Fold(Box<Fold>),
    /// `x.optMap(v, …)`; the flag: `optFlatMap`.
    OptMap(Box<[Node; 2]>, usize, bool),
    /// `cel.bind(v, x, …)`
    Bind(Box<[Node; 2]>, usize),
    /// `x.sortBy(v, …)`
    SortBy(Box<[Node; 2]>, usize),
}

#[derive(Debug)]
pub(crate) enum Base {
    /// A variable of the environment.
    Var(usize),
    /// A variable of a macro.
    Slot(usize),
    Node(Box<Node>),
}

#[derive(Debug)]
pub(crate) struct Step {
    pub by: CallTarget,
    pub optional: bool,
}

#[derive(Debug)]
pub(crate) enum CallTarget {
    Field(Arc<str>),
    Const(Const),
    Node(Node),
}

#[derive(Debug)]
pub(crate) struct Call {
    pub native: Native,
    pub arguments: Box<[Node]>,
    pub cost: Rule,
    /// The name, where errors about types tell it.
    pub name: Arc<str>,
    /// The pattern of `matches`, where it is constant.
    pub pattern: Option<regex::Regex>,
}

#[derive(Debug)]
pub(crate) struct Fold {
    pub of: Macro,
    pub range: Node,
    /// Whether the macro has two variables: key or index, and value.
    pub two: bool,
    pub slot: usize,
    pub filter: Option<Node>,
    pub step: Node,
}

impl Const {
    /// Returns it as a value. Lists and maps are copied.
    pub fn value(&self) -> Val<'_> {
        match self {
            Self::Null => Val::Null,
            Self::Bool(truth) => Val::Bool(*truth),
            Self::Int(number) => Val::Int(*number),
            Self::Uint(number) => Val::Uint(*number),
            Self::Double(number) => Val::Double(*number),
            Self::Text(text) => Val::Text(Text::Ref(text)),
            Self::Bytes(bytes) => Val::Bytes(bytes[..].into()),
            Self::Duration(nanos) => Val::Duration(*nanos),
            Self::Timestamp(moment) => Val::Timestamp(*moment),
            Self::Type(name) => Val::Type(Cow::Borrowed(name)),
            Self::List(items) => Val::List(List::Own(items.iter().map(Self::value).collect())),
            Self::Map(entries) => {
                let map: BTreeMap<_, _> = entries
                    .iter()
                    .filter_map(|(key, value)| {
                        Some((Key::from_value(&key.value())?, value.value()))
                    })
                    .collect();
                Val::Map(Entries::Own(Rc::new(map)))
            }
        }
    }

    /// A value as a constant; nothing for what cannot be shared between threads.
    pub fn from_value(value: &Val<'_>) -> Option<Self> {
        Some(match value {
            Val::Null => Self::Null,
            Val::Bool(truth) => Self::Bool(*truth),
            Val::Int(number) => Self::Int(*number),
            Val::Uint(number) => Self::Uint(*number),
            Val::Double(number) => Self::Double(*number),
            Val::Text(text) => Self::Text((&**text).into()),
            Val::Bytes(bytes) => Self::Bytes(bytes[..].into()),
            Val::Duration(nanos) => Self::Duration(*nanos),
            Val::Timestamp(moment) => Self::Timestamp(*moment),
            Val::Type(name) => Self::Type(Cow::Owned(name.clone().into_owned())),
            _ => return None,
        })
    }
}

impl<'a> ConstructedValue<'a> {
    /// The value of a field, if it was given.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Val<'a>> {
        self.field(name)
    }

    /// Returns the wrong type names within: an object in the field `b` of an `Object.a`
    /// must be an `Object.a.b`; lists and maps have no names.
    #[must_use]
    pub fn misnamed(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        self.compare(self.name, &mut wrong);
        wrong
    }

    fn compare(&self, wanted: &str, wrong: &mut Vec<String>) {
        if self.name != wanted {
            wrong.push(format!(
                "unexpected type name \"{}\", expected \"{wanted}\", which matches field name path from root Object type",
                self.name
            ));
        }
        for (name, value) in &self.fields {
            compare(value, &format!("{wanted}.{name}"), wrong);
        }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Val<'a>> {
        self.fields
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }
}

/// Compares the names of all objects in a value.
fn compare(value: &Val<'_>, wanted: &str, wrong: &mut Vec<String>) {
    match value {
        Val::Object(made) => made.compare(wanted, wrong),
        Val::List(List::Own(items)) => {
            for item in items.iter() {
                compare(item, wanted, wrong);
            }
        }
        Val::Map(Entries::Own(entries)) => {
            for value in entries.values() {
                compare(value, wanted, wrong);
            }
        }
        _ => {}
    }
}
