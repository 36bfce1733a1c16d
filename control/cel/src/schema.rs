//! Declarations of a custom resource's schema for a value: its representation in the tree,
//! its maximum size.

use std::sync::Arc;

use control_types::value::Value;

use crate::names;
use crate::parser::RESERVED;

/// The largest request that a server takes, in bytes; bounds what declares no limit.
pub(crate) const LARGEST_REQUEST: i64 = 3 * 1024 * 1024;

/// A declared value. Shared: types of expressions point into it.
#[derive(Clone, Debug)]
pub struct Schema {
    pub(crate) shape: Shape,
    pub(crate) nullable: bool,
    /// Characters, bytes, items or entries that it has at most.
    pub(crate) most: i64,
    /// Bytes of its smallest JSON form.
    pub(crate) least_bytes: i64,
    /// The maximum length of a map's keys; unlimited for custom resources.
    pub(crate) longest_key: i64,
}

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// Any type; only its size is known.
    Any,
    /// A number or text.
    IntOrString,
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    Timestamp,
    List(Arc<Schema>, ListKind),
    Map(Arc<Schema>),
    Object(Vec<Field>),
}

/// The equality of lists.
#[derive(Clone, Debug)]
pub(crate) enum ListKind {
    /// Equal items in the same order.
    Atomic,
    /// Equal items in any order.
    Set,
    /// Items are identified by these fields.
    Map(Vec<String>),
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// As the schema names it.
    pub name: String,
    /// As expressions name it, when that differs.
    pub escaped: Option<String>,
    pub of: Arc<Schema>,
}

impl Field {
    /// Returns whether this is its name in expressions. Reserved words may follow a dot
    /// unescaped.
    fn is_called(&self, name: &str) -> bool {
        match &self.escaped {
            None => self.name == name,
            Some(escaped) => escaped == name || (self.name == name && RESERVED.contains(&name)),
        }
    }
}

impl Schema {
    /// Reads an OpenAPI v3 schema as a `CustomResourceDefinition` has it. Answers
    /// nothing when expressions cannot see such a value: one without a type, or
    /// made of such. `root`: the schema of a whole object, in which `apiVersion`,
    /// `kind`, `metadata.name` and `metadata.generateName` are always declared.
    #[must_use]
    pub fn read_declaration(schema: &Value, root: bool) -> Option<Arc<Self>> {
        let number = |key: &str| schema.get(key).and_then(Value::as_i64).map(|n| n.max(0));
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or("");
        let truth = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
        let nullable = truth("nullable");
        let simple = |shape, most, least_bytes| {
            Some(Arc::new(Self {
                shape,
                nullable,
                most,
                least_bytes,
                longest_key: 0,
            }))
        };
        if truth("x-kubernetes-int-or-string") {
            let most = number("maxLength").map_or(LARGEST_REQUEST - 2, |n| n.saturating_mul(4));
            return simple(Shape::IntOrString, most, 1);
        }
        match text("type") {
            "array" => {
                let items = schema.get("items")?;
                let embedded = is_embedded(items);
                let items = Self::read_declaration(items, embedded)?;
                let most = number("maxItems")
                    .unwrap_or((LARGEST_REQUEST - 2) / (items.least_bytes.saturating_add(1)));
                let kind = match text("x-kubernetes-list-type") {
                    "set" => ListKind::Set,
                    "map" => ListKind::Map(
                        schema
                            .items_at(&["x-kubernetes-list-map-keys"])
                            .iter()
                            .filter_map(|key| key.as_str().map(str::to_owned))
                            .collect(),
                    ),
                    _ => ListKind::Atomic,
                };
                simple(Shape::List(items, kind), most, 2)
            }
            "object" => Self::read_object(schema, root, nullable),
            "string" => {
                let in_request = LARGEST_REQUEST - 2;
                match text("format") {
                    "byte" => simple(Shape::Bytes, number("maxLength").unwrap_or(in_request), 2),
                    "duration" => simple(Shape::Duration, 32, 3),
                    "date" => simple(Shape::Date, 12, 12),
                    "date-time" => simple(Shape::Timestamp, 32, 21),
                    _ => {
                        let most = number("maxLength").map(|n| n.saturating_mul(4));
                        let longest = schema
                            .items_at(&["enum"])
                            .iter()
                            .map(|one| one.as_str().map_or(0, str::len) as i64)
                            .max();
                        simple(Shape::String, most.or(longest).unwrap_or(in_request), 2)
                    }
                }
            }
            "boolean" => simple(Shape::Bool, 0, 4),
            "number" => simple(Shape::Double, 0, 1),
            "integer" => simple(Shape::Int, 0, 1),
            _ => None,
        }
    }

