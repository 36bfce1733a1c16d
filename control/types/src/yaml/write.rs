//! YAML out.

use std::cmp::Ordering;

use super::scalar::{PlainScalar, format_float, resolve};
use crate::value::{Map, Value};

/// The column after which text is broken at the next blank.
const WIDTH: usize = 80;
/// The longest key that is written on one line with its colon.
const SIMPLE_KEY: usize = 128;

/// A value as YAML, with a line break at its end.
#[must_use]
pub fn to_string(value: &Value) -> String {
    let mut writer = Writer::default();
    match value {
        Value::Object(map) if !map.is_empty() => writer.map(map, 0),
        Value::Array(items) if !items.is_empty() => writer.list(items, 0),
        other => {
            writer.leaf(other, 2, false);
            writer.line();
        }
    }
    writer.out
}

#[derive(Default)]
struct Writer {
    out: String,
    /// Characters on this line.
    column: usize,
}

impl Writer {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn put_char(&mut self, character: char) {
        self.out.push(character);
        self.column += 1;
    }

    fn line(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    /// A new line, unless this one is empty, and its blanks.
    fn indent(&mut self, indent: usize) {
        if self.column > 0 {
            self.line();
        }
        for _ in 0..indent {
            self.put_char(' ');
        }
    }

    /// Writes the members of a map, each on its own line indented by `indent`; the first
    /// continues the current line.
    fn map(&mut self, map: &Map, indent: usize) {
        let mut members: Vec<_> = map.iter().collect();
        sort(&mut members, &|(a, _), (b, _)| natural(a, b).is_lt());
        for (at, (name, value)) in members.into_iter().enumerate() {
            if at > 0 || self.column == 0 {
                self.indent(indent);
            }
            if is_simple(name) {
                self.text(name, indent, true);
            } else {
                self.put("? ");
                self.text(name, indent + 2, false);
                self.indent(indent);
            }
            self.put(":");
            match value {
                Value::Object(map) if !map.is_empty() => {
                    self.line();
                    self.map(map, indent + 2);
                }
                // Items stand below their name, not behind it.
                Value::Array(items) if !items.is_empty() => {
                    self.line();
                    self.list(items, indent);
                }
                other => {
                    self.put(" ");
                    self.leaf(other, indent + 2, false);
                }
            }
        }
        if self.column > 0 {
            self.line();
        }
    }

    fn list(&mut self, items: &[Value], indent: usize) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 || self.column == 0 {
                self.indent(indent);
            }
            self.put("- ");
            match item {
                Value::Object(map) if !map.is_empty() => self.map(map, indent + 2),
                Value::Array(items) if !items.is_empty() => self.list(items, indent + 2),
                other => self.leaf(other, indent + 2, false),
            }
        }
        if self.column > 0 {
            self.line();
        }
    }

    /// A scalar, or an empty collection.
    fn leaf(&mut self, value: &Value, indent: usize, key: bool) {
        match value {
            Value::Null => self.put("null"),
            Value::Bool(truth) => self.put(if *truth { "true" } else { "false" }),
            Value::Int(number) => self.put(&number.to_string()),
            Value::Float(_) => {
                // As the way over JSON leaves it: whole numbers are whole.
                let text = value.to_string();
                match resolve(&text) {
                    PlainScalar::Float(number) => self.put(&format_float(number)),
                    _ => self.put(&text),
                }
            }
            Value::String(text) => self.text(text, indent, key),
            Value::Array(_) => self.put("[]"),
            Value::Object(_) => self.put("{}"),
        }
    }

    fn text(&mut self, text: &str, indent: usize, key: bool) {
        let facts = Facts::of(text);
        let plain = resolve(text) == PlainScalar::Text && !is_base_60(text);
        let style = if text.contains('\n') {
            if facts.block && !key {
                Style::Literal
            } else {
                Style::Double
            }
        } else if !plain {
            Style::Double
        } else if facts.plain {
            Style::Plain
        } else if facts.single {
            Style::Single
        } else {
            Style::Double
        };
        match style {
            Style::Plain => self.words(text, indent, key, false),
            Style::Single => {
                self.put_char('\'');
                self.words(text, indent, key, true);
                self.put_char('\'');
            }
            Style::Double => self.double(text, indent, key),
            Style::Literal => self.literal(text, indent),
        }
    }

    /// A text that is broken where a line is full; within quotes these are doubled.
    fn words(&mut self, text: &str, indent: usize, key: bool, quoted: bool) {
        let characters: Vec<char> = text.chars().collect();
        let mut blank = false;
        for (at, character) in characters.iter().enumerate() {
            if *character == ' ' {
                let last = at + 1 == characters.len();
                let next = characters.get(at + 1) == Some(&' ');
                let breaks = !key
                    && !blank
                    && self.column > WIDTH
                    && !next
                    && !(quoted && (at == 0 || last));
                if breaks {
                    self.indent(indent);
                } else {
                    self.put_char(' ');
                }
                blank = true;
            } else {
                if quoted && *character == '\'' {
                    self.put_char('\'');
                }
                self.put_char(*character);
                blank = false;
            }
        }
    }

    fn double(&mut self, text: &str, indent: usize, key: bool) {
        self.put_char('"');
        let characters: Vec<char> = text.chars().collect();
        let mut blank = false;
        for (at, character) in characters.iter().enumerate() {
            match character {
                ' ' => {
                    let inside = at > 0 && at + 1 < characters.len();
                    if !key && !blank && self.column > WIDTH && inside {
                        self.indent(indent);
                        if characters[at + 1] == ' ' {
                            self.put_char('\\');
                        }
                    } else {
                        self.put_char(' ');
                    }
                    blank = true;
                    continue;
                }
                '"' => self.put("\\\""),
                '\\' => self.put("\\\\"),
                '\u{0}' => self.put("\\0"),
                '\u{7}' => self.put("\\a"),
                '\u{8}' => self.put("\\b"),
                '\t' => self.put("\\t"),
                '\n' => self.put("\\n"),
                '\u{b}' => self.put("\\v"),
                '\u{c}' => self.put("\\f"),
                '\r' => self.put("\\r"),
                '\u{1b}' => self.put("\\e"),
                '\u{85}' => self.put("\\N"),
                '\u{2028}' => self.put("\\L"),
                '\u{2029}' => self.put("\\P"),
                other if is_printable(*other) => self.put_char(*other),
                other => {
                    let number = u32::from(*other);
                    let escaped = match number {
                        0..=0xff => format!("\\x{number:02X}"),
                        0x100..=0xffff => format!("\\u{number:04X}"),
                        _ => format!("\\U{number:08X}"),
                    };
                    self.put(&escaped);
                }
            }
            blank = false;
        }
        self.put_char('"');
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.put_char('|');
        if text.starts_with([' ', '\n', '\u{85}', '\u{2028}', '\u{2029}', '\r']) {
            self.put("2");
        }
        let ends = text.chars().rev().take_while(|c| is_break(*c)).count();
        if ends == 0 {
            self.put("-");
        } else if ends > 1 || text.chars().count() == 1 {
            self.put("+");
        }
        self.line();
        let mut fresh = true;
        for character in text.chars() {
            if is_break(character) {
                if character == '\n' {
                    self.line();
                } else {
                    self.out.push(character);
                    self.column = 0;
                }
                fresh = true;
            } else {
                if fresh {
                    self.indent(indent);
                }
                self.put_char(character);
                fresh = false;
            }
        }
    }
}

