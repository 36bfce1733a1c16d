//! Facts about each type, computed once, so that encoding looks up nothing.

use std::sync::LazyLock;

use super::wire::push_varint;
use crate::coerce::complete;
use crate::schema::{Field, Shape, Type, TypeId, TypeRef};
use crate::value::{Key, Value};

/// A type that is laid out as fields, as the wire has it.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The members in JSON's order, with those of inlined structs in place.
    pub members: Vec<PlanMember>,
    /// Whether JSON's order is not that of the field numbers.
    pub shuffled: bool,
    /// Everything that Go writes for absent fields, in the order of numbers.
    zeros: Vec<u8>,
    /// The offset in `zeros` at which each field begins, and one more entry for the end.
    zero_at: Vec<u16>,
    /// The field that each number identifies.
    numbers: Vec<Entry>,
    /// The members that Go prints though they are absent, by place, and how.
    absent: Vec<(usize, Vec<u8>)>,
}

/// The field that a number identifies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Entry {
    /// Nothing.
    #[default]
    None,
    /// The member at this place.
    Member(usize),
    /// An inlined struct whose members begin at this place.
    Group {
        /// Its type.
        of: TypeId,
        /// The place.
        at: usize,
    },
}

/// A member of an object in JSON.
#[derive(Debug)]
pub(super) struct PlanMember {
    /// `"name":`
    pub quoted: Box<[u8]>,
    /// Its name.
    pub name: &'static str,
    /// Its name as trees have it.
    pub key: Key,
    /// Tag on the wire; nothing when the field is not on the wire.
    pub tag: Tag,
    /// Type.
    pub of: TypeRef,
    /// Whether its zero value is left out of JSON.
    pub omits_empty: bool,
    /// Whether a zero struct is left out of JSON.
    pub omits_zero: bool,
    /// Whether it has a zero value that `omitempty` sees: structs have none, and a
    /// list on the wire is not empty.
    pub has_empty: bool,
    /// The JSON that precedes each item besides its message, followed by a comma.
    pub says: &'static str,
    /// The inlined structs that it is a field of, from the outside in.
    pub groups: Box<[InlinedStruct]>,
    /// The position on the wire: the ranks of the enclosing structs, then its own.
    pub order: [u16; 3],
}

/// An inlined struct: a message on the wire, but not in JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct InlinedStruct {
    /// Tag of the message.
    pub tag: Tag,
    /// Its type.
    pub of: TypeId,
    /// Its place among the fields of the outer type.
    pub rank: u16,
}

/// A field's tag, encoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    bytes: [u8; 2],
    length: u8,
}

impl Tag {
    fn new(number: u8, wire: u8) -> Self {
        let mut out = Vec::with_capacity(2);
        if number > 0 {
            push_varint(&mut out, u64::from(number) << 3 | u64::from(wire));
        }
        let mut bytes = [0; 2];
        bytes[..out.len()].copy_from_slice(&out);
        // One or two bytes: a number has eight bits.
        let length = u8::from(!out.is_empty()) + u8::from(out.len() > 1);
        Self { bytes, length }
    }

    /// The bytes; none when the field is not on the wire.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Whether the field is not on the wire.
    pub const fn is_absent(&self) -> bool {
        self.length == 0
    }
}

static PLANS: LazyLock<Vec<Plan>> =
    LazyLock::new(|| Type::all().iter().map(Plan::of_type).collect());

/// The plan of a type.
pub(super) fn plan(id: TypeId) -> &'static Plan {
    &PLANS[usize::from(id.0)]
}

/// Embedded objects whose kind Go fills in when it reads them, since their messages do
/// not contain it: type, field, and value.
const EMBEDDED: [(&str, &str, &str); 1] = [(
    "io.k8s.api.apps.v1.StatefulSetSpec",
    "volumeClaimTemplates",
    r#""kind":"PersistentVolumeClaim","apiVersion":"v1","#,
)];

