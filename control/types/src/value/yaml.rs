//! YAML out, laid out as Go's libraries do it: people compare files that one
//! server wrote with what another answers.
//!
//! Block style, two blanks a level, lists as deep as the member they belong to.
//! A text stands plain unless it would be read as something else (YAML 1.1: `on`,
//! `12:30`, `1e3`, a date) or has indicators; then it is quoted. Texts of several
//! lines are literal blocks. Lines are folded at the first blank behind column 80.

use super::{Map, Value};

/// Column behind which a line is folded.
const WIDTH: usize = 80;
/// Longer keys are marked with `?`.
const KEY: usize = 128;

/// The value as a document.
pub(super) fn write(value: &Value) -> String {
    let mut writer = Writer {
        out: String::with_capacity(512),
        column: 0,
    };
    match value {
        Value::Object(map) if !map.is_empty() => writer.mapping(map, 0, true),
        Value::Array(items) if !items.is_empty() => writer.sequence(items, 0, true),
        other => writer.scalar(other, 0),
    }
    if writer.column > 0 {
        writer.push('\n');
    }
    writer.out
}

struct Writer {
    out: String,
    column: usize,
}

impl Writer {
    fn push(&mut self, letter: char) {
        self.out.push(letter);
        self.column = if letter == '\n' { 0 } else { self.column + 1 };
    }

    fn text(&mut self, text: &str) {
        text.chars().for_each(|letter| self.push(letter));
    }

    fn line(&mut self, indent: usize) {
        if self.column > 0 {
            self.push('\n');
        }
        (0..indent).for_each(|_| self.push(' '));
    }

    /// `inline`: the first member goes on in the line that is there.
    fn mapping(&mut self, map: &Map, indent: usize, inline: bool) {
        let mut members: Vec<_> = map.iter().collect();
        sort(&mut members, &|(a, _), (b, _)| {
            natural(a.as_str(), b.as_str()).is_lt()
        });
        for (at, (key, value)) in members.into_iter().enumerate() {
            if at > 0 || !inline {
                self.line(indent);
            }
            let key = key.as_str();
            if key.contains('\n') || key.len() > KEY {
                self.text("? ");
                self.string(key, indent + 2, true);
                self.line(indent);
                self.text(": ");
                match value {
                    Value::Object(map) if !map.is_empty() => self.mapping(map, indent + 2, true),
                    Value::Array(items) if !items.is_empty() => {
                        self.sequence(items, indent + 2, true);
                    }
                    other => self.scalar(other, indent + 2),
                }
                continue;
            }
            self.string(key, indent, false);
            self.push(':');
            match value {
                Value::Object(map) if !map.is_empty() => self.mapping(map, indent + 2, false),
                Value::Array(items) if !items.is_empty() => self.sequence(items, indent, false),
                other => {
                    self.push(' ');
                    self.scalar(other, indent + 2);
                }
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize, inline: bool) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 || !inline {
                self.line(indent);
            }
            self.text("- ");
            match item {
                Value::Object(map) if !map.is_empty() => self.mapping(map, indent + 2, true),
                Value::Array(items) if !items.is_empty() => self.sequence(items, indent + 2, true),
                other => self.scalar(other, indent + 2),
            }
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => self.text("null"),
            Value::Bool(truth) => self.text(if *truth { "true" } else { "false" }),
            Value::Int(number) => self.text(itoa::Buffer::new().format(*number)),
            Value::Float(number) => self.text(&float(*number)),
            Value::String(text) => self.string(text, indent, true),
            Value::Array(_) => self.text("[]"),
            Value::Object(_) => self.text("{}"),
        }
    }

    /// A text; further lines of it begin at `indent`. A key is never folded.
    fn string(&mut self, text: &str, indent: usize, folds: bool) {
        let looks = Looks::of(text);
        let lines = text.contains('\n');
        if lines && folds && looks.block {
            self.literal(text, indent);
        } else if lines || !looks.single || is_other(text) {
            self.double_quoted(text, indent, folds);
        } else if looks.plain {
            self.folded(text, indent, folds, false);
        } else {
            self.push('\'');
            self.folded(text, indent, folds, true);
            self.push('\'');
        }
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.push('|');
        if text.starts_with([' ', '\n']) {
            self.push('2');
        }
        if !text.ends_with('\n') {
            self.push('-');
        } else if text == "\n" || text.ends_with("\n\n") {
            self.push('+');
        }
        self.push('\n');
        for line in text.split_inclusive('\n') {
            if line != "\n" {
                self.line(indent);
            }
            self.text(line);
        }
    }

