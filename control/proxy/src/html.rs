//! Links in a page, rewritten while the page flows by.
//!
//! Only what is needed of HTML is understood: start tags with their
//! attributes, comments, and elements whose content is no markup. What is not
//! understood goes through as it came. At most one tag is held back.

use super::location::Links;

/// A tag longer than this goes through as it came.
const LONGEST_TAG: usize = 64 << 10;

/// Elements with attributes that are links.
const LINKS: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements whose content is text, whatever it looks like.
const RAW: &[&str] = &[
    "iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp",
];

/// Rewrites the links of one page.
#[derive(Debug)]
pub struct Rewriter {
    links: Links,
    state: State,
    /// The tag that is not whole yet.
    held: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Between tags.
    Text,
    /// Within a tag; the quote that an attribute's value is in, if any.
    Tag(Option<u8>),
    /// Within a comment, behind so many dashes.
    Comment(u8),
    /// Within an element of [`RAW`].
    Raw(&'static str),
}

// === impl Rewriter ===

impl Rewriter {
    /// For a page with such links.
    #[must_use]
    pub fn new(mut links: Links) -> Self {
        // Nothing that a path may hold shall end an attribute.
        for (raw, escaped) in [("\"", "%22"), ("'", "%27"), ("<", "%3C"), (">", "%3E")] {
            links.prefix = links.prefix.replace(raw, escaped);
        }
        Self {
            links,
            state: State::Text,
            held: Vec::new(),
        }
    }

    /// Takes the next bytes of the page; what can go on goes to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for &byte in bytes {
            self.take(byte, out);
        }
    }

    /// The end of the page: what was held back goes to `out`.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
    }

    fn take(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.state {
            State::Text if byte == b'<' => {
                self.state = State::Tag(None);
                self.held.push(byte);
            }
            State::Text => out.push(byte),
            State::Tag(quote) => self.take_in_tag(byte, quote, out),
            State::Comment(dashes) => {
                out.push(byte);
                self.state = match byte {
                    b'>' if dashes >= 2 => State::Text,
                    b'-' => State::Comment(dashes.saturating_add(1)),
                    _ => State::Comment(0),
                };
            }
            State::Raw(name) => self.take_raw(byte, name, out),
        }
    }

    fn take_in_tag(&mut self, byte: u8, quote: Option<u8>, out: &mut Vec<u8>) {
        if self.held.len() == 1
            && !byte.is_ascii_alphabetic()
            && !matches!(byte, b'/' | b'!' | b'?')
        {
            // A lone `<` is text.
            out.append(&mut self.held);
            self.state = State::Text;
            return self.take(byte, out);
        }
        self.held.push(byte);
        if self.held == b"<!--" {
            out.append(&mut self.held);
            self.state = State::Comment(2);
            return;
        }
        let markup = self.held.get(1).is_some_and(u8::is_ascii_alphabetic);
        match (quote, byte) {
            (None, b'"' | b'\'') if markup && opens_value(&self.held) => {
                self.state = State::Tag(Some(byte));
            }
            (Some(open), _) if open == byte => self.state = State::Tag(None),
            (None, b'>') => {
                let tag = std::mem::take(&mut self.held);
                self.state = State::Text;
                if markup {
                    let name = write_tag(&tag, &self.links, out);
                    if let Some(raw) = RAW.iter().find(|raw| name == **raw) {
                        self.state = State::Raw(raw);
                    }
                } else {
                    out.extend_from_slice(&tag);
                }
            }
            _ if self.held.len() >= LONGEST_TAG => {
                out.append(&mut self.held);
                self.state = State::Text;
            }
            _ => {}
        }
    }

    /// Holds back what may be the end tag of a raw element.
    fn take_raw(&mut self, byte: u8, name: &'static str, out: &mut Vec<u8>) {
        let at = self.held.len();
        let wanted = match at {
            0 => Some(b'<'),
            1 => Some(b'/'),
            _ => name.as_bytes().get(at - 2).copied(),
        };
        match wanted {
            Some(wanted) if wanted == byte.to_ascii_lowercase() => self.held.push(byte),
            // `</name` is there: the rest of the end tag is a tag's.
            None if byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>') => {
                self.state = State::Tag(None);
                self.take(byte, out);
            }
            _ => {
                let again = at > 0;
                out.append(&mut self.held);
                if again {
                    self.take(byte, out);
                } else {
                    out.push(byte);
                }
            }
        }
    }
}

/// Whether the quote at the end of a tag so far begins a value: it follows `=`.
fn opens_value(held: &[u8]) -> bool {
    held[..held.len() - 1]
        .iter()
        .rev()
        .find(|byte| !byte.is_ascii_whitespace())
        == Some(&b'=')
}

/// Writes a start tag with its links rewritten; returns its name in lower case.
fn write_tag(tag: &[u8], links: &Links, out: &mut Vec<u8>) -> String {
    let end = tag
        .iter()
        .position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/'))
        .unwrap_or(tag.len());
    let name = String::from_utf8_lossy(tag.get(1..end).unwrap_or_default()).to_ascii_lowercase();
    let Some((_, wanted)) = LINKS.iter().find(|(known, _)| *known == name) else {
        out.extend_from_slice(tag);
        return name;
    };
    let mut written = 0;
    let mut at = end;
    while let Some(attribute) = Attribute::next(tag, at) {
        at = attribute.end;
        let key = &tag[attribute.key.0..attribute.key.1];
        if !wanted
            .iter()
            .any(|name| key.eq_ignore_ascii_case(name.as_bytes()))
        {
            continue;
        }
        let (from, to) = attribute.value;
        let Ok(value) = std::str::from_utf8(&tag[from..to]) else {
            continue;
        };
        if let Some(link) = links.rewrite(value.trim()) {
            out.extend_from_slice(&tag[written..from]);
            out.extend_from_slice(link.as_bytes());
            written = to;
        }
    }
    out.extend_from_slice(&tag[written..]);
    name
}

