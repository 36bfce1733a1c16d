//! Types of the API as expressions see them, by the rules by which Kubernetes derives
//! them from OpenAPI: fields without a single type there, such as quantities, are absent.

use std::sync::Arc;

use control_types::schema::{Shape as Layout, TypeId, TypeRef};
use control_types::value::Value;

use crate::names;
use crate::schema::{Field, LARGEST_REQUEST, ListKind, Schema, Shape};

/// How many types may stand within each other: schemas within schemas have no end.
const DEPTH: usize = 24;

impl Schema {
    /// A type of the API; `None` where expressions cannot see its values.
    #[must_use]
    pub fn of_type(of: TypeId) -> Option<Arc<Self>> {
        structure(of, &mut Vec::new())
    }

    /// The schema of a custom resource's version with all that metadata has.
    #[must_use]
    pub fn of_custom_resource(schema: &Value) -> Option<Arc<Self>> {
        let known = Self::read_declaration(schema, true)?;
        let metadata = TypeId::by_name("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
            .and_then(Self::of_type);
        let (Some(metadata), Shape::Object(fields)) = (metadata, &known.shape) else {
            return Some(known);
        };
        let mut fields = fields.clone();
        fields.retain(|field| field.name != "metadata");
        fields.push(Field {
            name: "metadata".to_owned(),
            escaped: None,
            of: metadata,
        });
        Some(Arc::new(Self {
            shape: Shape::Object(fields),
            ..Self::clone(&known)
        }))
    }
}

fn made(shape: Shape, most: i64, least_bytes: i64) -> Option<Arc<Schema>> {
    Some(Arc::new(Schema {
        shape,
        nullable: false,
        most,
        least_bytes,
        longest_key: 0,
    }))
}

/// Returns the schema of a struct; `around` are the enclosing types.
fn structure(of: TypeId, around: &mut Vec<TypeId>) -> Option<Arc<Schema>> {
    let object = |fields| made(Shape::Object(fields), 0, 2);
    match of.get().shape {
        Layout::Struct => {}
        Layout::Texts => {
            return reference(&TypeRef::String, around)
                .and_then(|items| made(Shape::List(items, ListKind::Atomic), LARGEST_REQUEST, 2));
        }
        // any object, of which nothing is known
        Layout::Any if is_object(of.get().name) => return object(Vec::new()),
        Layout::Any | Layout::SchemaOrBool | Layout::SchemaOrArray | Layout::SchemaOrTexts => {
            return None;
        }
    }
    if around.contains(&of) || around.len() >= DEPTH {
        return object(Vec::new());
    }
    around.push(of);
    let mut fields = Vec::new();
    for field in of.fields().filter(|field| field.is_published()) {
        let name = field.name();
        let Some(of) = reference(field.type_ref_static(), around) else {
            continue;
        };
        if let Some(escaped) = names::escape(name) {
            fields.push(Field {
                name: name.to_owned(),
                escaped: (escaped != name).then(|| escaped.into_owned()),
                of,
            });
        }
    }
    around.pop();
    object(fields)
}

/// Whether a type of any JSON is declared as an object.
fn is_object(name: &str) -> bool {
    !name.ends_with(".JSON")
}

fn reference(of: &TypeRef, around: &mut Vec<TypeId>) -> Option<Arc<Schema>> {
    let text = LARGEST_REQUEST - 2;
    match of {
        TypeRef::String | TypeRef::Duration => made(Shape::String, text, 2),
        TypeRef::Int32 | TypeRef::Int64 => made(Shape::Int, 0, 1),
        TypeRef::Bool => made(Shape::Bool, 0, 4),
        TypeRef::Float => made(Shape::Double, 0, 1),
        TypeRef::Bytes => made(Shape::Bytes, text, 2),
        TypeRef::Time | TypeRef::MicroTime => made(Shape::Timestamp, 0, 22),
        TypeRef::IntOrString => made(Shape::IntOrString, text, 1),
        TypeRef::Quantity | TypeRef::Any => None,
        TypeRef::Object(of) => structure(*of, around),
        TypeRef::List(items) => {
            let items = reference(items, around)?;
            made(Shape::List(items, ListKind::Atomic), LARGEST_REQUEST, 2)
        }
        TypeRef::Map(values) => {
            let values = reference(values, around)?;
            made(Shape::Map(values), LARGEST_REQUEST, 2)
        }
    }
}