impl Plan {
    fn of_type(one: &'static Type) -> Self {
        let mut plan = Self::default();
        let fields = by_number(one);
        for field in &fields {
            plan.zero_at.push(short(plan.zeros.len()));
            zero(field, &mut plan.zeros);
        }
        plan.zero_at.push(short(plan.zeros.len()));
        flatten(one, &[], true, &mut plan.members);
        for (_, field, says) in EMBEDDED.iter().filter(|(of, ..)| *of == one.name) {
            let mut members = plan.members.iter_mut();
            if let Some(member) = members.find(|member| member.name == *field) {
                member.says = says;
            }
        }
        plan.numbers = numbers(one);
        plan.absent = absent(one);
        let order = plan
            .members
            .iter()
            .filter(|member| !member.tag.is_absent())
            .map(|member| member.order);
        plan.shuffled = !order.is_sorted();
        plan
    }

    /// Returns what Go writes for the absent fields from one rank up to another.
    pub fn zeros(&self, from: u16, to: u16) -> &[u8] {
        let at = |rank: u16| {
            self.zero_at
                .get(usize::from(rank))
                .map_or(self.zeros.len(), |at| usize::from(*at))
        };
        self.zeros.get(at(from)..at(to)).unwrap_or_default()
    }

    /// Returns the field that a number identifies.
    pub fn by_number(&self, number: u64) -> Entry {
        usize::try_from(number)
            .ok()
            .and_then(|number| self.numbers.get(number).copied())
            .unwrap_or_default()
    }

    /// The members that are printed though they are absent, in order.
    pub fn absent(&self) -> &[(usize, Vec<u8>)] {
        &self.absent
    }

    /// Number of fields on the wire.
    pub fn ranks(&self) -> u16 {
        short(self.zero_at.len().saturating_sub(1))
    }
}

/// Returns the members of a type, with those of inlined structs in place.
fn flatten(one: &'static Type, groups: &[InlinedStruct], on_wire: bool, out: &mut Vec<PlanMember>) {
    let fields = by_number(one);
    for field in one.declared() {
        let rank = fields
            .iter()
            .position(|one| one.number() == field.number())
            .map(short);
        match field.type_ref() {
            TypeRef::Object(of) if field.is_inline() => {
                let mut inner = groups.to_vec();
                inner.extend(rank.map(|rank| InlinedStruct {
                    tag: Tag::new(field.number(), 2),
                    of,
                    rank,
                }));
                // The fields of an inlined struct without a number are not on the wire.
                flatten(of.get(), &inner, on_wire && rank.is_some(), out);
            }
            _ => {
                let mut member = PlanMember::new(field, rank.unwrap_or_default(), groups);
                if !on_wire {
                    member.tag = Tag::new(0, 0);
                }
                out.push(member);
            }
        }
    }
}

/// Returns the number of members of a type, including those of inlined structs.
fn width(one: &'static Type) -> usize {
    one.declared()
        .iter()
        .map(|field| match field.type_ref() {
            TypeRef::Object(inner) if field.is_inline() => width(inner.get()),
            _ => 1,
        })
        .sum()
}

fn numbers(one: &'static Type) -> Vec<Entry> {
    let mut out = Vec::new();
    let mut at = 0;
    for field in one.declared() {
        let (entry, width) = match field.type_ref() {
            TypeRef::Object(of) if field.is_inline() => (Entry::Group { of, at }, width(of.get())),
            _ => (Entry::Member(at), 1),
        };
        let number = usize::from(field.number());
        if number > 0 {
            if out.len() <= number {
                out.resize(number + 1, Entry::None);
            }
            out[number] = entry;
        }
        at += width;
    }
    out
}

/// Returns what an object without any member is completed to, by position.
fn absent(one: &'static Type) -> Vec<(usize, Vec<u8>)> {
    let Some(id) = TypeId::by_name(one.name).filter(|_| one.shape == Shape::Struct) else {
        return Vec::new();
    };
    let mut empty = Value::object();
    complete(&mut empty, id);
    let Value::Object(map) = empty else {
        return Vec::new();
    };
    map.iter()
        .filter_map(|(name, value)| {
            let at = id.fields().position(|field| field.name() == &**name)?;
            let mut text = format!("\"{name}\":").into_bytes();
            value.write(&mut text);
            Some((at, text))
        })
        .collect()
}

