//! JSON in.
//!
//! Written by hand for three reasons: keys are interned as they are read, errors
//! are worded as Go's `encoding/json` words them (clients show them), and a key
//! that comes twice in one object is noticed without a second pass.

use std::borrow::Cow;

use compact_str::CompactString;
use rustc_hash::FxHashMap;

use super::key::Key;
use super::map::Map;
use super::tree::Value;

/// How deep arrays and objects may nest. Deeper input is refused instead of
/// using up the stack; no object of the API comes near.
pub const MAX_DEPTH: usize = 512;

/// The result of [`Value::parse`].
#[derive(Clone, Debug)]
pub struct ParsedJson {
    /// The value; the last of several equal keys counts.
    pub value: Value,
    /// Paths of keys that occur twice within one object, such as
    /// `spec.containers[0].name`, in the order of the second occurrence.
    pub duplicates: Vec<String>,
}

/// Error for text that is not JSON; the message is Go's own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text ends within a value.
    #[error("unexpected end of JSON input")]
    UnexpectedEnd,
    /// An invalid character.
    #[error("invalid character {} {context}", quote(*character))]
    InvalidCharacter {
        /// The character.
        character: char,
        /// What the parser was doing: `looking for beginning of value`, ….
        context: &'static str,
        /// Its offset in bytes.
        offset: usize,
    },
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("exceeded max depth")]
    TooDeep,
    /// A number exceeds the range of a 64-bit float.
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    NumberRange(String),
}

/// Go quotes the offending character as a rune literal, a quote in its own way.
fn quote(character: char) -> String {
    match character {
        '\'' => r"'\''".to_owned(),
        '"' => "'\"'".to_owned(),
        '\\' => r"'\\'".to_owned(),
        '\n' => r"'\n'".to_owned(),
        '\r' => r"'\r'".to_owned(),
        '\t' => r"'\t'".to_owned(),
        '\u{7}' => r"'\a'".to_owned(),
        '\u{8}' => r"'\b'".to_owned(),
        '\u{b}' => r"'\v'".to_owned(),
        '\u{c}' => r"'\f'".to_owned(),
        c if (c as u32) < 0x20 || c as u32 == 0x7f => format!("'\\x{:02x}'", c as u32),
        c @ ('\u{80}'..='\u{a0}' | '\u{ad}') => format!("'\\u{:04x}'", c as u32),
        c => format!("'{c}'"),
    }
}

impl Value {
    /// Parses JSON. A key that comes twice keeps its last value.
    ///
    /// # Errors
    /// When the bytes are no JSON text or nest deeper than [`MAX_DEPTH`]; the
    /// error is worded as Go's decoder words it.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, Error> {
        parse(bytes).map(|parsed| parsed.value)
    }

    /// Parses JSON and reports keys that occur twice within one object, as strict field
    /// validation does.
    ///
    /// # Errors
    /// As [`Value::from_slice`].
    pub fn parse(bytes: &[u8]) -> Result<ParsedJson, Error> {
        parse(bytes)
    }
}

fn parse(bytes: &[u8]) -> Result<ParsedJson, Error> {
    // Go replaces invalid UTF-8; that copy is made only when needed. (The lossy
    // conversion alone looks at every character even of valid text.)
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    };
    let mut parser = JsonParser::new(&text);
    let value = parser.value(0)?;
    parser.end()?;
    let duplicates = if parser.duplicate {
        duplicates(&text)
    } else {
        Vec::new()
    };
    Ok(ParsedJson { value, duplicates })
}

/// A parser with its position in the text.
pub(super) struct JsonParser<'a> {
    text: &'a str,
    at: usize,
    duplicate: bool,
}

