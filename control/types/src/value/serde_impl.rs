//! Serde for the tree: so that it passes through any codec, and so that a typed
//! view can be read out of it without a detour over text.

use std::fmt;

use serde::de::{self, DeserializeOwned, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer, forward_to_deserialize_any};

use super::key::Key;
use super::map::Map;
use super::tree::Value;

/// A type and a tree do not fit each other.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConvertError(String);

/// Reads a typed view out of a tree.
///
/// # Errors
/// When a field that the type needs is absent or of another type.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, ConvertError> {
    T::deserialize(value)
}

/// The tree of a typed value. Goes over JSON text: for edges and tests, not for
/// hot paths.
///
/// # Errors
/// When the type does not serialise to JSON (keys that are no texts, say).
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value, ConvertError> {
    let bytes = serde_json::to_vec(value).map_err(|error| ConvertError(error.to_string()))?;
    Value::from_slice(&bytes).map_err(|error| ConvertError(error.to_string()))
}

// === impl Serialize ===

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(truth) => serializer.serialize_bool(*truth),
            Self::Int(number) => serializer.serialize_i64(*number),
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => {
                let mut seq = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    seq.serialize_element(item)?;
                }
                seq.end()
            }
            Self::Object(map) => map.serialize(serializer),
        }
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self {
            out.serialize_entry(key.as_str(), value)?;
        }
        out.end()
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

// === impl Deserialize ===

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Key, E> {
                Ok(Key::new(text))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(map) => Ok(map),
            Value::Null => Ok(Self::new()),
            other => Err(de::Error::custom(format_args!(
                "{} where an object is expected",
                other.type_name()
            ))),
        }
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        items.shrink_to_fit();
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, value)) = access.next_entry::<Key, Value>()? {
            map.insert(key, value);
        }
        map.shrink_to_fit();
        Ok(Value::Object(map))
    }
}

// === impl Deserializer ===

impl de::Error for ConvertError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl<'de> IntoDeserializer<'de, ConvertError> for &'de Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> IntoDeserializer<'de, ConvertError> for &'de Key {
    type Deserializer = de::value::BorrowedStrDeserializer<'de, ConvertError>;

    fn into_deserializer(self) -> Self::Deserializer {
        de::value::BorrowedStrDeserializer::new(self)
    }
}

impl<'de> Deserializer<'de> for &'de Value {
    type Error = ConvertError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConvertError> {
        match self {
            Value::Null => visitor.visit_unit(),
            Value::Bool(truth) => visitor.visit_bool(*truth),
            Value::Int(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(de::value::SeqDeserializer::new(items.iter())),
            Value::Object(map) => visitor.visit_map(de::value::MapDeserializer::new(map.iter())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConvertError> {
        match self {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ConvertError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ConvertError> {
        match self {
            Value::String(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            Value::Object(map) if map.len() == 1 => visitor.visit_enum(
                de::value::MapAccessDeserializer::new(de::value::MapDeserializer::new(map.iter())),
            ),
            other => Err(de::Error::custom(format_args!(
                "{} where one of {variants:?} of {name} is expected",
                other.type_name()
            ))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string
        bytes byte_buf unit unit_struct seq tuple tuple_struct map struct
        identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::value;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct View {
        name: String,
        replicas: Option<i32>,
        #[serde(default)]
        labels: BTreeMap<String, String>,
        policy: Policy,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Policy {
        Always,
    }

    #[test]
    fn a_view_is_read_out_of_a_tree_and_back() {
        let tree = value!({"name": "a", "replicas": 3, "labels": {"x": "y"}, "policy": "Always", "more": [1]});
        let view: View = from_value(&tree).unwrap();
        assert_eq!(view.replicas, Some(3));
        assert_eq!(view.labels["x"], "y");
        let back = to_value(&view).unwrap();
        assert_eq!(from_value::<View>(&back).unwrap(), view);
        assert!(from_value::<View>(&value!({"name": 1})).is_err());
    }

    #[test]
    fn serde_json_and_the_own_codec_agree() {
        let text = r#"{"a":[1,-2.5,null,true,"x\n"],"b":{"c":{}}}"#;
        let own = Value::from_slice(text.as_bytes()).unwrap();
        let serde: Value = serde_json::from_str(text).unwrap();
        assert_eq!(own, serde);
        assert_eq!(serde_json::to_string(&own).unwrap(), text);
        assert_eq!(own.to_string(), text);
    }
}
