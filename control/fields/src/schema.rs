//! The type information for apply: which lists are maps or sets, which structs and maps
//! are atomic, which fields exist.
//!
//! A [`Schema`] is a view that is cheap to copy: of the generated tables for built-in
//! kinds, or deduced from values without a type (untyped parts, and kinds without a
//! schema). Another source of types is another variant.

use control_types::schema::{Merge, Shape, TypeId, TypeRef};
use control_types::structural;
use control_types::value::{Key, Value};

/// The type of one value.
#[derive(Clone, Copy, Debug)]
pub enum Schema<'a> {
    /// A type of the generated tables, with the merge facts of the field that
    /// has it.
    Table(&'a TypeRef, &'static Merge),
    /// A struct of the generated tables.
    Struct(TypeId),
    /// The schema of a custom resource definition.
    Custom(&'a structural::Schema),
    /// Any value; maps merge by key, lists are atomic.
    Deduced,
    /// Any value, as a whole.
    Untyped,
}

/// The possible kinds of a value. Several for types that allow any kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Atom<'a> {
    /// It can be a scalar.
    pub scalar: Option<Scalar>,
    /// It can be a list.
    pub list: Option<ListAtom<'a>>,
    /// It can be a map or struct.
    pub map: Option<MapAtom<'a>>,
}

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A number.
    Numeric,
    /// A text.
    String,
    /// A truth value.
    Boolean,
    /// Any scalar.
    Untyped,
}

/// How a list is merged, and of what.
#[derive(Clone, Copy, Debug)]
pub struct ListAtom<'a> {
    /// The type of its items.
    pub item: Schema<'a>,
    /// How items relate.
    pub relation: Relation<'a>,
}

/// The identity of list items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation<'a> {
    /// Not at all: the list is one.
    Atomic,
    /// By their values.
    Set,
    /// By these fields.
    Map(&'a [&'a str]),
}

/// The fields of a map or struct.
#[derive(Clone, Copy, Debug)]
pub struct MapAtom<'a> {
    fields: FieldSchemas<'a>,
    /// The type of members that are no fields; `None` where there are only fields.
    pub element: Option<Schema<'a>>,
    /// Whether it is taken as one.
    pub atomic: bool,
}

#[derive(Clone, Copy, Debug)]
enum FieldSchemas<'a> {
    None,
    Of(TypeId),
    Custom(&'a structural::Schema),
}

/// The default of a key field.
pub type Default = Option<Value>;

/// Facts of a value that no field describes.
static NO_MERGE: Merge = NOTHING;

const NOTHING: Merge = Merge {
    list_type: "",
    list_map_keys: &[],
    map_type: "",
    patch_strategy: "",
    patch_merge_key: "",
};

impl<'a> Schema<'a> {
    /// Returns the possible kinds of a value of this type.
    #[must_use]
    pub fn atom(self) -> Atom<'a> {
        match self {
            Self::Struct(of) => of_struct(of, &NO_MERGE),
            Self::Table(of, merge) => table(of, merge),
            Self::Custom(of) => custom(of),
            Self::Deduced => any(Self::Deduced, false),
            Self::Untyped => any(Self::Untyped, true),
        }
    }

    /// Whether nothing is known of the type but what values show.
    #[must_use]
    pub const fn is_deduced(self) -> bool {
        matches!(self, Self::Deduced | Self::Untyped)
    }
}

impl<'a> Atom<'a> {
    /// Returns the alternative that a value has; all of them for no value, `null` or an
    /// invalid value.
    #[must_use]
    pub fn narrow_to(self, value: Option<&Value>) -> Self {
        match value {
            Some(Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_))
                if self.scalar.is_some() =>
            {
                Self {
                    scalar: self.scalar,
                    ..Self::default()
                }
            }
            Some(Value::Array(_)) if self.list.is_some() => Self {
                list: self.list,
                ..Self::default()
            },
            Some(Value::Object(_)) if self.map.is_some() => Self {
                map: self.map,
                ..Self::default()
            },
            _ => self,
        }
    }

    /// The alternative that is taken when several are left.
    #[must_use]
    pub(crate) fn kind(&self) -> Kind<'a> {
        match (self.map, self.scalar, self.list) {
            (Some(map), _, _) => Kind::Map(map),
            (None, Some(scalar), _) => Kind::Scalar(scalar),
            (None, None, Some(list)) => Kind::List(list),
            (None, None, None) => Kind::Scalar(Scalar::Untyped),
        }
    }

    /// Whether two values of this type show the same alternatives.
    pub(crate) const fn alike(&self, other: &Self) -> bool {
        self.scalar.is_some() == other.scalar.is_some()
            && self.list.is_some() == other.list.is_some()
            && self.map.is_some() == other.map.is_some()
    }
}

