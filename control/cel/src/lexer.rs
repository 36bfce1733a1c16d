//! Splits text into tokens.

use crate::issue::Issue;

/// A token and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub offset: usize,
    /// As it is written.
    pub text: String,
    pub kind: TokenKind,
}

/// The kind of token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A sign or a word of the language, such as `&&`, `in`, `true`.
    Sign,
    Ident,
    /// A name in backquotes.
    Quoted,
    Int,
    Uint,
    Float,
    /// The text with its escapes resolved.
    String(String),
    /// The bytes with their escapes resolved.
    Bytes(Vec<u8>),
    End,
}

const WORDS: &[&str] = &["in", "true", "false", "null"];
const SIGNS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%",
];

/// Reads all tokens; the last one is the end. Invalid tokens are reported and left out.
pub(crate) fn tokens(source: &str) -> (Vec<Token>, Vec<Issue>) {
    let mut lexer = Lexer {
        chars: source.chars().collect(),
        at: 0,
        issues: Vec::new(),
    };
    let mut all = Vec::new();
    while let Some(token) = lexer.next() {
        all.push(token);
    }
    all.push(Token {
        offset: lexer.chars.len(),
        text: "<EOF>".to_owned(),
        kind: TokenKind::End,
    });
    (all, lexer.issues)
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    issues: Vec<Issue>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn text(&self, from: usize, to: usize) -> String {
        self.chars.iter().skip(from).take(to - from).collect()
    }

    fn next(&mut self) -> Option<Token> {
        loop {
            self.skip_blank();
            let start = self.at;
            let first = self.peek(0)?;
            let kind = if first.is_ascii_digit()
                || (first == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit()))
            {
                Ok(self.number())
            } else if let Some((raw, bytes, quote)) = self.string_prefix() {
                self.string(raw, bytes, quote)
            } else if first.is_ascii_alphabetic() || first == '_' {
                while self
                    .peek(0)
                    .is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
                {
                    self.at += 1;
                }
                let text = self.text(start, self.at);
                Ok(if WORDS.contains(&text.as_str()) {
                    TokenKind::Sign
                } else {
                    TokenKind::Ident
                })
            } else if first == '`' {
                self.quoted()
            } else {
                self.sign()
            };
            match kind {
                Ok(kind) => {
                    return Some(Token {
                        offset: start,
                        text: self.text(start, self.at),
                        kind,
                    });
                }
                // what could not be read ends with the character that did not fit
                Err(end) => {
                    let end = end.min(self.chars.len()).max(start + 1);
                    let shown = self
                        .text(start, end)
                        .replace('\n', "\\n")
                        .replace('\t', "\\t")
                        .replace('\r', "\\r");
                    self.issues.push(Issue {
                        offset: Some(start),
                        message: format!("Syntax error: token recognition error at: '{shown}'"),
                    });
                    self.at = end;
                }
            }
        }
    }

    fn skip_blank(&mut self) {
        while let Some(c) = self.peek(0) {
            if matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}') {
                self.at += 1;
            } else if c == '/' && self.peek(1) == Some('/') {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
            } else {
                return;
            }
        }
    }

    fn sign(&mut self) -> Result<TokenKind, usize> {
        for sign in SIGNS {
            if sign
                .chars()
                .enumerate()
                .all(|(i, c)| self.peek(i) == Some(c))
            {
                self.at += sign.len();
                return Ok(TokenKind::Sign);
            }
        }
        // a single `&`, `|` or `=` is half of a sign
        let half = matches!(self.peek(0), Some('&' | '|' | '='));
        Err(self.at + if half { 2 } else { 1 })
    }

    fn digits(&mut self, is_digit: impl Fn(char) -> bool) -> bool {
        let start = self.at;
        while self.peek(0).is_some_and(&is_digit) {
            self.at += 1;
        }
        self.at > start
    }

    fn number(&mut self) -> TokenKind {
        let decimal = |c: char| c.is_ascii_digit();
        if self.peek(0) == Some('0')
            && matches!(self.peek(1), Some('x' | 'X'))
            && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit())
        {
            self.at += 2;
            self.digits(|c| c.is_ascii_hexdigit());
        } else {
            self.digits(decimal);
            let mut float = false;
            if self.peek(0) == Some('.') && self.peek(1).is_some_and(decimal) {
                self.at += 1;
                self.digits(decimal);
                float = true;
            }
            if matches!(self.peek(0), Some('e' | 'E')) {
                let signed = usize::from(matches!(self.peek(1), Some('+' | '-')));
                if self.peek(1 + signed).is_some_and(decimal) {
                    self.at += 1 + signed;
                    self.digits(decimal);
                    float = true;
                }
            }
            if float {
                return TokenKind::Float;
            }
        }
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return TokenKind::Uint;
        }
        TokenKind::Int
    }

    /// Whether a string begins here: raw, bytes, and how far its quote is.
    fn string_prefix(&self) -> Option<(bool, bool, usize)> {
        let (mut raw, mut bytes) = (false, false);
        for ahead in 0..3 {
            match self.peek(ahead)? {
                '\'' | '"' => return Some((raw, bytes, ahead)),
                'r' | 'R' if !raw => raw = true,
                'b' | 'B' if !bytes => bytes = true,
                _ => return None,
            }
        }
        None
    }

    fn string(&mut self, raw: bool, bytes: bool, prefix: usize) -> Result<TokenKind, usize> {
        self.at += prefix;
        let start = self.at - prefix;
        let quote = self.peek(0).unwrap_or('"');
        let long = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let width = if long { 3 } else { 1 };
        let mut at = self.at + width;
        let mut out = Vec::new();
        loop {
            let Some(c) = self.chars.get(at).copied() else {
                // an unfinished long string may still be an empty short one
                if long {
                    self.at = start + prefix + 2;
                    return Ok(Self::finished(bytes, Vec::new()));
                }
                self.at = start;
                return Err(at);
            };
            let closed = c == quote
                && (!long
                    || (self.chars.get(at + 1) == Some(&quote)
                        && self.chars.get(at + 2) == Some(&quote)));
            if closed {
                self.at = at + width;
                return Ok(Self::finished(bytes, out));
            }
            if !long && matches!(c, '\n' | '\r') {
                self.at = start;
                return Err(at + 1);
            }
            if c == '\\' && !raw {
                match self.escape(at + 1, bytes, &mut out) {
                    Ok(next) => at = next,
                    Err(end) => {
                        self.at = start;
                        return Err(end);
                    }
                }
            } else {
                push(&mut out, c);
                at += 1;
            }
        }
    }

    fn finished(bytes: bool, text: Vec<u8>) -> TokenKind {
        if bytes {
            TokenKind::Bytes(text)
        } else {
            // only whole characters were put together
            TokenKind::String(String::from_utf8_lossy(&text).into_owned())
        }
    }

    /// Reads an escape behind its backslash; answers where it ends.
    fn escape(&self, at: usize, bytes: bool, out: &mut Vec<u8>) -> Result<usize, usize> {
        let c = self.chars.get(at).copied().ok_or(at)?;
        let simple = match c {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '"' | '\'' | '\\' | '?' | '`' => c,
            'x' | 'X' | 'u' | 'U' | '0'..='3' => {
                let (digits, radix, skip) = match c {
                    'x' | 'X' => (2, 16, 1),
                    'u' => (4, 16, 1),
                    'U' => (8, 16, 1),
                    _ => (3, 8, 0),
                };
                let mut code = 0_u32;
                for i in 0..digits {
                    let at = at + skip + i;
                    let digit = self
                        .chars
                        .get(at)
                        .and_then(|c| c.to_digit(radix))
                        .ok_or(at + 1)?;
                    code = code.wrapping_mul(radix).wrapping_add(digit);
                }
                if bytes && !matches!(c, 'u' | 'U') {
                    // two hexadecimal or three octal digits: one byte
                    out.push((code & 0xFF) as u8);
                } else {
                    push(
                        out,
                        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
                    );
                }
                return Ok(at + skip + digits);
            }
            _ => return Err(at + 1),
        };
        push(out, simple);
        Ok(at + 1)
    }

    fn quoted(&mut self) -> Result<TokenKind, usize> {
        let mut at = self.at + 1;
        while let Some(c) = self.chars.get(at).copied() {
            match c {
                '`' if at > self.at + 1 => {
                    self.at = at + 1;
                    return Ok(TokenKind::Quoted);
                }
                c if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ') => {
                    at += 1;
                }
                _ => return Err(at + 1),
            }
        }
        Err(at)
    }
}
