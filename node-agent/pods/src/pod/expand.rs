//! `$(NAME)` in commands, arguments and values of variables.

/// Puts values in place of references. `$(NAME)` becomes `lookup(NAME)`, or
/// stays as it is when there is no such variable; `$$` becomes `$`.
pub fn expand<'a>(text: &str, lookup: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let after = from.get(1..).unwrap_or_default();
        if let Some(tail) = after.strip_prefix('$') {
            out.push('$');
            rest = tail;
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|t| t.split_once(')')) {
            match lookup(name) {
                Some(value) => out.push_str(value),
                None => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// As [`expand`], but every reference must be known: gives the first that is not.
///
/// # Errors
/// The name of the first variable that does not exist.
pub fn expand_strictly<'a>(
    text: &str,
    lookup: impl Fn(&str) -> Option<&'a str>,
) -> Result<String, String> {
    let missing = std::cell::RefCell::new(None);
    let out = expand(text, |name| {
        let found = lookup(name);
        if found.is_none() && missing.borrow().is_none() {
            *missing.borrow_mut() = Some(name.to_owned());
        }
        found
    });
    match missing.into_inner() {
        Some(name) => Err(name),
        None => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_become_values_and_escapes_stay() {
        let lookup = |name: &str| match name {
            "A" => Some("1"),
            "EMPTY" => Some(""),
            _ => None,
        };
        let cases = [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(EMPTY)", ""),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("100$", "100$"),
            ("$$", "$"),
            ("ü$(A)ö", "ü1ö"),
        ];
        for (text, wanted) in cases {
            assert_eq!(expand(text, lookup), wanted, "{text}");
        }
        assert_eq!(expand_strictly("$(A)/$(B)", lookup), Err("B".to_owned()));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}") {
            let _ = expand(&text, |_| Some("v"));
        }
    }
}
