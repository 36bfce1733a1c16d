//! Schemas of the API's types: their fields, how these are encoded, and how lists merge.
//! Generated tables drive everything; nothing here knows a kind.

use std::sync::LazyLock;

use crate::generated::names::NAMES;
use crate::generated::schema::{DEFAULTS, FIELDS, GO_NAMES, GO_TYPES, MERGES, REFS, TYPES};
use crate::value::Key;

/// Number of a type within the generated tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u16);

/// The type of a field, item or map value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeRef {
    /// Text.
    String,
    /// Whole number of 32 bits.
    Int32,
    /// Whole number of 64 bits.
    Int64,
    /// Truth value.
    Bool,
    /// Float of 64 bits.
    Float,
    /// Bytes, in base64 within JSON.
    Bytes,
    /// `resource.Quantity`
    Quantity,
    /// `intstr.IntOrString`
    IntOrString,
    /// `metav1.Time`
    Time,
    /// `metav1.MicroTime`
    MicroTime,
    /// `metav1.Duration`
    Duration,
    /// Any JSON value, kept as it is.
    Any,
    /// Another type of the tables.
    Object(TypeId),
    /// A list.
    List(&'static TypeRef),
    /// A map with text keys.
    Map(&'static TypeRef),
}

impl TypeRef {
    /// Whether Go holds it as a struct, which `omitempty` never leaves out.
    #[must_use]
    pub fn is_go_struct(&self) -> bool {
        match self {
            Self::Quantity | Self::IntOrString | Self::Time | Self::MicroTime | Self::Duration => {
                true
            }
            Self::Object(inner) => inner.get().shape != Shape::Texts,
            _ => false,
        }
    }

    /// Whether there are structs of the tables below it.
    #[must_use]
    pub const fn holds_structs(&self) -> bool {
        match self {
            Self::Object(_) => true,
            Self::List(inner) | Self::Map(inner) => inner.holds_structs(),
            _ => false,
        }
    }
}

/// The limit on nested structs. Objects of the API nest about a dozen, and schemas in
/// custom resource definitions some dozens. Decoding rejects deeper objects, so that code
/// that walks an object never overflows the stack.
pub(crate) const MAX_NESTED: usize = 64;
/// How many messages that makes: what may be a schema or something else has one around.
pub(crate) const MAX_MESSAGES: usize = 2 * MAX_NESTED + 8;

/// How a type is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Fields.
    Struct,
    /// Any JSON; one bytes field in protobuf (`RawExtension`, `JSON`, `FieldsV1`).
    Any,
    /// A list of texts, that protobuf wraps in a message (`ExtraValue`, `Verbs`).
    Texts,
    /// A schema or a truth value.
    SchemaOrBool,
    /// A schema or an array of schemas.
    SchemaOrArray,
    /// A schema or an array of texts.
    SchemaOrTexts,
}

/// A type.
#[derive(Debug)]
pub struct Type {
    /// The name in OpenAPI: `io.k8s.api.core.v1.Pod`.
    pub name: &'static str,
    /// The name in Go's messages: `v1.Pod`.
    pub go: &'static str,
    /// How it is laid out.
    pub shape: Shape,
    /// Whether apply takes it as one (`x-kubernetes-map-type: atomic`).
    pub atomic: bool,
    /// Whether it is published in OpenAPI.
    pub published: bool,
    /// First field and number of fields.
    pub(crate) range: (u16, u16),
}

/// A field of a type, packed; read through its methods.
#[derive(Debug)]
pub struct Field {
    name: u16,
    number: u8,
    flags: u8,
    r#ref: u16,
    merge: u8,
    default: u8,
    go: u16,
}

/// The zero value is left out of JSON.
pub(crate) const OMITEMPTY: u8 = 1;
/// A pointer: a zero value differs from an absent one.
pub(crate) const POINTER: u8 = 2;
/// The fields of the type are inlined in JSON.
pub(crate) const INLINE: u8 = 4;
/// OpenAPI lists it as required.
pub(crate) const REQUIRED: u8 = 8;
/// A zero struct is left out of JSON.
pub(crate) const OMITZERO: u8 = 16;
/// Items of the list are pointers.
pub(crate) const ITEM_POINTER: u8 = 32;
/// Not published in OpenAPI.
pub(crate) const HIDDEN: u8 = 64;

/// How a list or map merges, for apply and for strategic merge patch: two
/// different sets of facts.
#[derive(Debug, PartialEq, Eq)]
pub struct Merge {
    /// `x-kubernetes-list-type`: `atomic`, `set`, `map`; empty for none.
    pub list_type: &'static str,
    /// `x-kubernetes-list-map-keys`
    pub list_map_keys: &'static [&'static str],
    /// `x-kubernetes-map-type`: `atomic`, `granular`; empty for none.
    pub map_type: &'static str,
    /// `x-kubernetes-patch-strategy`: `merge`, `retainKeys`, `replace`, both; empty for none.
    pub patch_strategy: &'static str,
    /// `x-kubernetes-patch-merge-key`; empty for none.
    pub patch_merge_key: &'static str,
}