impl<'a> JsonParser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            duplicate: false,
        }
    }

    /// Checks that nothing follows.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.invalid("after top-level value")),
        }
    }

    /// Goes past the byte that was peeked at.
    pub(super) fn step(&mut self) {
        self.at += 1;
    }

    /// The next byte that is no white space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return Some(*byte),
            }
        }
        None
    }

    pub(super) fn invalid(&self, context: &'static str) -> Error {
        // Go looks at bytes, and shows one as the character of that number.
        match self.text.as_bytes().get(self.at) {
            Some(byte) => Error::InvalidCharacter {
                character: char::from(*byte),
                context,
                offset: self.at,
            },
            None => Error::UnexpectedEnd,
        }
    }

    pub(super) fn value(&mut self, depth: usize) -> Result<Value, Error> {
        match self.peek() {
            Some(b'"') => match self.string()? {
                Cow::Borrowed(text) => Ok(Value::String(CompactString::new(text))),
                Cow::Owned(text) => Ok(Value::String(CompactString::from(text))),
            },
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.invalid("looking for beginning of value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        self.at += 1;
        let mut map = Map::new();
        // Few keys are compared one by one; a large data map gets an index.
        let mut index: Option<FxHashMap<Key, usize>> = None;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(map));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.invalid("looking for beginning of object key string"));
            }
            let key = Key::from_cow(self.string()?);
            if self.peek() != Some(b':') {
                return Err(self.invalid("after object key"));
            }
            self.at += 1;
            let value = self.value(depth)?;
            if map.len() == 24 && index.is_none() {
                index = Some(map.keys().cloned().zip(0..).collect());
            }
            let known = match &mut index {
                None => map.keys().position(|name| *name == key),
                Some(index) => match index.entry(key.clone()) {
                    std::collections::hash_map::Entry::Occupied(at) => Some(*at.get()),
                    std::collections::hash_map::Entry::Vacant(slot) => {
                        slot.insert(map.len());
                        None
                    }
                },
            };
            match known {
                Some(at) => {
                    self.duplicate = true;
                    map.entries_mut()[at].1 = value;
                }
                None => map.push_unchecked(key, value),
            }
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(map));
                }
                _ => return Err(self.invalid("after object key:value pair")),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        self.at += 1;
        let mut items = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.invalid("after array element")),
            }
        }
    }

    fn literal(&mut self, word: &'static str, value: Value) -> Result<Value, Error> {
        for expected in word.bytes() {
            if self.text.as_bytes().get(self.at) != Some(&expected) {
                return Err(self.invalid(match (word, expected) {
                    ("true", b'r') => "in literal true (expecting 'r')",
                    ("true", b'u') => "in literal true (expecting 'u')",
                    ("true", _) => "in literal true (expecting 'e')",
                    ("false", b'a') => "in literal false (expecting 'a')",
                    ("false", b'l') => "in literal false (expecting 'l')",
                    ("false", b's') => "in literal false (expecting 's')",
                    ("false", _) => "in literal false (expecting 'e')",
                    (_, b'u') => "in literal null (expecting 'u')",
                    _ => "in literal null (expecting 'l')",
                }));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, Error> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        if bytes[self.at] == b'-' {
            self.at += 1;
        }
        match bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.at = digits(self.at),
            _ => return Err(self.invalid("in numeric literal")),
        }
        let mut whole = true;
        if bytes.get(self.at) == Some(&b'.') {
            whole = false;
            self.at += 1;
            let end = digits(self.at);
            if end == self.at {
                return Err(self.invalid("after decimal point in numeric literal"));
            }
            self.at = end;
        }
        if matches!(bytes.get(self.at), Some(b'e' | b'E')) {
            whole = false;
            self.at += 1;
            if matches!(bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            let end = digits(self.at);
            if end == self.at {
                return Err(self.invalid("in exponent of numeric literal"));
            }
            self.at = end;
        }
        let text = &self.text[start..self.at];
        if whole && let Ok(number) = text.parse::<i64>() {
            return Ok(Value::Int(number));
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Float(number)),
            _ => Err(Error::NumberRange(text.to_owned())),
        }
    }

    /// Skips a value without parsing it: past its last quote, bracket or digit.
    pub(super) fn skip(&mut self) -> Result<(), Error> {
        let bytes = self.text.as_bytes();
        let mut open = 0_usize;
        loop {
            match self.peek() {
                Some(b'"') => self.skip_string()?,
                Some(b'{' | b'[') => {
                    open += 1;
                    self.at += 1;
                    continue;
                }
                Some(b'}' | b']') if open > 0 => {
                    open -= 1;
                    self.at += 1;
                }
                Some(b',' | b':') if open > 0 => {
                    self.at += 1;
                    continue;
                }
                Some(b'}' | b']' | b',' | b':') => {
                    return Err(self.invalid("looking for beginning of value"));
                }
                Some(_) => {
                    let rest = &bytes[self.at..];
                    let length = rest
                        .iter()
                        .position(|byte| matches!(byte, b',' | b'}' | b']' | b'"' | b' ' | b'\n'));
                    self.at += length.unwrap_or(rest.len());
                }
                None => return Err(Error::UnexpectedEnd),
            }
            if open == 0 {
                return Ok(());
            }
        }
    }

    /// Goes past a string.
    fn skip_string(&mut self) -> Result<(), Error> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            self.at = plain_until(bytes, self.at);
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                // Whatever it is that is escaped, it is no end.
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
                None => return Err(Error::UnexpectedEnd),
            }
        }
    }

    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, Error> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        let start = self.at;
        // Most strings hold neither escape nor control character.
        let at = plain_until(bytes, start);
        match bytes.get(at) {
            Some(b'"') => {
                self.at = at + 1;
                return Ok(Cow::Borrowed(&self.text[start..at]));
            }
            Some(b'\\') => {}
            Some(_) => {
                self.at = at;
                return Err(self.invalid("in string literal"));
            }
            None => return Err(Error::UnexpectedEnd),
        }
        let mut out = String::with_capacity(at - start + 32);
        out.push_str(&self.text[start..at]);
        self.at = at;
        loop {
            let from = self.at;
            self.at = plain_until(bytes, from);
            out.push_str(&self.text[from..self.at]);
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(out));
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                Some(_) => return Err(self.invalid("in string literal")),
                None => return Err(Error::UnexpectedEnd),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Error> {
        let Some(letter) = self.text.as_bytes().get(self.at).copied() else {
            return Err(Error::UnexpectedEnd);
        };
        let character = match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.invalid("in string escape code")),
        };
        self.at += 1;
        Ok(character)
    }

    /// Reads `\uXXXX` or a surrogate pair; half a pair becomes U+FFFD, as in Go.
    fn unicode(&mut self) -> Result<char, Error> {
        let high = self.hex4()?;
        if let Some(character) = char::from_u32(high) {
            return Ok(character);
        }
        let after = self.at;
        if high < 0xdc00 && self.text.as_bytes().get(after..after + 2) == Some(b"\\u") {
            self.at += 2;
            let low = self.hex4()?;
            if (0xdc00..0xe000).contains(&low)
                && let Some(character) =
                    char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
            {
                return Ok(character);
            }
            self.at = after;
        }
        Ok('\u{fffd}')
    }

    fn hex4(&mut self) -> Result<u32, Error> {
        let mut number = 0;
        for _ in 0..4 {
            let Some(byte) = self.text.as_bytes().get(self.at) else {
                return Err(Error::UnexpectedEnd);
            };
            let Some(digit) = char::from(*byte).to_digit(16) else {
                return Err(self.invalid("in \\u hexadecimal character escape"));
            };
            number = number * 16 + digit;
            self.at += 1;
        }
        Ok(number)
    }
}

