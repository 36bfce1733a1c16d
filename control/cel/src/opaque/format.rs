//! Named formats of text.

use control_types::names;

use super::url::Url;
use crate::run::{encoding, moment};

/// A format by name.
#[derive(Debug)]
pub struct NamedFormat {
    /// As expressions call it.
    pub name: &'static str,
    pub(crate) check: fn(&str) -> Vec<String>,
    /// How large the pattern behind it counts for costs.
    pub(crate) regex_size: u64,
}

fn one(right: bool, message: &str) -> Vec<String> {
    if right {
        Vec::new()
    } else {
        vec![message.to_owned()]
    }
}

fn uuid(text: &str) -> Vec<String> {
    // hyphens may be left out
    let right = matches!(text.len(), 32..=36) && {
        let mut bytes = text.bytes();
        [8, 4, 4, 4, 12].iter().enumerate().all(|(i, length)| {
            let mut rest = bytes.clone();
            if i > 0 && rest.next() == Some(b'-') {
                bytes = rest;
            }
            (0..*length).all(|_| bytes.next().is_some_and(|c| c.is_ascii_hexdigit()))
        }) && bytes.next().is_none()
    };
    one(right, "does not match the UUID format")
}

fn base64(text: &str) -> Vec<String> {
    let right = !text.is_empty() && encoding::base64(text).is_some();
    one(right, "invalid base64")
}

fn date(text: &str) -> Vec<String> {
    one(moment::parse_date(text).is_some(), "invalid date")
}

fn date_time(text: &str) -> Vec<String> {
    one(moment::parse(text).is_some(), "invalid datetime")
}

fn uri(text: &str) -> Vec<String> {
    match Url::read(text) {
        Ok(_) => Vec::new(),
        Err(error) => vec![error.to_string()],
    }
}

pub(crate) static FORMATS: [NamedFormat; 13] = [
    NamedFormat {
        name: "dns1123Label",
        check: names::dns1123_label,
        regex_size: 30,
    },
    NamedFormat {
        name: "dns1123Subdomain",
        check: names::dns1123_subdomain,
        regex_size: 60,
    },
    NamedFormat {
        name: "dns1035Label",
        check: names::dns1035_label,
        regex_size: 30,
    },
    NamedFormat {
        name: "qualifiedName",
        check: names::qualified_name,
        regex_size: 60,
    },
    NamedFormat {
        name: "dns1123LabelPrefix",
        check: |text| names::dns1123_label(&names::mask_trailing_dash(text)),
        regex_size: 30,
    },
    NamedFormat {
        name: "dns1123SubdomainPrefix",
        check: |text| names::dns1123_subdomain(&names::mask_trailing_dash(text)),
        regex_size: 60,
    },
    NamedFormat {
        name: "dns1035LabelPrefix",
        check: |text| names::dns1035_label(&names::mask_trailing_dash(text)),
        regex_size: 30,
    },
    NamedFormat {
        name: "labelValue",
        check: names::label_value,
        regex_size: 40,
    },
    NamedFormat {
        name: "uri",
        check: uri,
        regex_size: 1103,
    },
    NamedFormat {
        name: "uuid",
        check: uuid,
        regex_size: 72,
    },
    NamedFormat {
        name: "byte",
        check: base64,
        regex_size: 84,
    },
    NamedFormat {
        name: "date",
        check: date,
        regex_size: 72,
    },
    NamedFormat {
        name: "datetime",
        check: date_time,
        regex_size: 72,
    },
];

pub(crate) fn format(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_told_from_other_text() {
        assert!(uuid("123e4567-e89b-12d3-a456-426614174000").is_empty());
        assert!(uuid("123e4567e89b12d3a456426614174000").is_empty());
        assert!(!uuid("123e4567-e89b-12d3-a456-42661417400g").is_empty());
        assert!(!uuid("").is_empty());
    }
}
