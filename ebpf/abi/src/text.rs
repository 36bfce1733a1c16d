//! Words for people, in maps that programs do not read.

use crate::Plain;

/// Text of at most `N` bytes, padded with zeros.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// Bytes of the longest one.
    pub const LEN: usize = N;
}

// SAFETY: bytes.
unsafe impl<const N: usize> Plain for Text<N> {}

#[cfg(feature = "user")]
mod user {
    use core::fmt::{self, Debug, Display, Formatter};

    use super::Text;

    impl<const N: usize> Text<N> {
        /// Converts text; truncates it at [`LEN`](Self::LEN).
        #[must_use]
        pub fn new(text: &str) -> Self {
            let mut bytes = [0; N];
            for (to, from) in bytes.iter_mut().zip(text.bytes()) {
                *to = from;
            }
            Self(bytes)
        }

        /// The text; bytes that are no UTF-8 end it.
        #[must_use]
        pub fn as_str(&self) -> &str {
            let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
            match core::str::from_utf8(text) {
                Ok(text) => text,
                Err(error) => {
                    let valid = text.get(..error.valid_up_to()).unwrap_or_default();
                    core::str::from_utf8(valid).unwrap_or_default()
                }
            }
        }
    }

    impl<const N: usize> Display for Text<N> {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            f.write_str(self.as_str())
        }
    }

    impl<const N: usize> Debug for Text<N> {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            Debug::fmt(self.as_str(), f)
        }
    }
}

#[cfg(all(test, feature = "user"))]
mod tests;