impl PlanMember {
    fn new(field: &'static Field, rank: u16, groups: &[InlinedStruct]) -> Self {
        let mut order = [0; 3];
        let ranks = groups.iter().map(|group| group.rank).chain([rank]);
        for (place, rank) in order.iter_mut().zip(ranks) {
            *place = rank;
        }
        let of = field.type_ref();
        let mut quoted = Vec::with_capacity(field.name().len() + 3);
        quoted.push(b'"');
        quoted.extend_from_slice(field.name().as_bytes());
        quoted.extend_from_slice(b"\":");
        Self {
            quoted: quoted.into(),
            name: field.name(),
            key: Key::new(field.name()),
            tag: Tag::new(field.number(), wire_type(&of)),
            of,
            omits_empty: field.omit_empty() && !field.is_pointer(),
            omits_zero: field.omit_zero() && !field.is_pointer(),
            has_empty: matches!(
                of,
                TypeRef::String
                    | TypeRef::Bytes
                    | TypeRef::Int32
                    | TypeRef::Int64
                    | TypeRef::Bool
                    | TypeRef::Float
            ),
            says: "",
            groups: groups.into(),
            order,
        }
    }
}

fn by_number(one: &'static Type) -> Vec<&'static Field> {
    let mut fields: Vec<_> = one
        .declared()
        .iter()
        .filter(|field| field.number() > 0)
        .collect();
    fields.sort_by_key(|field| field.number());
    fields
}

/// The wire type of a field; of a list that of its items.
pub(super) fn wire_type(of: &TypeRef) -> u8 {
    match of {
        TypeRef::Int32 | TypeRef::Int64 | TypeRef::Bool => 0,
        TypeRef::Float => 1,
        TypeRef::List(inner) => wire_type(inner),
        _ => 2,
    }
}

/// Appends what Go writes for a field that holds its zero value: nothing for
/// pointers, lists, maps and byte slices; all others are written.
fn zero(field: &Field, out: &mut Vec<u8>) {
    if field.is_pointer() {
        return;
    }
    let of = field.type_ref();
    let content = match of {
        TypeRef::List(_) | TypeRef::Map(_) | TypeRef::Bytes | TypeRef::Any => return,
        TypeRef::Object(inner) if inner.get().shape == Shape::Texts => return,
        TypeRef::Int32 | TypeRef::Int64 | TypeRef::Bool => None,
        ref other => Some(zero_content(other)),
    };
    out.extend_from_slice(Tag::new(field.number(), wire_type(&of)).as_slice());
    match content {
        Some(content) if of == TypeRef::Float => out.extend_from_slice(&content),
        Some(content) => {
            push_varint(out, content.len() as u64);
            out.extend_from_slice(&content);
        }
        None => out.push(0),
    }
}

/// The content of a zero value on the wire, without tag and length.
pub(super) fn zero_content(of: &TypeRef) -> Vec<u8> {
    match of {
        TypeRef::Int32 | TypeRef::Int64 | TypeRef::Bool => vec![0],
        TypeRef::Float => vec![0; 8],
        TypeRef::Quantity => vec![0x0a, 1, b'0'],
        TypeRef::IntOrString => vec![8, 0, 16, 0, 26, 0],
        TypeRef::Duration => vec![8, 0],
        TypeRef::Object(inner) => match inner.get().shape {
            Shape::Struct => {
                let mut out = Vec::new();
                for field in by_number(inner.get()) {
                    zero(field, &mut out);
                }
                out
            }
            Shape::SchemaOrBool => vec![8, 0],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Converts to `u16`: types have at most a few dozen fields, and zero values take a few
/// hundred bytes.
fn short(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// The type of a structural schema.
pub(super) fn schema_props() -> Option<TypeId> {
    static PROPS: LazyLock<Option<TypeId>> = LazyLock::new(|| {
        TypeId::by_name("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    });
    *PROPS
}