/// A row of the generated field table.
#[allow(
    clippy::too_many_arguments,
    reason = "a generated table of many rows calls it"
)]
pub(crate) const fn f(
    name: u16,
    number: u8,
    flags: u8,
    r#ref: u16,
    merge: u8,
    default: u8,
    go: u16,
) -> Field {
    Field {
        name,
        number,
        flags,
        r#ref,
        merge,
        default,
        go,
    }
}

impl TypeId {
    /// The type of this number.
    ///
    /// # Panics
    /// Never for a number that comes from the tables.
    #[must_use]
    pub fn get(self) -> &'static Type {
        &TYPES[usize::from(self.0)]
    }

    /// The type with this name in OpenAPI.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        // The table is ordered by name.
        let at = TYPES.binary_search_by(|one| one.name.cmp(name)).ok()?;
        Some(Self(u16::try_from(at).ok()?))
    }

    /// The field of this JSON name, inlined ones included.
    #[must_use]
    pub fn field(self, name: &str) -> Option<&'static Field> {
        let key = Key::new(name);
        self.member(&key).map(|member| member.field)
    }

    /// The field of this key, inlined ones included.
    #[must_use]
    pub fn field_of(self, key: &Key) -> Option<&'static Field> {
        self.member(key).map(|member| member.field)
    }

    pub(crate) fn member(self, key: &Key) -> Option<&'static OrderedField> {
        let number = key.number()?;
        let members = self.members();
        let at = members
            .by_name
            .binary_search_by_key(&number, |(name, _)| *name)
            .ok()?;
        Some(&members.ordered[usize::from(members.by_name[at].1)])
    }

    /// Returns the fields in JSON order, with inlined ones in place.
    pub(crate) fn members(self) -> &'static OrderedFields {
        &MEMBERS[usize::from(self.0)]
    }

    /// Returns the JSON fields in Go's order, with those of inlined structs in place.
    pub fn fields(self) -> impl Iterator<Item = &'static Field> {
        self.members().ordered.iter().map(|member| member.field)
    }
}

impl Type {
    /// The name in Go without its package: `Pod`.
    #[must_use]
    pub fn go_name(&self) -> &'static str {
        self.go.split_once('.').map_or(self.go, |(_, name)| name)
    }

    /// The fields as they are declared: an inlined struct is one field.
    #[must_use]
    pub fn declared(&self) -> &'static [Field] {
        let (start, length) = (usize::from(self.range.0), usize::from(self.range.1));
        FIELDS.get(start..start + length).unwrap_or_default()
    }

    /// The name in Go of the declared field at this place.
    #[must_use]
    pub fn go_field_name(&self, at: usize) -> String {
        let place = usize::from(self.range.0) + at;
        let found = GO_NAMES.binary_search_by(|(known, _)| usize::from(*known).cmp(&place));
        if let Some((_, name)) = found.ok().and_then(|found| GO_NAMES.get(found)) {
            return (*name).to_owned();
        }
        let Some(field) = self.declared().get(at) else {
            return String::new();
        };
        let mut letters = field.name().chars();
        match letters.next() {
            Some(first) => std::iter::once(first.to_ascii_uppercase())
                .chain(letters)
                .collect(),
            // An embedded struct is called after its type.
            None => {
                let of = field.go_type();
                of.rsplit('.').next().unwrap_or(of).to_owned()
            }
        }
    }

    /// All types.
    #[must_use]
    pub fn all() -> &'static [Type] {
        TYPES
    }
}