    /// A text of one line, plain or within single quotes.
    fn folded(&mut self, text: &str, indent: usize, folds: bool, quoted: bool) {
        let mut after_space = false;
        let mut letters = text.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            let next = letters.peek().map(|(_, next)| *next);
            let breaks = folds && letter == ' ' && !after_space && self.column > WIDTH;
            let inside = !quoted || (at > 0 && next.is_some());
            if breaks && inside && next != Some(' ') {
                self.line(indent);
            } else {
                if quoted && letter == '\'' {
                    self.push('\'');
                }
                self.push(letter);
            }
            after_space = letter == ' ';
        }
    }

    fn double_quoted(&mut self, text: &str, indent: usize, folds: bool) {
        self.push('"');
        let mut after_space = false;
        let mut letters = text.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            let next = letters.peek().map(|(_, next)| *next);
            let breaks = folds && letter == ' ' && !after_space && self.column > WIDTH;
            if breaks && at > 0 && next.is_some() {
                self.line(indent);
                if next == Some(' ') {
                    self.push('\\');
                }
            } else if letter == '"' || letter == '\\' || !is_printable(letter) || is_break(letter) {
                self.escaped(letter);
            } else {
                self.push(letter);
            }
            after_space = letter == ' ';
        }
        self.push('"');
    }

    fn escaped(&mut self, letter: char) {
        self.push('\\');
        let short = match letter {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' | '\\' => letter,
            '\u{85}' => 'N',
            '\u{a0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            other => {
                let code = u32::from(other);
                let long = match code {
                    0..=0xff => format!("x{code:02X}"),
                    0x100..=0xffff => format!("u{code:04X}"),
                    _ => format!("U{code:08X}"),
                };
                self.text(&long);
                return;
            }
        };
        self.push(short);
    }
}

/// How a text may be written.
struct Looks {
    plain: bool,
    single: bool,
    block: bool,
}

impl Looks {
    fn of(text: &str) -> Self {
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut breaks, mut break_space, mut space_break) =
            (false, false, false, false);
        let (mut before, mut previous) = (' ', None);
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            let blank_follows = letters.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
            indicators |= match letter {
                '#' => before == ' ' || before == '\t' || is_break(before),
                ':' => blank_follows,
                '-' | '?' => previous.is_none() && blank_follows,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
                | '@' | '`' => previous.is_none(),
                _ => false,
            };
            special |= !is_printable(letter);
            if letter == ' ' {
                break_space |= previous.is_some_and(is_break);
            } else if is_break(letter) {
                breaks = true;
                space_break |= previous == Some(' ');
            }
            before = letter;
            previous = Some(letter);
        }
        let edge = |letter: char| letter == ' ' || is_break(letter);
        let padded = text.starts_with(edge) || text.ends_with(edge);
        let broken = space_break || special;
        Self {
            plain: !indicators && !breaks && !padded && !broken,
            single: !break_space && !broken,
            block: !text.is_empty() && !text.ends_with(' ') && !broken,
        }
    }
}

const fn is_break(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

const fn is_printable(letter: char) -> bool {
    matches!(letter, '\n' | '\u{20}'..='\u{7e}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}'
        | '\u{ff00}'..='\u{fffd}')
}

/// Whether a plain text would be read as a number, a truth value, a date or null.
fn is_other(text: &str) -> bool {
    match text.as_bytes().first() {
        None => true,
        Some(b'.') => {
            let special = [".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF"].contains(&text);
            special || is_float(text)
        }
        Some(b'+' | b'-' | b'0'..=b'9') => {
            let plain = text.replace('_', "");
            matches!(text.get(1..), Some(".inf" | ".Inf" | ".INF"))
                || is_date(text)
                || is_integer(&plain)
                || is_float(&plain)
                || is_base_60(text)
        }
        Some(_) => matches!(
            text,
            "y" | "Y"
                | "yes"
                | "Yes"
                | "YES"
                | "true"
                | "True"
                | "TRUE"
                | "on"
                | "On"
                | "ON"
                | "n"
                | "N"
                | "no"
                | "No"
                | "NO"
                | "false"
                | "False"
                | "FALSE"
                | "off"
                | "Off"
                | "OFF"
                | "~"
                | "null"
                | "Null"
                | "NULL"
        ),
    }
}

/// Whole numbers with the prefixes that Go knows.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let prefixed = |prefix: [&str; 2], radix| {
        let rest = prefix.iter().find_map(|prefix| digits.strip_prefix(prefix));
        rest.is_some_and(|rest| {
            !rest.starts_with(['+', '-']) && u64::from_str_radix(rest, radix).is_ok()
        })
    };
    let decimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    prefixed(["0x", "0X"], 16)
        || prefixed(["0o", "0O"], 8)
        || prefixed(["0b", "0B"], 2)
        // Too large or no octal: a float.
        || decimal
}