    fn read_object(schema: &Value, root: bool, nullable: bool) -> Option<Arc<Self>> {
        let number = |key: &str| schema.get(key).and_then(Value::as_i64).map(|n| n.max(0));
        let values = schema.get("additionalProperties");
        if let Some(values) = values.filter(|values| values.as_object().is_some()) {
            let embedded = is_embedded(values);
            let values = Self::read_declaration(values, embedded)?;
            let most = number("maxProperties")
                .unwrap_or((LARGEST_REQUEST - 2) / (values.least_bytes.saturating_add(6)));
            return Some(Arc::new(Self {
                shape: Shape::Map(values),
                nullable,
                most,
                least_bytes: 2,
                longest_key: 0,
            }));
        }
        let required = schema.items_at(&["required"]);
        let mut fields = Vec::new();
        let mut least_bytes = 2_i64;
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flat_map(control_types::Map::iter) {
            if root && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                continue;
            }
            let Some(of) = Self::read_declaration(property, is_embedded(property)) else {
                continue;
            };
            if required.iter().any(|one| one.as_str() == Some(name))
                && property.get("default").is_none()
            {
                least_bytes = least_bytes
                    .saturating_add(name.len() as i64)
                    .saturating_add(of.least_bytes)
                    .saturating_add(4);
            }
            if let Some(escaped) = names::escape(name.as_str()) {
                fields.push(Field {
                    name: name.as_str().to_owned(),
                    escaped: (escaped != name.as_str()).then(|| escaped.into_owned()),
                    of,
                });
            }
        }
        if root {
            let text = Arc::new(Self {
                shape: Shape::String,
                nullable: false,
                most: LARGEST_REQUEST - 2,
                least_bytes: 2,
                longest_key: 0,
            });
            let field = |name: &str, of: Arc<Self>| Field {
                name: name.to_owned(),
                escaped: None,
                of,
            };
            let metadata = Arc::new(Self {
                shape: Shape::Object(vec![
                    field("name", text.clone()),
                    field("generateName", text.clone()),
                ]),
                nullable: false,
                most: 0,
                least_bytes: 2,
                longest_key: 0,
            });
            fields.push(field("apiVersion", text.clone()));
            fields.push(field("kind", text));
            fields.push(field("metadata", metadata));
        }
        Some(Arc::new(Self {
            shape: Shape::Object(fields),
            nullable,
            most: 0,
            least_bytes,
            longest_key: 0,
        }))
    }

    fn sized(shape: Shape, most: i64) -> Arc<Self> {
        Arc::new(Self {
            shape,
            nullable: false,
            most,
            least_bytes: 1,
            longest_key: 0,
        })
    }

    /// A value of any type that is no larger than this.
    #[must_use]
    pub fn any(most: i64) -> Arc<Self> {
        Self::sized(Shape::Any, most)
    }

    /// Text of so many characters at most.
    #[must_use]
    pub fn text(most: i64) -> Arc<Self> {
        Self::sized(Shape::String, most)
    }

    /// A map of so many entries at most, whose keys have so many characters at most.
    #[must_use]
    pub fn map(values: Arc<Self>, most: i64, longest_key: i64) -> Arc<Self> {
        Arc::new(Self {
            shape: Shape::Map(values),
            nullable: false,
            most,
            least_bytes: 1,
            longest_key,
        })
    }

    /// An object with these fields.
    #[must_use]
    pub fn object<'f>(fields: impl IntoIterator<Item = (&'f str, Arc<Self>)>) -> Arc<Self> {
        let field = |(name, of): (&str, Arc<Self>)| Field {
            name: name.to_owned(),
            escaped: None,
            of,
        };
        Self::sized(Shape::Object(fields.into_iter().map(field).collect()), 0)
    }

    /// Returns the values of a map with values of any type.
    pub(crate) fn any_items(&self) -> Option<&Self> {
        self.items()
            .filter(|items| matches!(items.shape, Shape::Any))
    }

    /// The schema of a list's items or a map's values.
    #[must_use]
    pub fn items(&self) -> Option<&Self> {
        match &self.shape {
            Shape::List(items, _) | Shape::Map(items) => Some(items),
            _ => None,
        }
    }

    /// As [`Self::items`], to be kept.
    #[must_use]
    pub fn items_shared(&self) -> Option<Arc<Self>> {
        match &self.shape {
            Shape::List(items, _) | Shape::Map(items) => Some(Arc::clone(items)),
            _ => None,
        }
    }

    /// The schema of a field, by the name that expressions use.
    #[must_use]
    pub fn property(&self, escaped: &str) -> Option<&Arc<Self>> {
        match &self.shape {
            Shape::Object(fields) => fields
                .iter()
                .find(|field| field.is_called(escaped))
                .map(|field| &field.of),
            _ => None,
        }
    }

    /// Returns the maximum number of characters, bytes, items or entries; 0 for values
    /// without a size.
    #[must_use]
    pub const fn most(&self) -> i64 {
        self.most
    }

    /// Returns the maximum number of such values in one request: bounds how often a rule
    /// on items of unlimited lists and maps runs.
    #[must_use]
    pub fn most_in_request(&self) -> u64 {
        u64::try_from(LARGEST_REQUEST / (self.least_bytes + 1)).unwrap_or(u64::MAX)
    }

    pub(crate) const fn is_map(&self) -> bool {
        matches!(self.shape, Shape::Map(_))
    }

    pub(crate) const fn is_object(&self) -> bool {
        matches!(self.shape, Shape::Object(_))
    }

    pub(crate) const fn list_kind(&self) -> Option<&ListKind> {
        match &self.shape {
            Shape::List(_, kind) => Some(kind),
            _ => None,
        }
    }

    /// How expressions name the field `name` when differently, and its schema.
    pub(crate) fn field(&self, name: &str) -> Option<(Option<&str>, &Self)> {
        match &self.shape {
            Shape::Object(fields) => fields
                .iter()
                .find(|field| field.name == name)
                .map(|field| (field.escaped.as_deref(), &*field.of)),
            Shape::Map(values) => Some((None, values)),
            _ => None,
        }
    }

    /// The name in the tree and the schema of what expressions call `key`.
    pub(crate) fn member<'s, 'k>(&'s self, key: &'k str) -> Option<(&'k str, &'s Self)>
    where
        's: 'k,
    {
        match &self.shape {
            Shape::Object(fields) => fields
                .iter()
                .find(|field| field.is_called(key))
                .map(|field| (field.name.as_str(), &*field.of)),
            Shape::Map(values) => Some((key, values)),
            _ => None,
        }
    }
}

fn is_embedded(schema: &Value) -> bool {
    schema
        .get("x-kubernetes-embedded-resource")
        .and_then(Value::as_bool)
        .unwrap_or(false)
}

impl PartialEq for Schema {
    /// Two declarations are one type when they are the same.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
