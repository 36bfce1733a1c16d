//! Tokens that an administrator wrote into a file (`--token-auth-file`).

use rustc_hash::FxHashMap;

use crate::user::AUTHENTICATED;
use crate::user::User;

/// The users of a file by their tokens.
#[derive(Clone, Default)]
pub struct TokenFile(FxHashMap<String, User>);

/// Error for an unusable file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFileError {
    /// A line has too little in it.
    #[error(
        "the token file must have at least 3 columns (token, user name, user uid), found {found} in line {line}"
    )]
    Columns {
        /// How many there are.
        found: usize,
        /// The line.
        line: usize,
    },
    /// A quotation mark is missing or too many.
    #[error(
        "the token file has a quotation mark where none belongs, or one without its other, in line {0}"
    )]
    Quote(usize),
}

impl std::fmt::Debug for TokenFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("TokenFile")
            .field("tokens", &self.0.len())
            .finish()
    }
}

impl TokenFile {
    /// Reads lines of comma-separated values: token, user, uid, and optionally
    /// groups, themselves separated by commas (`"a,b"`).
    ///
    /// # Errors
    /// [`TokenFileError`].
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut all = FxHashMap::default();
        for (at, line) in text.lines().enumerate() {
            if line.is_empty() {
                continue;
            }
            let fields = fields(line).ok_or(TokenFileError::Quote(at + 1))?;
            let [token, name, uid, rest @ ..] = &fields[..] else {
                return Err(TokenFileError::Columns {
                    found: fields.len(),
                    line: at + 1,
                });
            };
            if token.is_empty() {
                continue;
            }
            let mut user = User {
                name: name.clone(),
                uid: uid.clone(),
                ..User::default()
            };
            let groups = rest.first().map(|groups| groups.split(','));
            user.groups = groups.into_iter().flatten().map(str::to_owned).collect();
            user.join(AUTHENTICATED);
            all.insert(token.clone(), user);
        }
        Ok(Self(all))
    }

    /// Returns the user of this token.
    #[must_use]
    pub fn user(&self, token: &str) -> Option<&User> {
        self.0.get(token)
    }
}

/// The fields of a line (RFC 4180, without fields over several lines).
fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut field = String::new();
            let mut inside = quoted;
            rest = loop {
                let (text, after) = inside.split_once('"')?;
                field.push_str(text);
                match after.strip_prefix('"') {
                    Some(more) => {
                        field.push('"');
                        inside = more;
                    }
                    None => break after,
                }
            };
            fields.push(field);
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            if rest[..end].contains('"') {
                return None;
            }
            fields.push(rest[..end].to_owned());
            rest = &rest[end..];
        }
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None if rest.is_empty() => return Some(fields),
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_user() {
        let file =
            TokenFile::parse("t1,ann,1,\"dev,ops\"\n\nt2,\"b\"\"ob\",2\n,x,3\n").expect("right");
        let ann = file.user("t1").expect("ann");
        assert_eq!((&*ann.name, &*ann.uid), ("ann", "1"));
        assert_eq!(ann.groups, ["dev", "ops", AUTHENTICATED]);
        assert_eq!(file.user("t2").map(|user| &*user.name), Some("b\"ob"));
        assert!(file.user("").is_none() && file.user("t3").is_none());
    }

    #[test]
    fn a_wrong_line_is_named() {
        for wrong in ["a,b", "a,\"b,c", "a,b\"c,d", "a,\"b\"c,d"] {
            assert!(TokenFile::parse(wrong).is_err(), "{wrong}");
        }
    }
}
