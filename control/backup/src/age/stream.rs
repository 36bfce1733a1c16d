//! The payload of a file of age: chunks that are encrypted one by one. Each chunk's nonce
//! is its number and whether it is the last, so that none can be left out, moved or cut off.

use std::io::{self, BufRead, Read, Write};

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};

const CHUNK: usize = 64 << 10;
const TAG: usize = 16;

/// Encrypts written data. Without [`EncryptWriter::finish`], the file is rejected.
pub struct EncryptWriter<W> {
    out: W,
    key: LessSafeKey,
    number: u64,
    chunk: Vec<u8>,
}

/// Decrypts the underlying reader.
pub struct DecryptReader<R> {
    from: R,
    key: LessSafeKey,
    number: u64,
    chunk: Vec<u8>,
    /// The number of bytes of `chunk` that were returned.
    given: usize,
    is_last: bool,
}

fn nonce(number: u64, is_last: bool) -> Nonce {
    let mut bytes = [0; 12];
    bytes[3..11].copy_from_slice(&number.to_be_bytes());
    bytes[11] = u8::from(is_last);
    Nonce::assume_unique_for_key(bytes)
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

// === impl EncryptWriter ===

impl<W: Write> EncryptWriter<W> {
    pub(super) fn new(out: W, key: LessSafeKey) -> Self {
        Self {
            out,
            key,
            number: 0,
            chunk: Vec::with_capacity(CHUNK + TAG),
        }
    }

    /// Writes the last chunk.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.seal(true)?;
        Ok(self.out)
    }

    fn seal(&mut self, is_last: bool) -> io::Result<()> {
        let nonce = nonce(self.number, is_last);
        self.key
            .seal_in_place_append_tag(nonce, Aad::empty(), &mut self.chunk)
            .map_err(|_| damaged("a chunk cannot be encrypted"))?;
        self.out.write_all(&self.chunk)?;
        self.chunk.clear();
        self.number += 1;
        Ok(())
    }
}

impl<W: Write> Write for EncryptWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full chunk waits for what follows: it may be the last.
        if self.chunk.len() == CHUNK && !bytes.is_empty() {
            self.seal(false)?;
        }
        let taken = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

// === impl DecryptReader ===

impl<R: BufRead> DecryptReader<R> {
    pub(super) fn new(from: R, key: LessSafeKey) -> Self {
        Self {
            from,
            key,
            number: 0,
            chunk: Vec::new(),
            given: 0,
            is_last: false,
        }
    }

    fn next(&mut self) -> io::Result<()> {
        self.chunk.clear();
        self.given = 0;
        (&mut self.from)
            .take((CHUNK + TAG) as u64)
            .read_to_end(&mut self.chunk)?;
        let is_last = self.chunk.len() < CHUNK + TAG || self.from.fill_buf()?.is_empty();
        let opened = self
            .key
            .open_in_place(nonce(self.number, is_last), Aad::empty(), &mut self.chunk)
            .map_err(|_| damaged("the file is damaged or was cut off"))?;
        let length = opened.len();
        if is_last && length == 0 && self.number > 0 {
            return Err(damaged("the file was cut off"));
        }
        self.chunk.truncate(length);
        self.number += 1;
        self.is_last = is_last;
        Ok(())
    }
}

impl<R: BufRead> Read for DecryptReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.chunk.len() {
            if self.is_last {
                return Ok(0);
            }
            self.next()?;
        }
        let left = &self.chunk[self.given..];
        let taken = left.len().min(out.len());
        out[..taken].copy_from_slice(&left[..taken]);
        self.given += taken;
        Ok(taken)
    }
}
