//! `$(NAME)` in commands, arguments and values of variables.
//!
//! Values may hold references to values before them, so few lines can mean
//! more than any memory holds. Nothing is made that no program could be started
//! with (execve(2)).

/// A name and value; containers get variables in this order.
pub type Variable = (String, String);

/// The longest argument or variable: Linux's `MAX_ARG_STRLEN`.
const LONGEST: usize = 128 << 10;

/// The most bytes of arguments and of variables: three quarters of Linux's
/// `_STK_LIM`.
const MOST: usize = 6 << 20;

/// The expanded arguments exceed what the kernel accepts for `execve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsTooLong {
    /// One of them is.
    #[error("a value of more than {LONGEST} bytes: no program can be started with that")]
    One,
    /// All of them are.
    #[error("values of more than {MOST} bytes in all: no program can be started with that")]
    All,
}

/// Why a text in which every reference must be known cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrictExpansionError {
    /// The first variable that does not exist.
    #[error("no environment variable `{0}`")]
    UnknownVariable(String),
    /// The value is too long.
    #[error(transparent)]
    TooLong(#[from] ArgumentsTooLong),
}

/// The remaining bytes that arguments and environment may take.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentBudget(usize);

impl Default for ArgumentBudget {
    fn default() -> Self {
        Self(MOST)
    }
}

impl ArgumentBudget {
    /// Takes so many bytes.
    ///
    /// # Errors
    /// When they are more than there is.
    pub fn take(&mut self, bytes: usize) -> Result<(), ArgumentsTooLong> {
        if bytes > LONGEST {
            return Err(ArgumentsTooLong::One);
        }
        self.0 = self.0.checked_sub(bytes).ok_or(ArgumentsTooLong::All)?;
        Ok(())
    }
}

/// Puts values in place of references. `$(NAME)` becomes `lookup(NAME)`, or
/// stays as it is when there is no such variable; `$$` becomes `$`.
///
/// # Errors
/// When more would come of it than a program can be started with.
pub fn expand<'a>(
    text: &str,
    lookup: impl Fn(&str) -> Option<&'a str>,
) -> Result<String, ArgumentsTooLong> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        if out.len() > LONGEST {
            return Err(ArgumentsTooLong::One);
        }
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
    if out.len() > LONGEST {
        return Err(ArgumentsTooLong::One);
    }
    Ok(out)
}

/// As [`expand`], but every reference must be known.
///
/// # Errors
/// Names the first variable that does not exist, or says that the value is too long.
pub fn expand_strictly<'a>(
    text: &str,
    lookup: impl Fn(&str) -> Option<&'a str>,
) -> Result<String, StrictExpansionError> {
    let missing = std::cell::RefCell::new(None);
    let out = expand(text, |name| {
        let found = lookup(name);
        if found.is_none() && missing.borrow().is_none() {
            *missing.borrow_mut() = Some(name.to_owned());
        }
        found
    });
    match missing.into_inner() {
        Some(name) => Err(StrictExpansionError::UnknownVariable(name)),
        None => Ok(out?),
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
            assert_eq!(expand(text, lookup).unwrap(), wanted, "{text}");
        }
        let missing = expand_strictly("$(A)/$(B)", lookup).unwrap_err();
        assert_eq!(missing.to_string(), "no environment variable `B`");
    }

    #[test]
    fn nothing_is_made_that_no_program_could_be_started_with() {
        let value = "x".repeat(LONGEST / 2);
        let lookup = |_: &str| Some(value.as_str());
        assert_eq!(expand("$(A)$(A)", lookup).unwrap().len(), LONGEST);
        // a hundred thousand references of 64 KiB each: 6 GB
        let many = "$(A)".repeat(100_000);
        assert_eq!(expand(&many, lookup), Err(ArgumentsTooLong::One));
        assert!(
            expand_strictly(&many, lookup)
                .unwrap_err()
                .to_string()
                .contains("started")
        );
        assert_eq!(
            expand(&"x".repeat(LONGEST + 1), |_| None),
            Err(ArgumentsTooLong::One)
        );
        let mut room = ArgumentBudget::default();
        for _ in 0..MOST / LONGEST {
            room.take(LONGEST).unwrap();
        }
        assert_eq!(room.take(1), Err(ArgumentsTooLong::All));
        assert_eq!(
            ArgumentBudget::default().take(LONGEST + 1),
            Err(ArgumentsTooLong::One)
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,60}") {
            let _ = expand(&text, |_| Some("v"));
        }
    }
}