/// An attribute with a value, as places in its tag.
struct Attribute {
    key: (usize, usize),
    value: (usize, usize),
    end: usize,
}

impl Attribute {
    /// The first attribute with a value at `at` or behind.
    fn next(tag: &[u8], mut at: usize) -> Option<Self> {
        let skip = |mut at: usize, what: &dyn Fn(u8) -> bool| {
            while tag.get(at).is_some_and(|byte| what(*byte)) {
                at += 1;
            }
            at
        };
        let space = |byte: u8| byte.is_ascii_whitespace();
        loop {
            let key_at = skip(at, &|byte| space(byte) || matches!(byte, b'/'));
            let key_end = skip(key_at, &|byte| {
                !space(byte) && !matches!(byte, b'=' | b'>' | b'/')
            });
            if key_end == key_at {
                // The end, or a stray `=`.
                if matches!(tag.get(key_at), None | Some(b'>')) {
                    return None;
                }
                at = key_at + 1;
                continue;
            }
            let equals = skip(key_end, &space);
            if tag.get(equals) != Some(&b'=') {
                at = key_end;
                continue;
            }
            let value_at = skip(equals + 1, &space);
            let (value, end) = match tag.get(value_at) {
                Some(&quote @ (b'"' | b'\'')) => {
                    let to = skip(value_at + 1, &|byte| byte != quote);
                    ((value_at + 1, to), (to + 1).min(tag.len()))
                }
                _ => {
                    let to = skip(value_at, &|byte| !space(byte) && byte != b'>');
                    ((value_at, to), to)
                }
            };
            return Some(Self {
                key: (key_at, key_end),
                value,
                end,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(page: &str, step: usize) -> String {
        let mut rewriter = Rewriter::new(Links {
            prefix: "/p/proxy".into(),
            target: "10.1.2.3:80".into(),
            host: "server".into(),
        });
        let mut out = Vec::new();
        for chunk in page.as_bytes().chunks(step) {
            rewriter.push(chunk, &mut out);
        }
        rewriter.finish(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn links_are_rewritten_wherever_the_page_is_cut() {
        for (page, expected) in [
            (r#"<a href="/x">y</a>"#, r#"<a href="/p/proxy/x">y</a>"#),
            (r"<A class=b HREF='/x' >", r"<A class=b HREF='/p/proxy/x' >"),
            ("<img src=/x alt>", "<img src=/p/proxy/x alt>"),
            ("<img src=/x/>", "<img src=/p/proxy/x/>"),
            (
                r#"<img data-src="/x" src = "/y" longdesc="/z"/>"#,
                r#"<img data-src="/x" src = "/p/proxy/y" longdesc="/p/proxy/z"/>"#,
            ),
            (
                r#"<link href="http://10.1.2.3:80/s.css">"#,
                r#"<link href="/p/proxy/s.css">"#,
            ),
            (
                r#"<a title="a > b" href="/x">"#,
                r#"<a title="a > b" href="/p/proxy/x">"#,
            ),
            (
                r#"<script src="/s">if (a</b) x='<a href="/x">'</script><a href="/x">"#,
                r#"<script src="/p/proxy/s">if (a</b) x='<a href="/x">'</script><a href="/p/proxy/x">"#,
            ),
            (
                r#"<!-- <a href="/x"> --><a href="/x">"#,
                r#"<!-- <a href="/x"> --><a href="/p/proxy/x">"#,
            ),
        ] {
            for step in [1, 2, 3, 7, 1000] {
                assert_eq!(rewrite(page, step), expected, "in steps of {step}");
            }
        }
    }

    #[test]
    fn what_is_no_link_goes_through_unchanged() {
        for page in [
            "",
            "a < b <3 <",
            "<!doctype html><p href='/x'>",
            r#"<a href="x">"#,
            r#"<a href="//other/x">"#,
            "<a href=",
            r#"<a href="/x"#,
            "<a = / href>",
            "<!-- open <a href='/x'>",
            "<style>a { } </styl",
            "\u{0}<\u{fffd}>",
        ] {
            for step in [1, 3, 1000] {
                assert_eq!(rewrite(page, step), page, "in steps of {step}");
            }
        }
    }

    #[test]
    fn an_endless_tag_is_not_held() {
        let page = format!("<a {}", "x".repeat(3 * LONGEST_TAG));
        assert_eq!(rewrite(&page, 4096), page);
    }

    #[test]
    fn whatever_comes_goes_through_alike_in_pieces_and_nothing_is_lost() {
        use rand::prelude::*;

        const PIECES: [&str; 24] = [
            "<", ">", "a", "/", "=", "\"", "'", " ", "!", "-", "--", "<!--", "-->", "<a", "href",
            "<a href=", "<script", "</script", "<title>", "</title>", "/x", "\u{e9}", "\n",
            "<img src",
        ];
        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..5000 {
            let page: String = (0..random.random_range(0..20))
                .filter_map(|_| PIECES.choose(&mut random).copied())
                .collect();
            let whole = rewrite(&page, usize::MAX);
            for step in [1, 2, 5] {
                assert_eq!(rewrite(&page, step), whole, "{page:?} in steps of {step}");
            }
            assert_eq!(whole.replace("/p/proxy/", "/"), page);
        }
    }
}
