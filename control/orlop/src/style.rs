//! Colours, if a terminal shows them and they are not disabled.

use std::{ffi::OsString, io::IsTerminal};

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    coloured: bool,
}

impl Style {
    /// The style of standard output.
    pub fn of_stdout() -> Self {
        let variable = |name| std::env::var_os(name);
        Self {
            coloured: is_coloured(
                std::io::stdout().is_terminal(),
                variable("NO_COLOR"),
                variable("TERM"),
            ),
        }
    }

    /// Without colours.
    #[cfg(test)]
    pub const fn plain() -> Self {
        Self { coloured: false }
    }

    /// With colours.
    #[cfg(test)]
    pub const fn coloured() -> Self {
        Self { coloured: true }
    }

    /// Text that stands out.
    pub fn bold(self, text: &str) -> String {
        self.paint(1, text)
    }

    /// Text that matters less.
    pub fn dim(self, text: &str) -> String {
        self.paint(2, text)
    }

    /// Text about a failure.
    pub fn red(self, text: &str) -> String {
        self.paint(31, text)
    }

    /// Text about what works as it should.
    pub fn green(self, text: &str) -> String {
        self.paint(32, text)
    }

    /// Text about a drawback.
    pub fn yellow(self, text: &str) -> String {
        self.paint(33, text)
    }

    /// Text between the codes of ECMA-48 (SGR).
    fn paint(self, code: u8, text: &str) -> String {
        if self.coloured {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Decides on colours. A NO_COLOR that is empty counts as unset (no-color.org).
fn is_coloured(terminal: bool, no_color: Option<OsString>, term: Option<OsString>) -> bool {
    let declined = no_color.is_some_and(|it| !it.is_empty());
    terminal && !declined && term.is_none_or(|it| it != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_has_colours_and_no_color_declines_them() {
        let word = |text: &str| Some(OsString::from(text));
        assert!(is_coloured(true, None, word("xterm")));
        assert!(is_coloured(true, word(""), None));
        assert!(!is_coloured(false, None, word("xterm")));
        assert!(!is_coloured(true, word("1"), word("xterm")));
        assert!(!is_coloured(true, None, word("dumb")));
        assert_eq!(Style::plain().red("x"), "x");
        assert_eq!(Style::coloured().red("x"), "\x1b[31mx\x1b[0m");
    }
}
