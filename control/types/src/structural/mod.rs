//! Structural schemas: the schemas of a CustomResourceDefinition in a compact form,
//! compiled once for each version.
//!
//! A schema arrives as `JSONSchemaProps` (`spec.versions[].schema.openAPIV3Schema`,
//! validated when the definition was written) and becomes a tree of [`Schema`]s without
//! descriptions and absent parts. Pruning ([`prune`](Schema::prune)), defaulting
//! ([`fill_defaults`](Schema::fill_defaults)) and validation work on that tree. KEP-1027
//! and the documentation of `apiextensions.k8s.io/v1` are the specification.

mod compile;
mod default;
mod pattern;
mod prune;

use crate::value::{Key, Value};

pub use compile::is_format;
pub use pattern::Pattern;

/// The types that a value may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Types(u8);

/// A schema of one value.
#[derive(Debug, Default)]
pub struct Schema {
    types: Types,
    flags: u16,
    /// Sorted by name.
    properties: Box<[(Key, Schema)]>,
    additional: Additional,
    items: Option<Box<Schema>>,
    default: Option<Box<Value>>,
    rules: Option<Box<Rules>>,
}

/// What is allowed besides the properties.
#[derive(Debug, Default)]
pub enum Additional {
    /// Not specified: further members are pruned.
    #[default]
    Unsaid,
    /// Anything.
    Any,
    /// There are none.
    None,
    /// Values of a schema.
    Of(Box<Schema>),
}

/// The validation rules of a value besides its type.
#[derive(Debug, Default)]
pub struct Rules {
    /// The values that are allowed; empty: any.
    pub r#enum: Box<[Value]>,
    /// Name of a format that is checked; empty: none.
    pub format: Box<str>,
    /// The pattern that text must match.
    pub pattern: Option<Pattern>,
    /// Greatest number.
    pub maximum: Option<f64>,
    /// Whether the greatest number is not allowed itself.
    pub exclusive_maximum: bool,
    /// Least number.
    pub minimum: Option<f64>,
    /// Whether the least number is not allowed itself.
    pub exclusive_minimum: bool,
    /// The number that a value must be a multiple of.
    pub multiple_of: Option<f64>,
    /// Greatest number of characters.
    pub max_length: Option<i64>,
    /// Least number of characters.
    pub min_length: Option<i64>,
    /// Greatest number of items.
    pub max_items: Option<i64>,
    /// Least number of items.
    pub min_items: Option<i64>,
    /// Greatest number of members.
    pub max_properties: Option<i64>,
    /// Least number of members.
    pub min_properties: Option<i64>,
    /// Members that must be there.
    pub required: Box<[Key]>,
    /// All must hold.
    pub all_of: Box<[Schema]>,
    /// At least one must hold.
    pub any_of: Box<[Schema]>,
    /// Exactly one must hold.
    pub one_of: Box<[Schema]>,
    /// The schema that must not match.
    pub not: Option<Box<Schema>>,
    /// The members that tell items of a `map` list apart.
    pub list_map_keys: Box<[&'static str]>,
    /// `x-kubernetes-validations`, as they are written.
    pub validations: Box<[Value]>,
}

/// `nullable`
const NULLABLE: u16 = 1;
/// `x-kubernetes-int-or-string`
const INT_OR_STRING: u16 = 2;
/// `x-kubernetes-preserve-unknown-fields`
const PRESERVE: u16 = 4;
/// `x-kubernetes-embedded-resource`
const EMBEDDED: u16 = 8;
/// `uniqueItems`
const UNIQUE: u16 = 16;
/// `x-kubernetes-list-type: set`
const SET: u16 = 32;
/// `x-kubernetes-list-type: map`
const MAP: u16 = 64;
/// `x-kubernetes-map-type: atomic`
const ATOMIC: u16 = 128;
/// The schema of the whole object.
const ROOT: u16 = 256;
/// There are defaults in it or below it.
const DEFAULTS: u16 = 512;
/// There are lists with unique items (`set`, `map`) in it or below it.
const LISTS: u16 = 1024;
/// There are embedded resources in it or below it.
const RESOURCES: u16 = 2048;
/// There are `x-kubernetes-validations` in it or below it.
const VALIDATIONS: u16 = 4096;

/// How a list is merged and which of its items are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType<'a> {
    /// The list is one value.
    Atomic,
    /// Items are identified by their values.
    Set,
    /// Items are identified by some of their members.
    Map(&'a [&'static str]),
}

impl Types {
    /// `object`
    pub const OBJECT: Self = Self(1);
    /// `array`
    pub const ARRAY: Self = Self(2);
    /// `string`
    pub const STRING: Self = Self(4);
    /// `integer`
    pub const INTEGER: Self = Self(8);
    /// `number`
    pub const NUMBER: Self = Self(16);
    /// `boolean`
    pub const BOOLEAN: Self = Self(32);

    /// Whether it allows a type.
    #[must_use]
    pub const fn has(self, of: Self) -> bool {
        self.0 & of.0 != 0
    }