/// One alternative of an [`Atom`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind<'a> {
    Scalar(Scalar),
    List(ListAtom<'a>),
    Map(MapAtom<'a>),
}

impl<'a> MapAtom<'a> {
    /// The type of a field.
    #[must_use]
    pub fn field(&self, name: &Key) -> Option<Schema<'a>> {
        match self.fields {
            FieldSchemas::None => None,
            FieldSchemas::Of(of) => {
                let field = of.field_of(name).filter(|field| field.is_published())?;
                Some(Schema::Table(field.type_ref_static(), field.merge()))
            }
            FieldSchemas::Custom(of) => {
                let known = of.is_resource().then(|| resource_field(name)).flatten();
                known.or_else(|| of.property(name).map(Schema::Custom))
            }
        }
    }

    /// The type of a member: that of its field, else that of all members.
    #[must_use]
    pub fn member(&self, name: &Key) -> Option<Schema<'a>> {
        self.field(name).or(self.element)
    }

    /// Returns the default of a field, which replaces an absent key field.
    #[must_use]
    pub fn default_of(&self, name: &str) -> Default {
        match self.fields {
            FieldSchemas::None => None,
            FieldSchemas::Of(of) => match of.field(name)?.default() {
                "" => None,
                text => Value::from_slice(text.as_bytes()).ok(),
            },
            FieldSchemas::Custom(of) => of.property(name)?.default().cloned(),
        }
    }
}

/// Any value: members are of the type `below`.
const fn any(below: Schema<'_>, atomic: bool) -> Atom<'_> {
    Atom {
        scalar: Some(Scalar::Untyped),
        list: Some(ListAtom {
            item: Schema::Untyped,
            relation: Relation::Atomic,
        }),
        map: Some(MapAtom {
            fields: FieldSchemas::None,
            element: Some(below),
            atomic,
        }),
    }
}

fn scalar<'a>(scalar: Scalar) -> Atom<'a> {
    Atom {
        scalar: Some(scalar),
        ..Atom::default()
    }
}

fn table<'a>(of: &'a TypeRef, merge: &'static Merge) -> Atom<'a> {
    match of {
        TypeRef::String | TypeRef::Bytes | TypeRef::Duration => scalar(Scalar::String),
        TypeRef::Int32 | TypeRef::Int64 | TypeRef::Float => scalar(Scalar::Numeric),
        TypeRef::Bool => scalar(Scalar::Boolean),
        TypeRef::Quantity | TypeRef::Time | TypeRef::MicroTime => scalar(Scalar::Untyped),
        TypeRef::IntOrString | TypeRef::Any => any(Schema::Deduced, false),
        TypeRef::Object(of) => of_struct(*of, merge),
        TypeRef::List(item) => Atom {
            list: Some(ListAtom {
                item: Schema::Table(item, &NO_MERGE),
                relation: relation(merge),
            }),
            ..Atom::default()
        },
        TypeRef::Map(value) => Atom {
            map: Some(MapAtom {
                fields: FieldSchemas::None,
                element: Some(Schema::Table(value, &NO_MERGE)),
                atomic: merge.map_type == "atomic",
            }),
            ..Atom::default()
        },
    }
}

/// The fields that every object has, and every object within one.
fn resource_field<'a>(name: &Key) -> Option<Schema<'a>> {
    match name.as_str() {
        "apiVersion" | "kind" => Some(Schema::Table(&TypeRef::String, &NO_MERGE)),
        "metadata" => {
            TypeId::by_name("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").map(Schema::Struct)
        }
        _ => None,
    }
}

/// Returns the kinds by a structural schema: its type decides; a schema without a type
/// allows any value.
fn custom(of: &structural::Schema) -> Atom<'_> {
    use structural::{Additional, ListType, Types};

    let types = of.types();
    if of.is_int_or_string() {
        return scalar(Scalar::Untyped);
    }
    match types.only() {
        Some(Types::OBJECT) => {
            let free = of.preserves_unknown()
                || (of.properties().is_empty() && matches!(of.additional(), Additional::Unsaid));
            let element = match of.additional() {
                Additional::Of(element) => Some(Schema::Custom(element)),
                Additional::Any => Some(Schema::Deduced),
                Additional::None => None,
                Additional::Unsaid => free.then_some(Schema::Deduced),
            };
            Atom {
                map: Some(MapAtom {
                    fields: FieldSchemas::Custom(of),
                    element,
                    atomic: of.is_atomic(),
                }),
                ..Atom::default()
            }
        }
        Some(Types::ARRAY) => Atom {
            list: Some(ListAtom {
                item: of.items().map_or(Schema::Deduced, Schema::Custom),
                relation: match of.list_type() {
                    ListType::Atomic => Relation::Atomic,
                    ListType::Set => Relation::Set,
                    ListType::Map(keys) => Relation::Map(keys),
                },
            }),
            ..Atom::default()
        },
        Some(Types::STRING) => scalar(Scalar::String),
        Some(Types::BOOLEAN) => scalar(Scalar::Boolean),
        Some(Types::INTEGER | Types::NUMBER) => scalar(Scalar::Numeric),
        _ => any(Schema::Deduced, false),
    }
}

