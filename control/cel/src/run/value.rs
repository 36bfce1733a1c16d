//! Values at run time: parts of the object tree are borrowed, and only constructed values
//! are owned.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;

use control_types::quantity::Quantity;
use control_types::value::{Map, Value};

use super::error::Error;
use super::moment::{Moment, YEAR_ONE};
use super::tree::declared;
use crate::opaque::authorizer::Check;
use crate::opaque::format::NamedFormat;
use crate::opaque::semver::Semver;
use crate::opaque::url::Url;
use crate::schema::Schema;

/// Text: of the tree or of the expression, or made.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// Stands elsewhere.
    Ref(&'a str),
    /// Was made.
    Own(Rc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Ref(text) => text,
            Self::Own(text) => text,
        }
    }
}

/// A list.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// An array of the tree, with its schema.
    Tree(&'a [Value], Option<&'a Schema>),
    /// Made by the expression.
    Own(Rc<[Val<'a>]>),
}

/// A map.
#[derive(Clone, Debug)]
pub enum Entries<'a> {
    /// An object of the tree, with its schema.
    Tree(&'a Map, Option<&'a Schema>),
    /// Made by the expression.
    Own(Rc<BTreeMap<Key<'a>, Val<'a>>>),
    /// Constructed entries, in which an absent text key reads as an empty map. Such a key
    /// is still not `in` the map.
    Defaulting(Rc<BTreeMap<Key<'a>, Val<'a>>>),
    /// Variables that are evaluated when they are first read.
    Lazy(&'a dyn Lazy<'a>),
}

/// Named values that are made on demand, such as a policy's variables.
pub trait Lazy<'a>: fmt::Debug {
    /// Returns the variable `name`; `None` if there is none.
    fn get(&'a self, name: &str) -> Option<Result<Val<'a>, Error>>;
}