enum Style {
    Plain,
    Single,
    Double,
    Literal,
}

/// Properties of a text that decide which styles it allows.
struct Facts {
    plain: bool,
    single: bool,
    block: bool,
}

impl Facts {
    fn of(text: &str) -> Self {
        if text.is_empty() {
            return Self {
                plain: true,
                single: true,
                block: false,
            };
        }
        let mut indicator = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut breaks, mut break_space, mut space_break) =
            (false, false, false, false);
        let (mut space, mut broke, mut blank_before) = (false, false, true);
        let mut rest = text.chars().peekable();
        let mut first = true;
        while let Some(character) = rest.next() {
            let blank_behind = rest.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
            if std::mem::replace(&mut first, false) {
                indicator |= matches!(
                    character,
                    '#' | ','
                        | '['
                        | ']'
                        | '{'
                        | '}'
                        | '&'
                        | '*'
                        | '!'
                        | '|'
                        | '>'
                        | '\''
                        | '"'
                        | '%'
                        | '@'
                        | '`'
                ) || matches!(character, '?' | ':' | '-') && blank_behind;
            } else {
                indicator |= character == ':' && blank_behind || character == '#' && blank_before;
            }
            special |= !is_printable(character);
            if character == ' ' {
                break_space |= broke;
                (space, broke) = (true, false);
            } else if is_break(character) {
                breaks = true;
                space_break |= space;
                (space, broke) = (false, true);
            } else {
                (space, broke) = (false, false);
            }
            blank_before = matches!(character, ' ' | '\t') || is_break(character);
        }
        let edge = |c: char| c == ' ' || is_break(c);
        let edges = text.starts_with(edge) || text.ends_with(edge);
        let trailing_space = text.ends_with(' ');
        Self {
            plain: !(edges || break_space || space_break || special || breaks || indicator),
            single: !(break_space || space_break || special),
            block: !(trailing_space || space_break || special),
        }
    }
}

