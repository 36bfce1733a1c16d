//! Reads parts of the object tree as they are declared.

use control_types::go;
use control_types::value::Value;

use super::encoding;
use super::error::Error;
use super::moment;
use super::value::{Entries, List, Text, Val};
use crate::schema::{Schema, Shape};

/// A part of the tree as it is declared.
pub(crate) fn declared<'a>(value: &'a Value, schema: Option<&'a Schema>) -> Result<Val<'a>, Error> {
    match schema {
        None => Ok(Val::tree(value)),
        Some(schema) => schema.read(value),
    }
}

impl Schema {
    /// Reads a part of the tree according to its declaration.
    ///
    /// # Errors
    /// When the part does not match its declaration.
    pub fn read<'a>(&'a self, value: &'a Value) -> Result<Val<'a>, Error> {
        let wrong = |wanted: &'static str| Err(Error::failed(format!("invalid data, {wanted}")));
        Ok(match (&self.shape, value) {
            (_, Value::Null) if self.nullable => Val::Null,
            (Shape::Any, value) => Val::tree(value),
            (Shape::IntOrString, Value::Int(number)) => Val::Int(*number),
            (Shape::IntOrString | Shape::String, Value::String(text)) => Val::Text(Text::Ref(text)),
            (Shape::Bool, Value::Bool(truth)) => Val::Bool(*truth),
            (Shape::Int, Value::Int(number)) => Val::Int(*number),
            (Shape::Double, Value::Int(number)) => Val::Double(*number as f64),
            (Shape::Double, Value::Float(number)) => Val::Double(*number),
            (Shape::List(..), Value::Array(items)) => Val::List(List::Tree(items, Some(self))),
            (Shape::Map(_) | Shape::Object(_), Value::Object(map)) => {
                Val::Map(Entries::Tree(map, Some(self)))
            }
            (Shape::Bytes, Value::String(text)) => match encoding::base64(text) {
                Some(bytes) => Val::Bytes(bytes.into()),
                None => {
                    return Err(Error::failed(format!(
                        "Invalid byte formatted string {text}: illegal base64 data"
                    )));
                }
            },
            (Shape::Duration, Value::String(text)) => match control_types::duration::parse(text) {
                Some(nanos) => Val::Duration(nanos),
                None => {
                    return Err(Error::failed(format!(
                        "Invalid duration {text}: unable to parse to duration"
                    )));
                }
            },
            (Shape::Date, Value::String(text)) => match moment::parse_date(text) {
                Some(moment) => Val::Timestamp(moment),
                None => {
                    return Err(Error::failed(format!(
                        "Invalid date formatted string {text}"
                    )));
                }
            },
            (Shape::Timestamp, Value::String(text)) => match moment::parse(text) {
                Some(moment) => Val::Timestamp(moment),
                None => {
                    return Err(Error::failed(format!(
                        "Invalid date-time formatted string {text}"
                    )));
                }
            },
            (_, Value::Null) => return wrong("got null for schema with nullable=false"),
            (Shape::IntOrString, _) => {
                return wrong("expected XIntOrString value to be either a string or integer");
            }
            (Shape::Map(_) | Shape::Object(_), _) => {
                return wrong("expected a map for the provided schema with type=object");
            }
            (Shape::List(..), _) => {
                return wrong("expected an array for the provided schema with type=array");
            }
            (Shape::Int, other) => return mismatch("int", other),
            (Shape::Double, other) => return mismatch("float", other),
            (Shape::Bool, other) => return mismatch("bool", other),
            (_, other) => return mismatch("string", other),
        })
    }
}

fn mismatch<T>(wanted: &str, found: &Value) -> Result<T, Error> {
    Err(Error::failed(format!(
        "invalid data, expected {wanted}, got {}",
        go::type_name(found)
    )))
}
