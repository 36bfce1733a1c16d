//! Regular expressions: the syntax and meaning of RE2 by the crate `regex`.

/// The most memory that a compiled expression may take, in bytes.
const LARGEST: usize = 4 << 20;

/// Error for an expression that is not valid in RE2; the message is Go's.
#[derive(Debug, thiserror::Error)]
#[error("error parsing regexp: {reason}: `{part}`")]
pub(crate) struct RegexError {
    reason: String,
    part: String,
}

/// Compiles an expression of RE2.
///
/// # Errors
/// [`RegexError`].
pub(crate) fn compile(pattern: &str) -> Result<regex::Regex, RegexError> {
    regex::RegexBuilder::new(&translated(pattern))
        .size_limit(LARGEST)
        .build()
        .map_err(|error| {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or("").trim();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            let from = |sign| pattern.rfind(sign).and_then(|at| pattern.get(at..));
            let (reason, at) = match reason {
                "unclosed character class" => ("missing closing ]", from('[')),
                "unclosed group" => ("missing closing )", None),
                "unopened group" => ("unexpected )", None),
                other => (other, None),
            };
            RegexError {
                reason: reason.to_owned(),
                part: at.unwrap_or(pattern).to_owned(),
            }
        })
}

/// Translates RE2's syntax: classes are ASCII only, braces may be literals, and brackets
/// contain no operators.
fn translated(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut at = 0;
    // whether inside of brackets
    let mut class = false;
    while let Some(c) = chars.get(at).copied() {
        at += 1;
        match c {
            '\\' => {
                let Some(escaped) = chars.get(at).copied() else {
                    out.push('\\');
                    break;
                };
                at += 1;
                match (escaped, class) {
                    ('d', false) => out.push_str("[0-9]"),
                    ('d', true) => out.push_str("0-9"),
                    ('D', false) => out.push_str("[^0-9]"),
                    ('D', true) => out.push_str("[^0-9]"),
                    ('w', false) => out.push_str("[0-9A-Za-z_]"),
                    ('w', true) => out.push_str("0-9A-Za-z_"),
                    ('W', _) => out.push_str("[^0-9A-Za-z_]"),
                    ('s', false) => out.push_str("[\\t\\n\\f\\r ]"),
                    ('s', true) => out.push_str("\\t\\n\\f\\r "),
                    ('S', _) => out.push_str("[^\\t\\n\\f\\r ]"),
                    ('b', false) => out.push_str("(?-u:\\b)"),
                    ('B', false) => out.push_str("(?-u:\\B)"),
                    ('_' | '<' | '>', _) => out.push(escaped),
                    ('Q', false) => {
                        while let Some(literal) = chars.get(at).copied() {
                            if literal == '\\' && chars.get(at + 1) == Some(&'E') {
                                at += 2;
                                break;
                            }
                            at += 1;
                            out.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
                        }
                    }
                    (other, _) => {
                        out.push('\\');
                        out.push(other);
                    }
                }
            }
            '[' if !class => {
                class = true;
                out.push('[');
                if chars.get(at) == Some(&'^') {
                    out.push('^');
                    at += 1;
                }
                // a bracket in the first place is a literal
                if chars.get(at) == Some(&']') {
                    out.push_str("\\]");
                    at += 1;
                }
            }
            '[' if chars.get(at) == Some(&':') => {
                // a named class, up to its end
                out.push('[');
                while let Some(c) = chars.get(at).copied() {
                    at += 1;
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            '[' => out.push_str("\\["),
            ']' if class => {
                class = false;
                out.push(']');
            }
            '&' | '~' if class => {
                out.push('\\');
                out.push(c);
            }
            '-' if class && chars.get(at) == Some(&'-') => out.push_str("\\-"),
            '{' if !class && !repeats(&chars[at..]) => out.push_str("\\{"),
            '}' if !class && !out.contains('{') => out.push_str("\\}"),
            c => out.push(c),
        }
    }
    out
}

/// Whether what stands behind a brace is a count of repetitions: `2}`, `2,}`, `2,3}`.
fn repeats(rest: &[char]) -> bool {
    let digits = |from: usize| {
        rest.iter()
            .skip(from)
            .take_while(|c| c.is_ascii_digit())
            .count()
    };
    let first = digits(0);
    if first == 0 {
        return false;
    }
    match rest.get(first) {
        Some('}') => true,
        Some(',') => rest.get(first + 1 + digits(first + 1)) == Some(&'}'),
        _ => false,
    }
}

/// Whether groups and classes are closed, nothing is repeated that is not
/// there, and no escape is cut off.
pub(crate) fn balanced(pattern: &str) -> bool {
    let mut chars = pattern.chars().peekable();
    let mut groups = 0_usize;
    // whether a repetition may follow
    let mut repeatable = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                if chars.next().is_none() {
                    return false;
                }
                repeatable = true;
            }
            '[' => {
                chars.next_if_eq(&'^');
                // a bracket in the first place is a literal
                chars.next_if_eq(&']');
                loop {
                    match chars.next() {
                        None => return false,
                        Some(']') => break,
                        Some('\\') => {
                            if chars.next().is_none() {
                                return false;
                            }
                        }
                        Some('[') if chars.peek() == Some(&':') => {
                            // a named class: `[:alpha:]`
                            while chars.next().is_some_and(|c| c != ']') {}
                        }
                        Some(_) => {}
                    }
                }
                repeatable = true;
            }
            '(' => {
                groups += 1;
                // flags and names begin with a question mark
                chars.next_if_eq(&'?');
                repeatable = false;
            }
            ')' => {
                let Some(open) = groups.checked_sub(1) else {
                    return false;
                };
                groups = open;
                repeatable = true;
            }
            '*' | '+' | '?' => {
                if !repeatable {
                    return false;
                }
                chars.next_if_eq(&'?');
                if matches!(chars.peek(), Some('*' | '+')) {
                    return false;
                }
            }
            '|' | '^' => repeatable = false,
            _ => repeatable = true,
        }
    }
    groups == 0
}