impl Field {
    /// The JSON name; empty for an inlined struct.
    #[must_use]
    pub fn name(&self) -> &'static str {
        NAMES
            .get(usize::from(self.name))
            .copied()
            .unwrap_or_default()
    }

    pub(crate) const fn name_number(&self) -> u16 {
        self.name
    }

    /// The protobuf field number; 0 when it is not in protobuf.
    #[must_use]
    pub const fn number(&self) -> u8 {
        self.number
    }

    /// The type.
    #[must_use]
    pub fn type_ref(&self) -> TypeRef {
        REFS[usize::from(self.r#ref)]
    }

    /// The type, as the tables hold it.
    #[must_use]
    pub fn type_ref_static(&self) -> &'static TypeRef {
        &REFS[usize::from(self.r#ref)]
    }

    pub(crate) const fn ref_number(&self) -> usize {
        self.r#ref as usize
    }

    /// Whether a zero value differs from an absent one.
    #[must_use]
    pub const fn is_pointer(&self) -> bool {
        self.flags & POINTER != 0
    }

    /// Whether the zero value (of a struct: never) is left out of JSON.
    #[must_use]
    pub const fn omit_empty(&self) -> bool {
        self.flags & OMITEMPTY != 0
    }

    /// Whether a zero struct is left out of JSON.
    #[must_use]
    pub const fn omit_zero(&self) -> bool {
        self.flags & OMITZERO != 0
    }

    /// Returns whether the fields of its type are inlined.
    #[must_use]
    pub const fn is_inline(&self) -> bool {
        self.flags & INLINE != 0
    }

    /// Whether OpenAPI lists it as required.
    #[must_use]
    pub const fn is_required(&self) -> bool {
        self.flags & REQUIRED != 0
    }

    /// Whether the items of the list are pointers in Go.
    #[must_use]
    pub const fn has_pointer_items(&self) -> bool {
        self.flags & ITEM_POINTER != 0
    }

    /// Whether OpenAPI lists it at all.
    #[must_use]
    pub const fn is_published(&self) -> bool {
        self.flags & HIDDEN == 0
    }

    /// How its list or map merges.
    #[must_use]
    pub fn merge(&self) -> &'static Merge {
        &MERGES[usize::from(self.merge)]
    }

    /// The default that OpenAPI names, as JSON text; empty for none.
    #[must_use]
    pub fn default(&self) -> &'static str {
        DEFAULTS[usize::from(self.default)]
    }

    /// The type as Go names it in messages: `int32`, `[]v1.Container`, `v1.Protocol`.
    #[must_use]
    pub fn go_type(&self) -> &'static str {
        GO_TYPES[usize::from(self.go)]
    }
}

/// A field with its place in the order of Go's encoder.
#[derive(Debug)]
pub(crate) struct OrderedField {
    pub field: &'static Field,
    pub key: Key,
    pub order: u16,
    /// Names of the inlined structs around it, each with a dot behind: Go's messages have them.
    pub embedded: Box<str>,
}

#[derive(Debug, Default)]
pub(crate) struct OrderedFields {
    pub ordered: Vec<OrderedField>,
    /// Name number and place, ordered by name number.
    by_name: Vec<(u16, u16)>,
}

static MEMBERS: LazyLock<Vec<OrderedFields>> = LazyLock::new(|| {
    TYPES
        .iter()
        .map(|one| {
            let mut members = OrderedFields::default();
            flatten(one, "", &mut members.ordered);
            members.by_name = members
                .ordered
                .iter()
                .map(|member| (member.field.name_number(), member.order))
                .collect();
            members.by_name.sort_unstable();
            members
        })
        .collect()
});

fn flatten(one: &'static Type, embedded: &str, out: &mut Vec<OrderedField>) {
    for field in one.declared() {
        match field.type_ref() {
            TypeRef::Object(inner) if field.is_inline() => {
                let inner = inner.get();
                flatten(inner, &format!("{embedded}{}.", inner.go_name()), out);
            }
            _ => out.push(OrderedField {
                field,
                key: Key::new(field.name()),
                order: u16::try_from(out.len()).unwrap_or(u16::MAX),
                embedded: embedded.into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_name_and_fields_with_those_of_inlined_structs() {
        let pod = TypeId::by_name("io.k8s.api.core.v1.Pod").unwrap();
        assert_eq!(pod.get().go, "v1.Pod");
        assert!(pod.field("apiVersion").is_some());
        let volume = TypeId::by_name("io.k8s.api.core.v1.Volume").unwrap();
        let field = volume.field("emptyDir").unwrap();
        assert!(field.is_pointer() && field.omit_empty());
        assert!(volume.field("nope").is_none());
        assert!(TypeId::by_name("nope").is_none());
    }

    #[test]
    fn merge_facts_are_those_of_both_worlds() {
        let spec = TypeId::by_name("io.k8s.api.core.v1.Container").unwrap();
        let ports = spec.field("ports").unwrap();
        assert_eq!(ports.merge().list_map_keys, ["containerPort", "protocol"]);
        assert_eq!(ports.merge().patch_merge_key, "containerPort");
        assert_eq!(ports.merge().patch_strategy, "merge");
        assert_eq!(ports.go_type(), "[]v1.ContainerPort");
        let port = TypeId::by_name("io.k8s.api.core.v1.ContainerPort").unwrap();
        assert_eq!(port.field("protocol").unwrap().default(), "\"TCP\"");
    }

    #[test]
    fn tables_are_ordered_so_that_they_can_be_searched() {
        assert!(TYPES.is_sorted_by(|a, b| a.name < b.name));
        assert!(NAMES.is_sorted_by(|a, b| a < b));
    }
}