/// A value.
#[derive(Clone, Debug)]
pub enum Val<'a> {
    /// `null`
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// Text.
    Text(Text<'a>),
    /// Bytes.
    Bytes(Rc<[u8]>),
    /// A span of time in nanoseconds.
    Duration(i64),
    /// A moment.
    Timestamp(Moment),
    /// A list.
    List(List<'a>),
    /// A map.
    Map(Entries<'a>),
    /// A value that may be missing.
    Optional(Option<Rc<Val<'a>>>),
    /// A type.
    Type(Cow<'a, str>),
    /// `kubernetes.Quantity`
    Quantity(Rc<Quantity>),
    /// `kubernetes.URL`
    Url(Rc<Url>),
    /// `net.IP`
    Ip(IpAddr),
    /// `net.CIDR`: an address and how many of its bits count.
    Cidr(IpAddr, u8),
    /// `kubernetes.Semver`
    Semver(Rc<Semver>),
    /// `kubernetes.NamedFormat`
    Format(&'static NamedFormat),
    /// An incomplete question to the authorizer, or its decision.
    Check(Rc<Check<'a>>),
    /// A typed object or a JSON patch operation that a mutation makes.
    Object(Rc<ConstructedValue<'a>>),
}

/// A typed object: `Object{…}`, `Object.spec{…}`, `JSONPatch{…}`.
#[derive(Clone, Debug)]
pub struct ConstructedValue<'a> {
    /// The name of its type.
    pub name: &'a str,
    /// Its fields in the order written.
    pub fields: Vec<(&'a str, Val<'a>)>,
}

/// The key of a map; numbers of equal value are the same key.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// Text.
    Text(Text<'a>),
}

impl<'a> Val<'a> {
    /// A part of the tree, as it is written there.
    #[must_use]
    pub fn tree(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Int(number) => Self::Int(*number),
            Value::Float(number) => Self::Double(*number),
            Value::String(text) => Self::Text(Text::Ref(text)),
            Value::Array(items) => Self::List(List::Tree(items, None)),
            Value::Object(map) => Self::Map(Entries::Tree(map, None)),
        }
    }

    /// Text that was made.
    pub fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(Text::Own(text.into()))
    }

    /// A quantity.
    #[must_use]
    pub fn quantity(quantity: Quantity) -> Self {
        Self::Quantity(Rc::new(quantity))
    }

    /// A version as <https://semver.org> writes it.
    ///
    /// # Errors
    /// The text is no version.
    pub fn semver(text: &str) -> Result<Self, Error> {
        Semver::read(text)
            .map(|version| Self::Semver(Rc::new(version)))
            .map_err(|error| Error::failed(error.to_string()))
    }

    /// A map that was made, from text to values.
    pub fn map(entries: impl IntoIterator<Item = (Text<'a>, Val<'a>)>) -> Self {
        Self::Map(Entries::Own(Rc::new(keyed(entries))))
    }

    /// As [`Val::map`], where the value of an absent key is an empty map.
    pub fn defaulting_map(entries: impl IntoIterator<Item = (Text<'a>, Val<'a>)>) -> Self {
        Self::Map(Entries::Defaulting(Rc::new(keyed(entries))))
    }

    /// A list that was made.
    #[must_use]
    pub fn list(items: Vec<Val<'a>>) -> Self {
        Self::List(List::Own(items.into()))
    }

    /// A value that is there.
    #[must_use]
    pub fn some(value: Val<'a>) -> Self {
        Self::Optional(Some(Rc::new(value)))
    }

    /// The truth value, when it is one.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The text, when it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The name of its type, as `type(x)` shows it.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(Entries::Tree(_, Some(schema))) if schema.is_object() => "object",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(..) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Check(check) => check.type_name(),
            Self::Object(made) => made.name,
        }
    }

    /// How large it is, as costs count it: characters of text, bytes, items; 1 for all else.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Text(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(inner)) => inner.size(),
            Self::Ip(IpAddr::V4(_)) => 4,
            Self::Ip(IpAddr::V6(_)) => 16,
            Self::Cidr(_, bits) => u64::from(bits.div_ceil(8)),
            _ => 1,
        }
    }

    /// Whether it is the zero of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(truth) => !truth,
            Self::Int(number) => *number == 0,
            Self::Uint(number) => *number == 0,
            Self::Double(number) => *number == 0.0,
            Self::Text(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Duration(nanos) => *nanos == 0,
            Self::Timestamp(moment) => moment.seconds == YEAR_ONE && moment.nanos == 0,
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::Optional(inner) => inner.is_none(),
            Self::Object(made) => made.fields.is_empty(),
            _ => false,
        }
    }
}

impl<'a> List<'a> {
    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Tree(items, _) => items.len(),
            Self::Own(items) => items.len(),
        }
    }

    /// Returns whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, index: usize) -> Option<Result<Val<'a>, Error>> {
        match self {
            Self::Tree(items, schema) => items
                .get(index)
                .map(|item| declared(item, schema.and_then(Schema::items))),
            Self::Own(items) => items.get(index).cloned().map(Ok),
        }
    }

    /// All items.
    pub(crate) fn to_vec(&self) -> Result<Vec<Val<'a>>, Error> {
        match self {
            Self::Tree(items, schema) => {
                let of = schema.and_then(Schema::items);
                items.iter().map(|item| declared(item, of)).collect()
            }
            Self::Own(items) => Ok(items.to_vec()),
        }
    }
}

