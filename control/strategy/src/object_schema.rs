//! What the objects of a kind look like.

use control_fields::Schema;
use control_kinds::CustomKind;
use control_types::schema::TypeId;
use control_types::value::Value;
use control_types::{coerce, meta};

/// The schema of a kind's objects.
#[derive(Clone, Copy, Debug)]
pub enum ObjectSchema<'a> {
    /// The generated schema of a built-in kind.
    Typed(TypeId),
    /// The structural schema of a custom kind.
    Custom(&'a CustomKind),
}

impl<'a> ObjectSchema<'a> {
    /// Coerces a parsed object to the schema; drops unknown fields and returns their paths.
    ///
    /// # Errors
    /// When a value has the wrong type.
    pub fn coerce(self, object: &mut Value) -> Result<Vec<String>, coerce::Error> {
        match self {
            Self::Typed(of) => coerce::coerce(object, of),
            Self::Custom(kind) => kind.coerce(object),
        }
    }

    /// Coerces the result of a server-side apply.
    ///
    /// # Errors
    /// When a value has the wrong type.
    pub fn coerce_applied(self, object: &mut Value) -> Result<Vec<String>, coerce::Error> {
        match self {
            Self::Typed(of) => coerce::coerce(object, of),
            Self::Custom(kind) => kind.coerce_applied(object),
        }
    }

    /// Adds fields that are written even when they are zero.
    pub fn complete(self, object: &mut Value) {
        if let Self::Typed(of) = self {
            coerce::complete(object, of);
        }
    }

    /// As [`ObjectSchema::complete`], but leaves lists and maps as they are.
    pub fn fill(self, object: &mut Value) {
        if let Self::Typed(of) = self {
            coerce::fill(object, of);
        }
    }

    /// Returns the schema that field ownership needs.
    #[must_use]
    pub fn schema(self) -> Schema<'a> {
        match self {
            Self::Typed(of) => Schema::Struct(of),
            Self::Custom(kind) => Schema::Custom(kind.schema()),
        }
    }

    /// Returns an empty object of the kind.
    #[must_use]
    pub fn empty(self) -> Value {
        let mut empty = Value::object();
        match self {
            Self::Typed(of) => coerce::complete(&mut empty, of),
            Self::Custom(kind) => {
                let version = meta::join_api_version(kind.group, kind.version);
                meta::set_type(&mut empty, &version, kind.kind);
            }
        }
        empty
    }

    /// Returns the generated schema of a built-in kind.
    #[must_use]
    pub fn typed(self) -> Option<TypeId> {
        match self {
            Self::Typed(of) => Some(of),
            Self::Custom(_) => None,
        }
    }
}
