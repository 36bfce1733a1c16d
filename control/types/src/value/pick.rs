//! Parses part of a JSON text into a tree.
//!
//! A caller that needs three fields of an object of five kilobytes does not pay for the
//! whole tree: unwanted values are only skipped.

use super::key::Key;
use super::map::Map;
use super::parse::{Error, JsonParser, MAX_DEPTH};
use super::tree::Value;

/// The members to keep, of an object and of nested objects.
#[derive(Clone, Debug, Default)]
pub struct Pick {
    /// Everything below here.
    whole: bool,
    members: Vec<(String, Pick)>,
}

impl Pick {
    /// Selects these paths, such as `spec.nodeName`, with everything below them. A path
    /// leads through arrays: with `spec.containers.name`, each item keeps its name.
    #[must_use]
    pub fn from_paths<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all = Self::default();
        for path in paths {
            let mut place = &mut all;
            for name in path.split('.') {
                let at = match place.members.iter().position(|(known, _)| known == name) {
                    Some(at) => at,
                    None => {
                        place.members.push((name.to_owned(), Self::default()));
                        place.members.len() - 1
                    }
                };
                place = &mut place.members[at].1;
            }
            place.whole = true;
        }
        all
    }

    fn member(&self, name: &str) -> Option<&Self> {
        let found = self.members.iter().find(|(known, _)| known == name);
        found.map(|(_, pick)| pick)
    }
}

impl Value {
    /// Parses JSON, but keeps only the picked members. Duplicate keys keep their last
    /// value.
    ///
    /// This is for JSON that this program wrote or has parsed before: skipped values need
    /// not be valid JSON, as long as quotes and brackets close.
    ///
    /// # Errors
    /// As [`Value::from_slice`], for the kept values.
    pub fn pick(bytes: &[u8], pick: &Pick) -> Result<Self, Error> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Self::from_slice(bytes);
        };
        let mut parser = JsonParser::new(text);
        let value = picked(&mut parser, pick, 0)?;
        parser.end()?;
        Ok(value)
    }
}

fn picked(parser: &mut JsonParser<'_>, pick: &Pick, depth: usize) -> Result<Value, Error> {
    if pick.whole {
        return parser.value(depth);
    }
    match parser.peek() {
        Some(b'{') => {
            let mut map = Map::new();
            members(parser, depth + 1, |parser, name| {
                match pick.member(&name) {
                    Some(inner) => {
                        let value = picked(parser, inner, depth + 1)?;
                        map.insert(Key::from_cow(name), value);
                    }
                    None => parser.skip()?,
                }
                Ok(())
            })?;
            Ok(Value::Object(map))
        }
        Some(b'[') => {
            let mut all = Vec::new();
            items(parser, depth + 1, |parser| {
                all.push(picked(parser, pick, depth + 1)?);
                Ok(())
            })?;
            Ok(Value::Array(all))
        }
        _ => parser.value(depth),
    }
}

/// Walks over an object; `each` is to take the value of each member.
fn members<'a>(
    parser: &mut JsonParser<'a>,
    depth: usize,
    mut each: impl FnMut(&mut JsonParser<'a>, std::borrow::Cow<'a, str>) -> Result<(), Error>,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep);
    }
    parser.step();
    if parser.peek() == Some(b'}') {
        parser.step();
        return Ok(());
    }
    loop {
        if parser.peek() != Some(b'"') {
            return Err(parser.invalid("looking for beginning of object key string"));
        }
        let name = parser.string()?;
        if parser.peek() != Some(b':') {
            return Err(parser.invalid("after object key"));
        }
        parser.step();
        each(parser, name)?;
        match parser.peek() {
            Some(b',') => parser.step(),
            Some(b'}') => {
                parser.step();
                return Ok(());
            }
            _ => return Err(parser.invalid("after object key:value pair")),
        }
    }
}

/// Walks over an array; `each` is to take an item.
fn items<'a>(
    parser: &mut JsonParser<'a>,
    depth: usize,
    mut each: impl FnMut(&mut JsonParser<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep);
    }
    parser.step();
    if parser.peek() == Some(b']') {
        parser.step();
        return Ok(());
    }
    loop {
        each(parser)?;
        match parser.peek() {
            Some(b',') => parser.step(),
            Some(b']') => {
                parser.step();
                return Ok(());
            }
            _ => return Err(parser.invalid("after array element")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    fn pick(text: &str, paths: &[&str]) -> Result<Value, Error> {
        Value::pick(text.as_bytes(), &Pick::from_paths(paths.iter().copied()))
    }

    #[test]
    fn only_what_is_named_is_kept_and_arrays_are_passed_through() {
        let text = r#"{"a": {"x": [1, {"deep": "}"}], "y": 2}, "b": [{"n": 1, "o": "\"]"}, 7], "c": "é\n", "d": null}"#;
        assert_eq!(
            pick(text, &["a.y", "b.n", "c", "gone.too"]).expect("JSON"),
            value!({"a": {"y": 2}, "b": [{"n": 1}, 7], "c": "é\n"})
        );
        assert_eq!(
            pick(text, &["a", "a.y"]).expect("JSON"),
            value!({"a": {"x": [1, {"deep": "}"}], "y": 2}})
        );
        assert_eq!(
            pick(r#"{"a":1,"a":2}"#, &["a"]).expect("JSON"),
            value!({"a": 2})
        );
        assert_eq!(pick("[]", &[]).expect("JSON"), value!([]));
    }

    #[test]
    fn what_does_not_close_is_refused_and_nothing_is_too_deep_to_be_left_out() {
        for text in [
            r#"{"a": "#,
            r#"{"a": "open"#,
            r#"{"a": "open\""#,
            r#"{"a": {"b": [1, 2}"#,
            r#"{"a": [1]"#,
            r#"{"a": 1} x"#,
            r#"{"a" 1}"#,
            r#"{"b": tru}"#,
            r#"{"b": [1,]}"#,
            "",
        ] {
            assert!(pick(text, &["b"]).is_err(), "{text}");
        }
        let deep = format!(
            "{{\"a\":{}{},\"b\":1}}",
            "[".repeat(60_000),
            "]".repeat(60_000)
        );
        assert_eq!(pick(&deep, &["b"]), Ok(value!({"b": 1})));
    }

    #[test]
    fn every_part_is_what_the_whole_has_there() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let Ok(whole) = Value::from_slice(bytes) else {
                // Whatever it is: an answer, and no panic.
                let _ = Value::pick(bytes, &Pick::from_paths(["a"]));
                return;
            };
            let part = Value::pick(bytes, &Pick::from_paths(["a"]));
            if let Value::Object(_) = &whole {
                assert_eq!(part.unwrap().get("a"), whole.get("a"));
            }
        });
    }
}