impl<'a> Entries<'a> {
    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Tree(map, None) => map.len(),
            // undeclared fields are absent
            Self::Tree(map, Some(schema)) if schema.is_object() => {
                map.keys().filter(|key| schema.field(key).is_some()).count()
            }
            Self::Tree(map, _) => map.len(),
            Self::Own(map) | Self::Defaulting(map) => map.len(),
            Self::Lazy(_) => 1,
        }
    }

    /// Returns whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a text key.
    pub(crate) fn get_text(&self, key: &str) -> Option<Result<Val<'a>, Error>> {
        match self {
            Self::Tree(map, None) => map.get(key).map(|value| Ok(Val::tree(value))),
            Self::Tree(map, Some(schema)) => {
                let (name, of): (&str, &'a Schema) = schema.member(key)?;
                map.get(name).map(|value| declared(value, Some(of)))
            }
            Self::Own(map) => map.get(&Key::Text(Text::Ref(key))).cloned().map(Ok),
            Self::Defaulting(map) => Some(Ok(match map.get(&Key::Text(Text::Ref(key))) {
                Some(value) => value.clone(),
                None => Val::Map(Entries::Own(Rc::default())),
            })),
            Self::Lazy(lazy) => lazy.get(key),
        }
    }

    pub(crate) fn get(&self, key: &Key<'a>) -> Option<Result<Val<'a>, Error>> {
        match (self, key) {
            (_, Key::Text(text)) => self.get_text(text),
            (Self::Own(map), key) => map.get(key).cloned().map(Ok),
            _ => None,
        }
    }

    /// Whether the key is `in` the map.
    pub(crate) fn contains(&self, key: &Key<'a>) -> bool {
        match self {
            Self::Defaulting(map) => map.contains_key(key),
            _ => self.get(key).is_some(),
        }
    }

    /// All entries, ordered by key where the expression made them.
    pub(crate) fn pairs(&self) -> Result<Vec<(Val<'a>, Val<'a>)>, Error> {
        match self {
            Self::Tree(map, None) => Ok(map
                .iter()
                .map(|(key, value)| (Val::Text(Text::Ref(key.as_str())), Val::tree(value)))
                .collect()),
            Self::Tree(map, Some(schema)) => map
                .iter()
                .filter_map(|(key, value)| {
                    let (shown, of) = schema.field(key)?;
                    Some((shown.unwrap_or(key.as_str()), value, of))
                })
                .map(|(key, value, of)| Ok((Val::Text(Text::Ref(key)), declared(value, Some(of))?)))
                .collect(),
            Self::Own(map) | Self::Defaulting(map) => Ok(map
                .iter()
                .map(|(key, value)| (key.clone().into(), value.clone()))
                .collect()),
            Self::Lazy(_) => Ok(Vec::new()),
        }
    }
}

fn keyed<'a>(entries: impl IntoIterator<Item = (Text<'a>, Val<'a>)>) -> BTreeMap<Key<'a>, Val<'a>> {
    let entries = entries.into_iter();
    entries
        .map(|(key, value)| (Key::Text(key), value))
        .collect()
}

impl<'a> From<Key<'a>> for Val<'a> {
    fn from(key: Key<'a>) -> Self {
        match key {
            Key::Bool(truth) => Self::Bool(truth),
            Key::Int(number) => Self::Int(number),
            Key::Uint(number) => Self::Uint(number),
            Key::Text(text) => Self::Text(text),
        }
    }
}

impl<'a> Key<'a> {
    /// The value as a key, when it can be one. A double is one when it is whole.
    pub(crate) fn from_value(value: &Val<'a>) -> Option<Self> {
        Some(match value {
            Val::Bool(truth) => Self::Bool(*truth),
            Val::Int(number) => Self::Int(*number),
            Val::Uint(number) => Self::Uint(*number),
            Val::Text(text) => Self::Text(text.clone()),
            Val::Double(number) => {
                let whole = *number as i64;
                if whole as f64 == *number && number.abs() < 9.2e18 {
                    Self::Int(whole)
                } else {
                    return None;
                }
            }
            _ => return None,
        })
    }

    fn rank(&self) -> (u8, i128) {
        match self {
            Self::Bool(truth) => (0, i128::from(*truth)),
            Self::Int(number) => (1, i128::from(*number)),
            Self::Uint(number) => (1, i128::from(*number)),
            Self::Text(_) => (2, 0),
        }
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => (**a).cmp(&**b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key<'_> {}