fn of_struct<'a>(of: TypeId, merge: &'static Merge) -> Atom<'a> {
    let known = of.get();
    let atomic = match merge.map_type {
        "" => known.atomic,
        word => word == "atomic",
    };
    match known.shape {
        Shape::Struct => Atom {
            map: Some(MapAtom {
                fields: FieldSchemas::Of(of),
                element: known.declared().is_empty().then_some(Schema::Deduced),
                atomic,
            }),
            ..Atom::default()
        },
        Shape::Texts => Atom {
            list: Some(ListAtom {
                item: Schema::Table(&TypeRef::String, &NO_MERGE),
                relation: Relation::Atomic,
            }),
            ..Atom::default()
        },
        Shape::Any => match known.go_name() {
            "RawExtension" => any(Schema::Untyped, true),
            "FieldsV1" => Atom {
                map: any(Schema::Deduced, false).map,
                ..Atom::default()
            },
            _ => any(Schema::Deduced, false),
        },
        Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrTexts => {
            any(Schema::Deduced, false)
        }
    }
}

/// Returns how a list merges; without a declaration for apply, that of strategic merge
/// patch counts.
fn relation(merge: &'static Merge) -> Relation<'static> {
    match (merge.list_type, merge.patch_strategy) {
        ("map", _) => Relation::Map(merge.list_map_keys),
        ("set", _) => Relation::Set,
        ("", "merge" | "merge,retainKeys") if merge.patch_merge_key.is_empty() => Relation::Set,
        ("", "merge" | "merge,retainKeys") => {
            Relation::Map(std::slice::from_ref(&merge.patch_merge_key))
        }
        _ => Relation::Atomic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Schema<'static> {
        Schema::Struct(TypeId::by_name("io.k8s.api.core.v1.Pod").unwrap())
    }

    fn at(schema: Schema<'static>, path: &[&str]) -> Schema<'static> {
        path.iter().fold(schema, |schema, name| {
            let atom = schema.atom();
            match atom.list {
                Some(list) => list.item.atom().map,
                None => atom.map,
            }
            .unwrap()
            .member(&Key::new(name))
            .unwrap()
        })
    }

    #[test]
    fn lists_of_the_tables_are_maps_sets_or_one() {
        let relation = |path: &[&str]| at(pod(), path).atom().list.unwrap().relation;
        assert_eq!(
            relation(&["spec", "containers", "ports"]),
            Relation::Map(&["containerPort", "protocol"])
        );
        assert_eq!(relation(&["metadata", "finalizers"]), Relation::Set);
        assert_eq!(relation(&["spec", "containers", "args"]), Relation::Atomic);
    }

    #[test]
    fn without_a_word_for_apply_that_for_strategic_merge_patch_counts() {
        static MERGED: Merge = Merge {
            patch_strategy: "merge",
            patch_merge_key: "name",
            ..NOTHING
        };
        static JOINED: Merge = Merge {
            patch_strategy: "merge",
            ..NOTHING
        };
        assert_eq!(relation(&MERGED), Relation::Map(&["name"]));
        assert_eq!(relation(&JOINED), Relation::Set);
        assert_eq!(relation(&NO_MERGE), Relation::Atomic);
    }

    #[test]
    fn atomic_structs_and_maps_are_known() {
        let atomic = |path: &[&str]| at(pod(), path).atom().map.unwrap().atomic;
        assert!(atomic(&["spec", "nodeSelector"]));
        assert!(!atomic(&["metadata", "labels"]));
    }

    #[test]
    fn defaults_stand_for_absent_keys() {
        let ports = at(pod(), &["spec", "containers", "ports"]);
        let item = ports.atom().list.unwrap().item.atom().map.unwrap();
        assert_eq!(item.default_of("protocol"), Some("TCP".into()));
        assert_eq!(item.default_of("hostIP"), None);
    }
}
