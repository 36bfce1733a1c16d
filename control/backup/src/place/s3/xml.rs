//! Reads S3's XML responses. S3-compatible servers differ in namespaces and in which
//! elements they leave out, so only the needed elements are searched.

/// The code and message of an answer in XML, or its begin.
pub(super) fn summary(text: &str) -> String {
    match (element(text, "Code"), element(text, "Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        _ => text.chars().take(200).collect(),
    }
}

/// The content of the first element of that name. S3's answers are flat enough for this: no
/// element lies in one of the same name.
pub(super) fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    elements(text, name).next()
}

/// The contents of all elements of that name.
pub(super) fn elements<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once(&open)?;
            rest = after;
            // Not a longer name; attributes may follow.
            if !after.starts_with(['>', ' ']) {
                continue;
            }
            let (_, content) = after.split_once('>')?;
            let (content, after) = content.split_once(&close)?;
            rest = after;
            return Some(content);
        }
    })
}

pub(super) fn unescape(text: &str) -> String {
    [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (escaped, plain)| {
        text.replace(escaped, plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_server_is_told_in_its_words() {
        let text = "<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>none</Message></Error>";
        assert_eq!(summary(text), "NoSuchBucket: none");
        assert_eq!(summary("<html>"), "<html>");
        let list = "<R xmlns=\"x\"><Contents><Key>a&amp;b</Key><Size>7</Size></Contents>\
                    <Contents><Key>c</Key></Contents><KeyCount>2</KeyCount></R>";
        let keys: Vec<_> = elements(list, "Contents")
            .map(|object| unescape(element(object, "Key").unwrap_or_default()))
            .collect();
        assert_eq!(keys, ["a&b", "c"]);
        assert_eq!(element(list, "Size"), Some("7"));
        assert!(element(list, "R").is_some());
    }
}