const fn is_break(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

const fn is_printable(character: char) -> bool {
    matches!(character,
        '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' if character != '\u{feff}')
}

fn is_simple(name: &str) -> bool {
    name.len() <= SIMPLE_KEY && !name.chars().any(is_break)
}

/// `1:30:00`, which older readers take for a number to the base of 60.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let Some((first, rest)) = unsigned.split_once(':') else {
        return false;
    };
    let digits = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let (rest, fraction) = rest.split_once('.').unwrap_or((rest, ""));
    first.starts_with(|c: char| c.is_ascii_digit())
        && digits(first)
        && digits(fraction)
        && rest.split(':').all(|part| {
            (1..=2).contains(&part.len())
                && part.bytes().all(|byte| byte.is_ascii_digit())
                && (part.len() == 1 || part.as_bytes()[0] < b'6')
        })
}

/// Sorts by an order that may contradict itself, as [`natural`] does for zeros in
/// odd places: the standard library's sorting may panic then.
fn sort<T: Copy>(items: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    // Nearly every object is this small; Go uses insertion sort for those, too.
    if items.len() <= 12 {
        for end in 1..items.len() {
            let mut at = end;
            while at > 0 && less(&items[at], &items[at - 1]) {
                items.swap(at, at - 1);
                at -= 1;
            }
        }
        return;
    }
    let (left, right) = items.split_at_mut(items.len() / 2);
    sort(left, less);
    sort(right, less);
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    let mut merged = Vec::with_capacity(left.len() + right.len());
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        let next = if less(other, one) {
            right.next()
        } else {
            left.next()
        };
        merged.extend(next.copied());
    }
    merged.extend(left.chain(right).copied());
    items.copy_from_slice(&merged);
}

/// Natural order of keys: letters individually, runs of digits as numbers, other
/// characters before letters.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    for at in 0..a.len().min(b.len()) {
        if a[at] == b[at] {
            continue;
        }
        match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
            (true, true) => return a[at].cmp(&b[at]),
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) => {}
        }
        // Zeros within a number count, before one they do not.
        let mut number = (0_i64, 0_i64);
        if a[at] == '0' || b[at] == '0' {
            let before = a[..at].iter().rev().take_while(|c| c.is_numeric());
            if before.into_iter().any(|digit| *digit != '0') {
                number = (1, 1);
            }
        }
        let read = |text: &[char], mut number: i64| {
            let mut end = at;
            while let Some(digit) = text.get(end).and_then(|c| c.to_digit(10)) {
                number = number.wrapping_mul(10).wrapping_add(i64::from(digit));
                end += 1;
            }
            (number, end)
        };
        let (left, right) = (read(&a, number.0), read(&b, number.1));
        return left.cmp(&right).then(a[at].cmp(&b[at]));
    }
    a.len().cmp(&b.len())
}