/// Decimal floats that are not too large.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent = exponent.is_none_or(|text| {
        let text = text.strip_prefix(['+', '-']).unwrap_or(text);
        !text.is_empty() && digits(text)
    });
    let mantissa = match mantissa.split_once('.') {
        Some(("", after)) => !after.is_empty() && digits(after),
        Some((before, after)) => digits(before) && digits(after),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    mantissa && exponent && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// `12:30`, which YAML 1.1 reads in base 60.
fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.split(':');
    let digits = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let first = parts.next().unwrap_or_default();
    let mut count = 0;
    first.starts_with(|letter: char| letter.is_ascii_digit())
        && digits(first)
        && digits(fraction)
        && parts.all(|part| {
            count += 1;
            part.len() <= 2 && part.parse::<u8>().is_ok_and(|number| number < 60)
        })
        && count > 0
}

/// A date, alone or with a time.
fn is_date(text: &str) -> bool {
    fn number(text: &str) -> Option<i8> {
        let right = matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit());
        right.then(|| text.parse().ok()).flatten()
    }
    fn clock(text: &str) -> Option<()> {
        let (text, fraction) = text.split_once(['.', ',']).unwrap_or((text, "0"));
        let mut parts = text.split(':').map(number);
        let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
        let fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
        (parts.next().is_none() && hour < 24 && minute < 60 && second < 60 && fraction)
            .then_some(())
    }
    fn zoned(text: &str) -> Option<()> {
        if let Some(text) = text.strip_suffix('Z') {
            return clock(text);
        }
        let at = text.rfind(['+', '-'])?;
        let (hours, minutes) = text[at + 1..].split_once(':')?;
        (hours.len() == 2 && minutes.len() == 2).then_some(())?;
        (number(hours)? < 24 && number(minutes)? < 60).then_some(())?;
        clock(&text[..at])
    }
    fn whole(text: &str) -> Option<()> {
        let (year, rest) = text.split_at_checked(4)?;
        let year: i16 = year
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| year.parse().ok())??;
        let (month, rest) = rest.strip_prefix('-')?.split_once('-')?;
        let end = rest.find(['T', 't', ' ']).unwrap_or(rest.len());
        jiff::civil::Date::new(year, number(month)?, number(&rest[..end])?).ok()?;
        match rest.as_bytes().get(end) {
            None => Some(()),
            Some(b' ') => clock(&rest[end + 1..]),
            Some(_) => zoned(&rest[end + 1..]),
        }
    }
    whole(text).is_some()
}

