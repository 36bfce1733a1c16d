//! The difference of two values as messages show it: lines of indented JSON, as a
//! unified diff with three lines around each change.
//!
//! Which lines are taken as equal follows the rule of Python's `difflib`
//! (Ratcliff and Obershelp's longest matching blocks), which Kubernetes uses through
//! a Go library; so do its lines of long texts that are too frequent to count.

use std::collections::HashMap;

use control_types::value::Value;

/// How many equal lines are shown around a change.
const CONTEXT: usize = 3;
/// The number of lines from which frequent lines do not start a match.
const LONG: usize = 200;

/// How `after` differs from `before`; empty when they are the same.
#[must_use]
pub(crate) fn unified(before: &Value, after: &Value) -> String {
    let (before, after) = (lines(before), lines(after));
    let mut out = String::new();
    for hunk in hunks(changes(&before, &after)) {
        write_hunk(&hunk, &before, &after, &mut out);
    }
    out
}

/// A block of lines: equal in both, or a replacement of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DiffChange {
    equal: bool,
    before: (usize, usize),
    after: (usize, usize),
}

fn write_hunk(hunk: &[DiffChange], before: &[String], after: &[String], out: &mut String) {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else {
        return;
    };
    out.push_str(&format!(
        "@@ -{} +{} @@\n",
        range(first.before.0, last.before.1),
        range(first.after.0, last.after.1)
    ));
    let mut push = |sign: char, lines: &[String]| {
        for line in lines {
            out.push(sign);
            out.push_str(line);
            out.push('\n');
        }
    };
    for change in hunk {
        let then = &before[change.before.0..change.before.1];
        if change.equal {
            push(' ', then);
        } else {
            push('-', then);
            push('+', &after[change.after.0..change.after.1]);
        }
    }
}

/// Lines as a hunk's head names them: the first, counted from one, and how many.
fn range(start: usize, end: usize) -> String {
    match end - start {
        1 => format!("{}", start + 1),
        // None: the line before.
        0 => format!("{start},0"),
        count => format!("{},{count}", start + 1),
    }
}

