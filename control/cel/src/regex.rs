//! The shape of regular expressions (RE2): only what can be refused without
//! compiling them.

/// Whether groups and classes are closed, nothing is repeated that is not
/// there, and no escape is cut off.
pub(crate) fn balanced(pattern: &str) -> bool {
    let mut chars = pattern.chars().peekable();
    let mut groups = 0_usize;
    // whether something stands before that a sign of repetition may follow
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
                // a bracket that comes first stands for itself
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