/// A float as Go prints it with as many digits as it needs.
fn float(number: f64) -> String {
    let exact = format!("{number:e}");
    let Some((digits, exponent)) = exact.split_once('e') else {
        return exact;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Sorts by an order that may contradict itself, as [`natural`] does for zeros in
/// odd places: the standard library's sorting may panic then.
fn sort<T: Copy>(items: &mut [T], less: &impl Fn(&T, &T) -> bool) {
    // Nearly every object is this small; Go sorts those by insertion, too.
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

/// The order of keys: numbers within them by value, letters behind all else.
fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    let (one, other): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let number = |letters: &[char], from: usize, mut value: i64| {
        let mut end = from;
        while let Some(digit) = letters.get(end).and_then(|letter| letter.to_digit(10)) {
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
            end += 1;
        }
        (value, end)
    };
    for (at, (left, right)) in one.iter().zip(&other).enumerate() {
        if left == right {
            continue;
        }
        match (left.is_alphabetic(), right.is_alphabetic()) {
            (true, true) => return left.cmp(right),
            (true, false) => return std::cmp::Ordering::Greater,
            (false, true) => return std::cmp::Ordering::Less,
            (false, false) => {}
        }
        // A zero within a number counts, one that leads it does not.
        let within = one[..at]
            .iter()
            .rev()
            .take_while(|letter| letter.is_ascii_digit())
            .any(|letter| *letter != '0');
        let start = i64::from((*left == '0' || *right == '0') && within);
        let (left_number, left_end) = number(&one, at, start);
        let (right_number, right_end) = number(&other, at, start);
        return left_number
            .cmp(&right_number)
            .then(left_end.cmp(&right_end))
            .then(left.cmp(right));
    }
    one.len().cmp(&other.len())
}

#[cfg(test)]
mod tests {
    use crate::value;
    use crate::value::{Map, Value};

    fn yaml(value: &Value) -> String {
        super::write(value)
    }

    #[test]
    fn texts_are_quoted_where_they_would_be_read_as_something_else() {
        for (text, written) in [
            ("plain text", "plain text"),
            ("", "\"\""),
            ("on", "\"on\""),
            ("12", "\"12\""),
            ("0x1F", "\"0x1F\""),
            ("1e3", "\"1e3\""),
            ("1.5.2", "1.5.2"),
            ("10.96.0.1", "10.96.0.1"),
            ("12:30", "\"12:30\""),
            ("fe80::1", "fe80::1"),
            ("2026-11-21T10:00:00Z", "\"2026-11-21T10:00:00Z\""),
            ("2026-13-21", "2026-13-21"),
            ("*", "'*'"),
            ("- a", "'- a'"),
            ("-a", "-a"),
            ("a: b", "'a: b'"),
            ("a:b", "a:b"),
            ("it's", "it's"),
            ("'a'", "'''a'''"),
            ("a #b", "'a #b'"),
            ("a#b", "a#b"),
            (" a", "' a'"),
            ("a\tb", "\"a\\tb\""),
            ("ü", "ü"),
            ("\u{1f600}", "\"\\U0001F600\""),
            ("k:{\"name\":\"c\"}", "k:{\"name\":\"c\"}"),
            ("{}", "'{}'"),
            ("null", "\"null\""),
            ("~x", "~x"),
        ] {
            assert_eq!(
                yaml(&value!({"a": text})),
                format!("a: {written}\n"),
                "{text}"
            );
        }
    }

    #[test]
    fn structure_is_as_deep_as_it_must_be() {
        let value = value!({
            "spec": {"list": [{"b": 1, "a": [true, null]}, [["x"]], {}], "empty": []},
            "kind": "A"
        });
        let expected = "kind: A\nspec:\n  empty: []\n  list:\n  - a:\n    - true\n    - null\n    b: 1\n  - - - x\n  - {}\n";
        assert_eq!(yaml(&value), expected);
    }

    #[test]
    fn several_lines_are_a_block() {
        let text = |text: &str| yaml(&value!({"a": text}));
        assert_eq!(text("x\n\ny"), "a: |-\n  x\n\n  y\n");
        assert_eq!(text("x\ny\n"), "a: |\n  x\n  y\n");
        assert_eq!(text("x\n\n"), "a: |+\n  x\n\n");
        assert_eq!(text("  x\ny\n"), "a: |2\n    x\n  y\n");
        assert_eq!(text("x \ny"), "a: \"x \\ny\"\n");
    }

    #[test]
    fn long_texts_are_folded_and_long_keys_marked() {
        let long = format!("{} {} end", "a".repeat(60), "b".repeat(30));
        let folded = format!("k: {} {}\n  end\n", "a".repeat(60), "b".repeat(30));
        assert_eq!(yaml(&value!({"k": (long.as_str())})), folded);
        let key = "k".repeat(129);
        let marked = yaml(&value!({(key.as_str()): {"a": 1}}));
        assert_eq!(marked, format!("? {key}\n: a: 1\n"));
    }

    #[test]
    fn keys_are_ordered_as_people_count() {
        let value = value!({"a10": 1, "a2": 2, "b": 3, ".": 4, "A": 5, "a-1": 6, "a": 7});
        let text = yaml(&value);
        let keys: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split(':').next())
            .collect();
        assert_eq!(keys, [".", "A", "a", "a-1", "a2", "a10", "b"]);
    }

    #[test]
    fn keys_whose_order_contradicts_itself_are_written_all_the_same() {
        let mut map = Map::new();
        for one in 0..4_000_u32 {
            let mixed = one.wrapping_mul(2_654_435_761);
            let letters = b"0019a-_.";
            let key: String = (0..6)
                .map(|at| char::from(letters[(mixed >> (at * 3) & 7) as usize]))
                .collect();
            map.insert(key, 1);
        }
        let count = map.len();
        assert!(count > 1_000);
        assert_eq!(yaml(&map.into()).lines().count(), count);
    }

    #[test]
    fn numbers_are_printed_as_go_prints_them() {
        for (number, text) in [
            (0.5, "0.5"),
            (1e6, "1e+06"),
            (123_456.5, "123456.5"),
            (1.5e-7, "1.5e-07"),
            (-2.25, "-2.25"),
        ] {
            assert_eq!(yaml(&value!({"a": number})), format!("a: {text}\n"));
        }
    }
}