/// Changes that are near each other, with the lines around them.
fn hunks(mut changes: Vec<DiffChange>) -> Vec<Vec<DiffChange>> {
    if let Some(first) = changes.first_mut().filter(|change| change.equal) {
        first.before.0 = first.before.0.max(first.before.1.saturating_sub(CONTEXT));
        first.after.0 = first.after.0.max(first.after.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = changes.last_mut().filter(|change| change.equal) {
        last.before.1 = last.before.1.min(last.before.0 + CONTEXT);
        last.after.1 = last.after.1.min(last.after.0 + CONTEXT);
    }
    let mut out = Vec::new();
    let mut hunk: Vec<DiffChange> = Vec::new();
    for mut change in changes {
        if change.equal && change.before.1 - change.before.0 > 2 * CONTEXT {
            hunk.push(DiffChange {
                before: (change.before.0, change.before.0 + CONTEXT),
                after: (change.after.0, change.after.0 + CONTEXT),
                ..change
            });
            out.push(std::mem::take(&mut hunk));
            change.before.0 = change.before.1 - CONTEXT;
            change.after.0 = change.after.1 - CONTEXT;
        }
        hunk.push(change);
    }
    if hunk.iter().any(|change| !change.equal) {
        out.push(hunk);
    }
    out
}

/// Returns the changes from `before` to `after`, in order.
fn changes(before: &[String], after: &[String]) -> Vec<DiffChange> {
    let mut blocks = matches(before, after);
    blocks.push((before.len(), after.len(), 0));
    let (mut i, mut j) = (0, 0);
    let mut out = Vec::new();
    for (a, b, size) in blocks {
        if i < a || j < b {
            out.push(DiffChange {
                equal: false,
                before: (i, a),
                after: (j, b),
            });
        }
        (i, j) = (a + size, b + size);
        if size > 0 {
            out.push(DiffChange {
                equal: true,
                before: (a, i),
                after: (b, j),
            });
        }
    }
    out
}

/// Blocks of equal lines: where in the one, where in the other, how many; none
/// directly behind another.
fn matches(before: &[String], after: &[String]) -> Vec<(usize, usize, usize)> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in after.iter().enumerate() {
        places.entry(line).or_default().push(at);
    }
    if after.len() >= LONG {
        let most = after.len() / 100 + 1;
        places.retain(|_, at| at.len() <= most);
    }
    let mut found: Vec<(usize, usize, usize)> = Vec::new();
    // Looked at from the last to the first, so that they are found in order.
    let mut stretches = vec![((0, before.len()), (0, after.len()), None)];
    while let Some((a, b, known)) = stretches.pop() {
        if let Some(block) = known {
            match found.last_mut() {
                Some((i, j, size)) if *i + *size == a.0 && *j + *size == b.0 => *size += block,
                _ => found.push((a.0, b.0, block)),
            }
            continue;
        }
        let (i, j, size) = longest(before, after, &places, a, b);
        if size == 0 {
            continue;
        }
        if i + size < a.1 && j + size < b.1 {
            stretches.push(((i + size, a.1), (j + size, b.1), None));
        }
        stretches.push(((i, i + size), (j, j + size), Some(size)));
        if a.0 < i && b.0 < j {
            stretches.push(((a.0, i), (b.0, j), None));
        }
    }
    found
}

/// The longest block of equal lines within two stretches: of several the first.
fn longest(
    before: &[String],
    after: &[String],
    places: &HashMap<&str, Vec<usize>>,
    (a, a_end): (usize, usize),
    (b, b_end): (usize, usize),
) -> (usize, usize, usize) {
    let (mut i, mut j, mut size) = (a, b, 0);
    // How long the match is that ends at a line of the second.
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (at, line) in before.iter().enumerate().take(a_end).skip(a) {
        let mut next = HashMap::new();
        let of_line = places.get(line.as_str()).into_iter().flatten();
        for place in of_line.filter(|place| (b..b_end).contains(place)) {
            let length = place
                .checked_sub(1)
                .and_then(|last| lengths.get(&last))
                .map_or(1, |length| length + 1);
            next.insert(*place, length);
            if length > size {
                (i, j, size) = (at + 1 - length, place + 1 - length, length);
            }
        }
        lengths = next;
    }
    // Frequent lines belong to it where they stand beside it.
    while i > a && j > b && before[i - 1] == after[j - 1] {
        (i, j, size) = (i - 1, j - 1, size + 1);
    }
    while i + size < a_end && j + size < b_end && before[i + size] == after[j + size] {
        size += 1;
    }
    (i, j, size)
}

/// Indented JSON as Go writes it, a space a level.
fn lines(value: &Value) -> Vec<String> {
    let mut text = String::new();
    indent(value, 0, &mut text);
    text.split('\n').map(str::to_owned).collect()
}

fn indent(value: &Value, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('{');
            for (at, (key, value)) in map.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(depth + 1, out);
                out.push_str(&crate::error::compact_json(&Value::from(&**key)));
                out.push_str(": ");
                indent(value, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(depth + 1, out);
                indent(item, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        other => out.push_str(&crate::error::compact_json(other)),
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn a_change_is_shown_with_three_lines_around_it() {
        let of = |six: i64| value!({"a": 1, "b": 2, "c": 3, "d": 4, "e": [5], "f": six, "g": null, "h": {}, "i": [], "j": "<"});
        assert_eq!(
            unified(&of(6), &of(7)),
            "@@ -6,7 +6,7 @@\n  \"e\": [\n   5\n  ],\n- \"f\": 6,\n+ \"f\": 7,\n  \"g\": null,\n  \"h\": {},\n  \"i\": [],\n"
        );
        assert_eq!(unified(&of(6), &of(6)), "");
    }

    #[test]
    fn what_is_added_and_what_goes_stands_where_it_was() {
        assert_eq!(
            unified(
                &value!({"a": [1, 2]}),
                &value!({"a": [2], "b": "\u{2028}&"})
            ),
            "@@ -1,6 +1,6 @@\n {\n  \"a\": [\n-  1,\n   2\n- ]\n+ ],\n+ \"b\": \"\\u2028\\u0026\"\n }\n"
        );
        assert_eq!(
            unified(&Value::Null, &value!(1)),
            "@@ -1 +1 @@\n-null\n+1\n"
        );
    }

    #[test]
    fn far_changes_are_shown_apart() {
        let of = |first: i64, last: i64| {
            let mut items: Vec<Value> = (0..300).map(Value::from).collect();
            items[1] = first.into();
            items[298] = last.into();
            Value::Array(items)
        };
        let shown = unified(&of(-1, -2), &of(-3, -4));
        let heads: Vec<&str> = shown.lines().filter(|line| line.starts_with('@')).collect();
        assert_eq!(heads, ["@@ -1,6 +1,6 @@", "@@ -297,6 +297,6 @@"]);
    }
}
