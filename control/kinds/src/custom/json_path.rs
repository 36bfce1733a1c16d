//! The part of JSONPath that columns and selectable fields use:
//! `.a.b`, `['a']`, `[0]`, `[-1]`, `[*]`, `.*` and filters
//! (`[?(@.type=="Ready")]`).

use control_types::value::Value;

/// A path. One that cannot be read finds nothing.
#[derive(Debug, Default)]
pub(super) struct JsonPath(Box<[Step]>);

#[derive(Debug)]
enum Step {
    Member(Box<str>),
    Item(i64),
    All,
    Where(Condition),
}

#[derive(Debug)]
struct Condition {
    path: JsonPath,
    test: Option<(Test, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Reads a path, with or without the leading dot.
    pub(super) fn parse(text: &str) -> Self {
        steps(text)
            .map(|steps| Self(steps.into()))
            .unwrap_or_default()
    }

    /// The first value at the path.
    pub(super) fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        if self.0.is_empty() {
            return None;
        }
        walk(&self.0, root)
    }
}

fn walk<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else {
        return Some(value);
    };
    match (step, value) {
        (Step::Member(name), value) => walk(rest, value.get(name)?),
        (Step::Item(at), Value::Array(items)) => {
            let at = match usize::try_from(*at) {
                Ok(at) => at,
                Err(_) => {
                    let back = usize::try_from(at.unsigned_abs()).ok()?;
                    items.len().checked_sub(back)?
                }
            };
            walk(rest, items.get(at)?)
        }
        (Step::All, Value::Array(items)) => items.iter().find_map(|item| walk(rest, item)),
        (Step::All, Value::Object(map)) => map.values().find_map(|item| walk(rest, item)),
        (Step::Where(condition), Value::Array(items)) => items
            .iter()
            .filter(|item| condition.holds(item))
            .find_map(|item| walk(rest, item)),
        _ => None,
    }
}

impl Condition {
    fn holds(&self, item: &Value) -> bool {
        let found = self.path.first(item);
        let Some((test, wanted)) = &self.test else {
            return found.is_some();
        };
        let Some(found) = found else {
            return false;
        };
        let order = match (found, wanted) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            (left, right) => match (left.as_f64(), right.as_f64()) {
                (Some(left), Some(right)) => left.partial_cmp(&right),
                _ => None,
            },
        };
        let Some(order) = order else {
            return false;
        };
        match test {
            Test::Equal => order.is_eq(),
            Test::Unequal => order.is_ne(),
            Test::Less => order.is_lt(),
            Test::LessOrEqual => order.is_le(),
            Test::Greater => order.is_gt(),
            Test::GreaterOrEqual => order.is_ge(),
        }
    }
}

fn steps(text: &str) -> Option<Vec<Step>> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        match first {
            '.' => rest = &rest[1..],
            '[' => {
                let end = closing(rest)?;
                out.push(bracket(&rest[1..end])?);
                rest = &rest[end + 1..];
            }
            _ => {
                let (name, length) = name(rest);
                out.push(if name == "*" {
                    Step::All
                } else {
                    Step::Member(name.into())
                });
                rest = &rest[length..];
            }
        }
    }
    Some(out)
}

/// A name and its length in the text: a dot may be escaped.
fn name(text: &str) -> (String, usize) {
    let mut out = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => {
                if let Some((_, next)) = letters.next() {
                    out.push(next);
                }
            }
            '.' | '[' => return (out, at),
            other => out.push(other),
        }
    }
    (out, text.len())
}

/// Returns the position of the bracket that closes the first one, ignoring quotes and
/// inner brackets.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

fn bracket(inside: &str) -> Option<Step> {
    let inside = inside.trim();
    if inside == "*" {
        return Some(Step::All);
    }
    if let Some(name) = unquoted(inside) {
        return Some(Step::Member(name.into()));
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        return condition(filter).map(Step::Where);
    }
    // A range that begins at some item has that for its first.
    let at = inside.split(':').next().unwrap_or_default();
    if at.is_empty() {
        return Some(Step::Item(0));
    }
    at.parse().ok().map(Step::Item)
}

fn condition(filter: &str) -> Option<Condition> {
    const TESTS: [(&str, Test); 6] = [
        ("==", Test::Equal),
        ("!=", Test::Unequal),
        ("<=", Test::LessOrEqual),
        (">=", Test::GreaterOrEqual),
        ("<", Test::Less),
        (">", Test::Greater),
    ];
    let found = TESTS
        .iter()
        .filter_map(|(sign, test)| Some((filter.find(sign)?, *sign, *test)))
        .min_by_key(|(at, sign, _)| (*at, std::cmp::Reverse(sign.len())));
    let path = |text: &str| {
        let steps = steps(text.trim().strip_prefix('@')?)?;
        Some(JsonPath(steps.into()))
    };
    let Some((at, sign, test)) = found else {
        return Some(Condition {
            path: path(filter)?,
            test: None,
        });
    };
    let literal = filter[at + sign.len()..].trim();
    let value = match unquoted(literal) {
        Some(text) => Value::from(text),
        None => Value::from_slice(literal.as_bytes()).ok()?,
    };
    Some(Condition {
        path: path(&filter[..at])?,
        test: Some((test, value)),
    })
}

fn unquoted(text: &str) -> Option<&str> {
    ['\'', '"']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn paths_find_their_first_value() {
        let object = value!({
            "a": {"b.c": 1, "list": [{"t": "x", "n": 1}, {"t": "y", "n": 2}]},
            "m": {"k": "v"}
        });
        for (path, wanted) in [
            (".m.k", Some(value!("v"))),
            ("m.k", Some(value!("v"))),
            (r".a.b\.c", Some(value!(1))),
            (".a['b.c']", Some(value!(1))),
            (".a.list[1].n", Some(value!(2))),
            (".a.list[-1].n", Some(value!(2))),
            (".a.list[*].t", Some(value!("x"))),
            (".m.*", Some(value!("v"))),
            (r#".a.list[?(@.t=="y")].n"#, Some(value!(2))),
            (".a.list[?(@.n >= 2)].t", Some(value!("y"))),
            (".a.list[?(@.t != 'x')].t", Some(value!("y"))),
            (".a.list[?(@.q)].t", None),
            (".a.nothing.x", None),
            (".a[", None),
            ("", None),
        ] {
            assert_eq!(
                JsonPath::parse(path).first(&object),
                wanted.as_ref(),
                "{path}"
            );
        }
    }
}
