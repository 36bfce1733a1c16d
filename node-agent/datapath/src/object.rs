//! The BPF object in this program.

use std::fmt;
use std::io::{self, Read as _};

use flate2::read::ZlibDecoder;

/// The object's size, roughly.
const SIZE: usize = 1 << 20;

/// A BPF object, packed (zlib, RFC 1950). It is needed for moments, whenever programs are loaded.
#[derive(Clone, Copy)]
pub struct Object(&'static [u8]);

impl Object {
    /// An object of these packed bytes.
    #[must_use]
    pub const fn of_packed(bytes: &'static [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the object, an ELF file. It begins where an allocation begins, so that readers of
    /// its headers find them aligned.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub fn unpack(self) -> io::Result<Vec<u8>> {
        let mut object = Vec::with_capacity(SIZE);
        ZlibDecoder::new(self.0).read_to_end(&mut object)?;
        Ok(object)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({} bytes, packed)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_embedded_is_an_elf_file_as_it_was_compiled() {
        let Some(object) = crate::OBJECT else {
            eprintln!("skipped: the BPF object is not built; `cargo xtask build` makes it");
            return;
        };
        let elf = object.unpack().expect("unpacked");
        assert_eq!(elf.get(..4), Some(&b"\x7fELF"[..]));
        assert!(elf.as_ptr().cast::<u64>().is_aligned());
    }

    #[test]
    fn damaged_bytes_are_no_object() {
        assert!(Object::of_packed(b"damaged").unpack().is_err());
    }
}
