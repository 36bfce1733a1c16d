//! JSON out.

use std::io::Write as _;

use super::key::Key;
use super::parse::plain_until;
use super::tree::Value;

/// Per byte: 0 if it is literal within a string, otherwise its escape letter (`u` for the
/// long form).
static ESCAPE: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 0x20 {
        table[at] = b'u';
        at += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0a] = b'n';
    table[0x0c] = b'f';
    table[0x0d] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

impl Value {
    /// The value as JSON without white space.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        self.write(&mut out);
        out
    }

    /// Appends the value as JSON without white space.
    pub fn write(&self, out: &mut Vec<u8>) {
        write(self, out);
    }

    /// Appends a text as a JSON string.
    pub fn write_string(text: &str, out: &mut Vec<u8>) {
        write_string(text, out);
    }

    /// The value as JSON indented by two blanks.
    #[must_use]
    pub fn to_vec_pretty(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        write_pretty(self, 0, &mut out);
        out
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_vec()))
    }
}

fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => {
            out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
        }
        Value::Float(number) => write_float(*number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push(b'[');
            let mut first = true;
            for item in items {
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            let mut first = true;
            for (key, value) in map {
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                write_key(key, out);
                write(value, out);
            }
            out.push(b'}');
        }
    }
}

fn write_pretty(value: &Value, depth: usize, out: &mut Vec<u8>) {
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                line(out, depth + 1);
                write_pretty(item, depth + 1, out);
            }
            line(out, depth);
            out.push(b']');
        }
        Value::Object(map) if !map.is_empty() => {
            out.push(b'{');
            for (at, (key, value)) in map.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                line(out, depth + 1);
                write_string(key, out);
                out.extend_from_slice(b": ");
                write_pretty(value, depth + 1, out);
            }
            line(out, depth);
            out.push(b'}');
        }
        _ => write(value, out),
    }
}

/// Appends a text as a JSON string.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut at = 0;
    loop {
        let end = plain_until(bytes, at);
        out.extend_from_slice(&bytes[at..end]);
        let Some(byte) = bytes.get(end) else { break };
        match ESCAPE[usize::from(*byte)] {
            b'u' => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
            letter => out.extend_from_slice(&[b'\\', letter]),
        }
        at = end + 1;
    }
    out.push(b'"');
}

/// Appends a member's name as JSON, and the colon.
fn write_key(key: &Key, out: &mut Vec<u8>) {
    match key.quoted() {
        Some(known) => out.extend_from_slice(known),
        None => {
            write_string(key, out);
            out.push(b':');
        }
    }
}

/// Go's form: plain digits between 1e-6 and 1e21, else with an exponent that
/// always has its sign.
pub(crate) fn write_float(number: f64, out: &mut Vec<u8>) {
    let size = number.abs();
    // Writing into a vector cannot fail.
    let _ = if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        match text.split_once('e') {
            Some((digits, power)) if !power.starts_with('-') => write!(out, "{digits}e+{power}"),
            _ => write!(out, "{text}"),
        }
    } else {
        write!(out, "{number}")
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn floats_are_written_as_go_writes_them() {
        let text = |number: f64| Value::Float(number).to_string();
        assert_eq!(text(1.0), "1");
        assert_eq!(text(-0.25), "-0.25");
        assert_eq!(text(1e21), "1e+21");
        assert_eq!(text(1e-7), "1e-7");
        assert_eq!(text(1.5e300), "1.5e+300");
        assert_eq!(text(123_456_789_012_345_680_000.0), "123456789012345680000");
    }

    #[test]
    fn a_text_of_any_length_with_an_escape_anywhere_reads_back() {
        for length in 0..40 {
            for at in 0..=length {
                for odd in ["\"", "\\", "\n", "\u{1f}", "é", "\u{7f}", "\u{2028}", "<"] {
                    let text = format!("{}{odd}{}", "a".repeat(at), "b".repeat(length - at));
                    let value = Value::from(text.as_str());
                    assert_eq!(Value::from_slice(&value.to_vec()).unwrap(), value, "{text}");
                }
            }
        }
    }

    #[test]
    fn names_that_are_known_and_others_are_written_alike() {
        let known = Key::new("metadata");
        for (key, text) in [
            (known.to_field(), r#""f:metadata":"#),
            (known, r#""metadata":"#),
            (Key::new("no such \" name"), r#""no such \" name":"#),
        ] {
            let mut out = Vec::new();
            write_key(&key, &mut out);
            assert_eq!(out, text.as_bytes());
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        for name in crate::generated::names::NAMES {
            assert!(!name.contains(['"', '\\']) && !name.contains(char::is_control));
        }
        assert_eq!(
            value!("a\"\\\n\u{1}é").to_string(),
            "\"a\\\"\\\\\\n\\u0001é\""
        );
    }

    #[test]
    fn pretty_text_parses_back() {
        let value = value!({"a": [1, {"b": []}], "c": {}, "d": null});
        assert_eq!(Value::from_slice(&value.to_vec_pretty()).unwrap(), value);
    }
}
