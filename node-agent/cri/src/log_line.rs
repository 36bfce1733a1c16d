//! Lines of the logs that the runtime writes.

/// One line of a CRI log: `TIME STREAM TAG CONTENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// RFC 3339 with nanoseconds.
    pub time: &'a [u8],
    /// `stdout` or `stderr`.
    pub stream: &'static str,
    /// Whether the content goes on in the next line.
    pub partial: bool,
    /// What the container wrote, without the line's end.
    pub content: &'a [u8],
}

impl<'a> LogLine<'a> {
    /// Reads one line, with or without its end.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let (time, rest) = word(bytes)?;
        let (stream, rest) = match rest {
            [b's', b't', b'd', b'o', b'u', b't', b' ', rest @ ..] => ("stdout", rest),
            [b's', b't', b'd', b'e', b'r', b'r', b' ', rest @ ..] => ("stderr", rest),
            _ => return None,
        };
        // a line without words ends with its tags
        let (tags, content) = word(rest).unwrap_or((rest, b""));
        Some(Self {
            time,
            stream,
            partial: matches!(tags, [b'P'] | [b'P', b':', ..]),
            content,
        })
    }
}

/// What stands before the first space, and what behind it.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (word, rest) = bytes.split_at_checked(memchr::memchr(b' ', bytes)?)?;
    Some((word, rest.get(1..)?))
}
