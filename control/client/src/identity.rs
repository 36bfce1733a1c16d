//! The identity of an object.

use std::fmt::{self, Display, Formatter};

use compact_str::CompactString;

use crate::meta::Meta;

/// The part of an object that a cache needs, in a third of [`Meta`]'s size: for views
/// that read labels and annotations once, and of which there are tens of thousands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: CompactString,
    /// Its name.
    pub name: CompactString,
    /// The uid, which distinguishes objects that had the same name.
    pub uid: Uid,
    /// The revision this was read at.
    pub resource_version: CompactString,
}

/// An object's uid. Servers generate UUIDs, which are kept as numbers; any other text is
/// kept as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uid(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Number([u8; 16]),
    Text(Box<str>),
}

impl From<Meta> for Identity {
    fn from(meta: Meta) -> Self {
        Self {
            namespace: meta.namespace,
            name: meta.name,
            uid: Uid::parse(&meta.uid),
            resource_version: meta.resource_version,
        }
    }
}

// === impl Uid ===

impl Uid {
    /// Parses the text form.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(match number(text) {
            Some(number) => Form::Number(number),
            None => Form::Text(text.into()),
        })
    }
}

impl Default for Form {
    fn default() -> Self {
        Self::Text("".into())
    }
}

impl Display for Uid {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Text(text) => f.write_str(text),
            Form::Number(number) => {
                for (place, byte) in number.iter().enumerate() {
                    if matches!(place, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

/// The number of a UUID as servers write them: in lower case, with four hyphens.
/// Any other text is none, so that each is printed as it was read.
fn number(text: &str) -> Option<[u8; 16]> {
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    if text.len() != 36 {
        return None;
    }
    let mut number = [0; 16];
    let mut digits = 0;
    for (place, byte) in text.bytes().enumerate() {
        if HYPHENS.contains(&place) {
            if byte != b'-' {
                return None;
            }
            continue;
        }
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        let octet = number.get_mut(digits / 2)?;
        *octet = *octet << 4 | digit;
        digits += 1;
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_uid_is_printed_as_it_was_written_and_equals_itself_alone() {
        let texts = [
            "",
            "u",
            "0f3b7c1e-55aa-4c1d-9e21-00112233aaff",
            // These would be the same number, but are other texts.
            "0F3B7C1E-55AA-4C1D-9E21-00112233AAFF",
            "0f3b7c1e055aa04c1d09e21000112233aaff",
            "0f3b7c1e-55aa-4c1d-9e21-00112233aaf-",
            "0f3b7c1e-55aa-4c1d-9e21-00112233aafé",
            "0f3b7c1e-55aa-4c1d-9e21-00112233aafe",
        ];
        for (place, text) in texts.iter().enumerate() {
            assert_eq!(Uid::parse(text).to_string(), *text);
            for (other, of_other) in texts.iter().enumerate() {
                let same = Uid::parse(text) == Uid::parse(of_other);
                assert_eq!(same, place == other, "{text} and {of_other}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn every_text_comes_back(text in "[0-9a-fA-F-]{34,38}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\\PC{0,40}") {
            prop_assert_eq!(Uid::parse(&text).to_string(), text);
        }
    }

    #[test]
    fn it_is_less_than_half_of_all_metadata() {
        assert!(size_of::<Identity>() * 2 < size_of::<Meta>());
        assert_eq!(size_of::<Uid>(), 24);
    }
}