    /// Returns whether the type is not specified.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.0 == 0
    }

    /// The one type, if it is one.
    #[must_use]
    pub fn only(self) -> Option<Self> {
        (self.0.count_ones() == 1).then_some(self)
    }

    /// As messages name it: `integer,string`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            1 => "object",
            2 => "array",
            4 => "string",
            8 => "integer",
            16 => "number",
            32 => "boolean",
            12 => "integer,string",
            _ => "",
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "object" => Self::OBJECT,
            "array" => Self::ARRAY,
            "string" => Self::STRING,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "boolean" => Self::BOOLEAN,
            _ => Self(0),
        }
    }
}

impl Schema {
    /// The types that a value may have.
    #[must_use]
    pub const fn types(&self) -> Types {
        self.types
    }

    /// Whether `null` is a value.
    #[must_use]
    pub const fn is_nullable(&self) -> bool {
        self.flags & NULLABLE != 0
    }

    /// Whether it is a whole number or a text.
    #[must_use]
    pub const fn is_int_or_string(&self) -> bool {
        self.flags & INT_OR_STRING != 0
    }

    /// Whether members that it does not know are kept.
    #[must_use]
    pub const fn preserves_unknown(&self) -> bool {
        self.flags & PRESERVE != 0
    }

    /// Whether it is an object with kind, version and metadata within the object.
    #[must_use]
    pub const fn is_embedded(&self) -> bool {
        self.flags & EMBEDDED != 0
    }

    /// Whether it is the whole object, or one embedded in it: kind, version and
    /// metadata are known without being stated.
    #[must_use]
    pub const fn is_resource(&self) -> bool {
        self.flags & (EMBEDDED | ROOT) != 0
    }

    /// Whether items may not come twice.
    #[must_use]
    pub const fn has_unique_items(&self) -> bool {
        self.flags & UNIQUE != 0
    }

    /// Whether a map is merged as one value.
    #[must_use]
    pub const fn is_atomic(&self) -> bool {
        self.flags & ATOMIC != 0
    }

    /// Whether there are lists with unique items in it.
    #[must_use]
    pub const fn has_lists(&self) -> bool {
        self.flags & LISTS != 0
    }

    /// Whether there are embedded resources in it.
    #[must_use]
    pub const fn has_resources(&self) -> bool {
        self.flags & RESOURCES != 0
    }

    /// Whether there are `x-kubernetes-validations` in it.
    #[must_use]
    pub const fn has_validations(&self) -> bool {
        self.flags & VALIDATIONS != 0
    }

    /// Returns how items of the list are identified.
    #[must_use]
    pub fn list_type(&self) -> ListType<'_> {
        match self.flags & (SET | MAP) {
            0 => ListType::Atomic,
            SET => ListType::Set,
            _ => ListType::Map(
                self.rules
                    .as_deref()
                    .map_or(&[], |rules| &*rules.list_map_keys),
            ),
        }
    }

    /// The properties, by name.
    #[must_use]
    pub const fn properties(&self) -> &[(Key, Self)] {
        &self.properties
    }

    /// The schema of a property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Self> {
        let at = self
            .properties
            .binary_search_by(|(known, _)| known.as_str().cmp(name))
            .ok()?;
        Some(&self.properties[at].1)
    }

    /// Returns what is allowed besides the properties.
    #[must_use]
    pub const fn additional(&self) -> &Additional {
        &self.additional
    }

    /// The schema of members beside the properties.
    #[must_use]
    pub fn additional_schema(&self) -> Option<&Self> {
        match &self.additional {
            Additional::Of(schema) => Some(schema),
            _ => None,
        }
    }

    /// The schema of a member: that of its property, else of all others.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Self> {
        self.property(name).or_else(|| self.additional_schema())
    }

    /// The schema of items.
    #[must_use]
    pub fn items(&self) -> Option<&Self> {
        self.items.as_deref()
    }

    /// The value of a member that is not there.
    #[must_use]
    pub fn default(&self) -> Option<&Value> {
        self.default.as_deref()
    }

    /// Returns the validation rules besides the type.
    #[must_use]
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_deref()
    }

    /// How much memory it takes beside itself, about.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        let below = |schemas: &[Self]| -> usize {
            schemas
                .iter()
                .map(|one| size_of::<Self>() + one.heap_size())
                .sum()
        };
        let boxed =
            |schema: Option<&Self>| schema.map_or(0, |one| size_of::<Self>() + one.heap_size());
        let mut size: usize = self
            .properties
            .iter()
            .map(|(key, one)| size_of::<(Key, Self)>() + key.heap_size() + one.heap_size())
            .sum();
        size += boxed(self.items()) + boxed(self.additional_schema());
        size += self
            .default()
            .map_or(0, |value| size_of::<Value>() + value.heap_size());
        if let Some(rules) = self.rules() {
            size += size_of::<Rules>();
            size += below(&rules.all_of) + below(&rules.any_of) + below(&rules.one_of);
            size += boxed(rules.not.as_deref());
            size += rules
                .r#enum
                .iter()
                .chain(&*rules.validations)
                .map(|value| size_of::<Value>() + value.heap_size())
                .sum::<usize>();
        }
        size
    }
}

#[cfg(test)]
mod tests;