/// Returns the offset of the first byte from `at` that is not literal within a string: a
/// quote, a backslash or a control character; otherwise the end.
pub(super) fn plain_until(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // Eight bytes at a time: the classical test for a zero byte within a word,
    // on the word itself (below 0x20) and on its differences to both characters.
    while let Some(chunk) = bytes
        .get(at..at + 8)
        .and_then(|chunk| <[u8; 8]>::try_from(chunk).ok())
    {
        let word = u64::from_le_bytes(chunk);
        let quote = word ^ (ONES * 0x22);
        let backslash = word ^ (ONES * 0x5c);
        let found = (word.wrapping_sub(ONES * 0x20) & !word
            | quote.wrapping_sub(ONES) & !quote
            | backslash.wrapping_sub(ONES) & !backslash)
            & HIGH;
        if found != 0 {
            // The lowest mark is exact: only bytes above a hit can be marked falsely.
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while let Some(byte) = bytes.get(at)
        && !matches!(byte, b'"' | b'\\' | 0..0x20)
    {
        at += 1;
    }
    at
}

/// Walks valid text a second time, only to name duplicate keys.
fn duplicates(text: &str) -> Vec<String> {
    fn walk(parser: &mut JsonParser<'_>, path: &mut String, found: &mut Vec<String>) -> Option<()> {
        let length = path.len();
        match parser.peek()? {
            b'{' => {
                parser.at += 1;
                let mut seen = rustc_hash::FxHashSet::default();
                while parser.peek()? != b'}' {
                    let key = parser.string().ok()?.into_owned();
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(&key);
                    if !seen.insert(key) {
                        found.push(path.clone());
                    }
                    parser.peek()?;
                    parser.at += 1;
                    walk(parser, path, found)?;
                    path.truncate(length);
                    if parser.peek()? == b',' {
                        parser.at += 1;
                    }
                }
                parser.at += 1;
            }
            b'[' => {
                parser.at += 1;
                let mut number = 0;
                while parser.peek()? != b']' {
                    path.push_str(&format!("[{number}]"));
                    number += 1;
                    walk(parser, path, found)?;
                    path.truncate(length);
                    if parser.peek()? == b',' {
                        parser.at += 1;
                    }
                }
                parser.at += 1;
            }
            b'"' => {
                parser.string().ok()?;
            }
            _ => {
                parser.value(0).ok()?;
            }
        }
        Some(())
    }
    let mut found = Vec::new();
    walk(&mut JsonParser::new(text), &mut String::new(), &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    fn error(text: &str) -> String {
        Value::from_slice(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn errors_are_worded_as_go_words_them() {
        assert_eq!(error(""), "unexpected end of JSON input");
        assert_eq!(error("{\"a\":"), "unexpected end of JSON input");
        assert_eq!(
            error("x"),
            "invalid character 'x' looking for beginning of value"
        );
        assert_eq!(
            error("{a"),
            "invalid character 'a' looking for beginning of object key string"
        );
        assert_eq!(error("{\"a\" 1}"), "invalid character '1' after object key");
        assert_eq!(
            error("{\"a\":1 \"b\"}"),
            "invalid character '\"' after object key:value pair"
        );
        assert_eq!(error("[1 2]"), "invalid character '2' after array element");
        assert_eq!(error("{} x"), "invalid character 'x' after top-level value");
        assert_eq!(
            error("nul}"),
            "invalid character '}' in literal null (expecting 'l')"
        );
        assert_eq!(error("-x"), "invalid character 'x' in numeric literal");
        assert_eq!(
            error("1.x"),
            "invalid character 'x' after decimal point in numeric literal"
        );
        assert_eq!(
            error("1ex"),
            "invalid character 'x' in exponent of numeric literal"
        );
        assert_eq!(
            error("\"\\q\""),
            "invalid character 'q' in string escape code"
        );
        assert_eq!(
            error("\"\\u00x\""),
            "invalid character 'x' in \\u hexadecimal character escape"
        );
        assert_eq!(
            error("\"a\nb\""),
            "invalid character '\\n' in string literal"
        );
        assert_eq!(
            error("é"),
            "invalid character 'Ã' looking for beginning of value"
        );
    }

    #[test]
    fn numbers_keep_whole_what_is_whole() {
        let parse = |text: &str| Value::from_slice(text.as_bytes()).unwrap();
        assert_eq!(parse("-9223372036854775808"), Value::Int(i64::MIN));
        assert_eq!(
            parse("9223372036854775808"),
            Value::Float(9_223_372_036_854_775_808.0)
        );
        assert_eq!(parse("1.0"), Value::Float(1.0));
        assert_eq!(parse("1e3"), Value::Float(1000.0));
        assert!(Value::from_slice(b"1e999").is_err());
    }

    #[test]
    fn escapes_and_surrogates_are_decoded() {
        let parse = |text: &str| Value::from_slice(text.as_bytes()).unwrap();
        assert_eq!(parse(r#""a\n\u00e9\ud83d\ude00\/""#), value!("a\né😀/"));
        assert_eq!(parse(r#""\ud83dx""#), value!("\u{fffd}x"));
        assert_eq!(parse(r#""\ud83d\u0041""#), value!("\u{fffd}A"));
        assert_eq!(Value::from_slice(b"\"\xff\"").unwrap(), value!("\u{fffd}"));
    }

    #[test]
    fn the_last_of_two_equal_keys_wins_and_is_reported_by_path() {
        let parsed = Value::parse(
            br#"{"a":1,"spec":{"containers":[{"name":"x","name":"y"}],"a":{}},"a":2}"#,
        )
        .unwrap();
        assert_eq!(parsed.value.i64_at(&["a"]), Some(2));
        assert_eq!(parsed.duplicates, ["spec.containers[0].name", "a"]);
    }

    #[test]
    fn duplicates_are_found_in_large_objects() {
        let mut text = String::from("{");
        for number in 0..100 {
            text.push_str(&format!("\"k{number}\":{number},"));
        }
        text.push_str("\"k3\":-1}");
        let parsed = Value::parse(text.as_bytes()).unwrap();
        assert_eq!(parsed.duplicates, ["k3"]);
        assert_eq!(parsed.value.i64_at(&["k3"]), Some(-1));
        assert_eq!(parsed.value.as_object().unwrap().len(), 100);
    }

    #[test]
    fn depth_is_limited() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Value::from_slice(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(
            Value::from_slice(nested(MAX_DEPTH + 1).as_bytes()).unwrap_err(),
            Error::TooDeep
        );
        assert_eq!(
            Value::from_slice("[".repeat(1_000_000).as_bytes()).unwrap_err(),
            Error::TooDeep
        );
    }
}
