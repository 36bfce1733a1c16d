//! Types of values.

use std::fmt;
use std::sync::Arc;

use crate::schema::{Schema, Shape};

/// A message type whose fields are known.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// Name, as errors show it.
    pub name: &'static str,
    /// Fields and their types; the types are made on demand, since they nest.
    pub fields: &'static [(&'static str, fn() -> Type)],
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Known only when the expression runs.
    Dyn,
    /// The type after an error: it fits everywhere, so that the error is reported once.
    Error,
    /// `null`.
    Null,
    /// A truth value.
    Bool,
    /// A signed integer of 64 bits.
    Int,
    /// An unsigned integer of 64 bits.
    Uint,
    /// A floating point number of 64 bits.
    Double,
    /// Text.
    String,
    /// Bytes.
    Bytes,
    /// A span of time.
    Duration,
    /// A moment.
    Timestamp,
    /// Items of one type.
    List(Box<Type>),
    /// Values of one type by keys of another.
    Map(Box<Type>, Box<Type>),
    /// A value that may be missing.
    Optional(Box<Type>),
    /// A type as a value.
    Type(Box<Type>),
    /// A type of a library, such as `kubernetes.Quantity`.
    Opaque(&'static str),
    /// A message with known fields.
    Object(&'static Object),
    /// An object as a custom resource's schema declares it.
    Declared(Arc<Schema>),
    /// The result of a mutation: `Object`, `Object.spec`, …, `JSONPatch`.
    Made(Arc<str>),
    /// A set of named values that is known only at run time, such as a policy's variables.
    Record(Vec<(String, Type)>),
    /// A placeholder in a function's signature, or the type of the items of `[]`.
    Param(char),
}

impl Type {
    /// A list of `items`.
    #[must_use]
    pub fn list(items: Type) -> Self {
        Self::List(Box::new(items))
    }

    /// A map from text to `values`.
    #[must_use]
    pub fn map(values: Type) -> Self {
        Self::Map(Box::new(Self::String), Box::new(values))
    }

    /// Returns the type of mutation results called `name`: `Object` or `JSONPatch`.
    #[must_use]
    pub fn made(name: &str) -> Self {
        Self::Made(name.into())
    }

    /// Returns the declared name, which differs for a few types from what the checker
    /// shows: `google.protobuf.Timestamp`, `null_type`.
    #[must_use]
    pub fn declared_name(&self) -> String {
        match self {
            Self::Null => "null_type".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Self::List(items) => format!("list({})", items.declared_name()),
            Self::Optional(inner) => format!("optional_type({})", inner.declared_name()),
            Self::Type(inner) => format!("type({})", inner.declared_name()),
            Self::Map(keys, values) => {
                format!("map({}, {})", keys.declared_name(), values.declared_name())
            }
            other => other.to_string(),
        }
    }

    /// Returns whether it contains an unbound placeholder.
    pub(crate) fn is_unbound(&self) -> bool {
        match self {
            Self::Param(_) => true,
            Self::List(inner) | Self::Optional(inner) | Self::Type(inner) => inner.is_unbound(),
            Self::Map(keys, values) => keys.is_unbound() || values.is_unbound(),
            _ => false,
        }
    }

    /// The type with `dyn` for all that nothing has bound.
    pub(crate) fn settled(self) -> Self {
        match self {
            Self::Param(_) => Self::Dyn,
            Self::List(inner) => Self::List(Box::new(inner.settled())),
            Self::Optional(inner) => Self::Optional(Box::new(inner.settled())),
            Self::Type(inner) => Self::Type(Box::new(inner.settled())),
            Self::Map(keys, values) => {
                Self::Map(Box::new(keys.settled()), Box::new(values.settled()))
            }
            other => other,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error | Self::Param(_))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Duration => f.write_str("duration"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::List(items) => write!(f, "list({items})"),
            Self::Map(keys, values) => write!(f, "map({keys}, {values})"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Type(inner) => write!(f, "type({inner})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Object(object) => f.write_str(object.name),
            Self::Declared(_) => f.write_str("object"),
            Self::Made(name) => f.write_str(name),
            Self::Record(_) => f.write_str("record"),
            Self::Param(name) => write!(f, "{name}"),
        }
    }
}

impl Schema {
    /// Its type in expressions.
    #[must_use]
    pub fn type_of(self: &Arc<Self>) -> Type {
        match &self.shape {
            Shape::Any | Shape::IntOrString => Type::Dyn,
            Shape::Bool => Type::Bool,
            Shape::Int => Type::Int,
            Shape::Double => Type::Double,
            Shape::String => Type::String,
            Shape::Bytes => Type::Bytes,
            Shape::Duration => Type::Duration,
            Shape::Date | Shape::Timestamp => Type::Timestamp,
            Shape::List(items, _) => Type::list(items.type_of()),
            Shape::Map(values) => Type::map(values.type_of()),
            Shape::Object(_) => Type::Declared(self.clone()),
        }
    }
}

/// Whether a type says less than another that it fits.
fn less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn, b) => !matches!(b, Type::Dyn),
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
            less_specific(a, b)
        }
        (Type::Map(a, b), Type::Map(c, d)) => {
            let less = |a: &Type, b: &Type| a == b || less_specific(a, b);
            less(a, c) && less(b, d) && (a != c || b != d)
        }
        _ => false,
    }
}

/// The bindings of a signature's placeholders in one call.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeBindings(Vec<(char, Type)>);

impl TypeBindings {
    fn get(&self, name: char) -> Option<&Type> {
        self.0
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, of)| of)
    }

    /// Returns whether a value of type `given` is acceptable for `wanted`.
    pub fn fits(&mut self, wanted: &Type, given: &Type) -> bool {
        if let Type::Param(name) = wanted {
            let Some(bound) = self.get(*name).cloned() else {
                self.0.push((*name, given.clone()));
                return true;
            };
            // the most general type counts, and a specified type before an unspecified
            // one
            let more = match &bound {
                Type::Null | Type::Param(_) => !given.is_open(),
                bound => less_specific(given, bound),
            };
            if more {
                self.0.retain(|(known, _)| known != name);
                self.0.push((*name, given.clone()));
            }
            return matches!(bound, Type::Param(_)) || Self::default().fits(&bound, given);
        }
        if wanted.is_open() || given.is_open() {
            return true;
        }
        match (wanted, given) {
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.fits(a, b)
            }
            // types as values can always be compared
            (Type::Type(_), Type::Type(_)) => true,
            (Type::Map(a, b), Type::Map(c, d)) => self.fits(a, c) && self.fits(b, d),
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null
                    | Type::Duration
                    | Type::Timestamp
                    | Type::Object(_)
                    | Type::Made(_)
                    | Type::Opaque(_)
                    | Type::Optional(_)
            ),
            (a, b) => a == b,
        }
    }

    /// `of` with its placeholders replaced; those that nothing bound are open.
    pub fn apply(&self, of: &Type) -> Type {
        match of {
            Type::Param(name) => match self.get(*name) {
                Some(Type::Param(_)) | None => Type::Param('_'),
                Some(bound) => bound.clone(),
            },
            Type::List(items) => Type::List(Box::new(self.apply(items))),
            Type::Optional(inner) => Type::Optional(Box::new(self.apply(inner))),
            Type::Type(inner) => Type::Type(Box::new(self.apply(inner))),
            Type::Map(keys, values) => {
                Type::Map(Box::new(self.apply(keys)), Box::new(self.apply(values)))
            }
            other => other.clone(),
        }
    }
}
