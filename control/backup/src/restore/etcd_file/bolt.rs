//! Writes a bbolt database from keys that come in order: leaf pages first, then the branch
//! pages above them, the buckets, and last the two meta pages.
//!
//! ```text
//! page     id u64 · flags u16 · count u16 · overflow u32, then `count` elements, then data
//! leaf     flags u32 · position u32 · key size u32 · value size u32
//! branch   position u32 · key size u32 · page u64
//! meta     magic u32 · version u32 · page size u32 · flags u32 · root page u64 · sequence u64
//!          · freelist u64 · pages u64 · transaction u64 · FNV-1a of all that u64
//! ```
//!
//! Numbers are in the order of the machine's bytes, which is little endian here; positions
//! count from the element that has them.

use std::io::{self, Seek, SeekFrom, Write};

const PAGE: usize = 4096;
const HEADER: usize = 16;
const ELEMENT: usize = 16;
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const META: u16 = 0x04;
const FREELIST: u16 = 0x10;
/// The flag of a leaf's element that is a bucket.
const IS_BUCKET: u32 = 0x01;
const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;

/// A database that is written.
pub(super) struct Bolt<W> {
    out: W,
    /// The number of the next page.
    next: u64,
    buckets: Vec<(String, u64)>,
}

/// A bucket that is filled in the order of its keys.
#[derive(Default)]
pub(super) struct BoltBucket {
    leaf: Page,
    /// The first keys of the leaves that are written, and their pages.
    leaves: Vec<(Vec<u8>, u64)>,
}

/// The elements of a page that is not written yet.
#[derive(Default)]
struct Page {
    /// Flags, or the page below; key; value.
    elements: Vec<(u64, Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

// === impl Page ===

impl Page {
    fn has_room(&self, key: &[u8], value: &[u8]) -> bool {
        self.elements.is_empty() || HEADER + self.bytes + ELEMENT + key.len() + value.len() <= PAGE
    }

    fn push(&mut self, number: u64, key: &[u8], value: &[u8]) {
        self.bytes += ELEMENT + key.len() + value.len();
        self.elements.push((number, key.to_vec(), value.to_vec()));
    }

    /// The bytes of the page, a multiple of the page size.
    fn encode(&self, id: u64, kind: u16) -> Vec<u8> {
        let pages = (HEADER + self.bytes).div_ceil(PAGE);
        let mut out = Vec::with_capacity(pages * PAGE);
        let count = u16::try_from(self.elements.len()).unwrap_or(u16::MAX);
        header(&mut out, id, kind, count, pages - 1);
        let mut position = HEADER + ELEMENT * self.elements.len();
        for (number, key, value) in &self.elements {
            let from_here = small(position - out.len());
            if kind == BRANCH {
                out.extend(from_here);
                out.extend(small(key.len()));
                out.extend(number.to_le_bytes());
            } else {
                out.extend(small(usize::try_from(*number).unwrap_or_default()));
                out.extend(from_here);
                out.extend(small(key.len()));
                out.extend(small(value.len()));
            }
            position += key.len() + value.len();
        }
        for (_, key, value) in &self.elements {
            out.extend(key);
            out.extend(value);
        }
        out.resize(pages * PAGE, 0);
        out
    }
}

fn header(out: &mut Vec<u8>, id: u64, kind: u16, count: u16, overflow: usize) {
    out.extend(id.to_le_bytes());
    out.extend(kind.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(small(overflow));
}

/// Encodes a number of 32 bits: larger ones do not occur.
fn small(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}

// === impl Bucket ===

impl BoltBucket {
    /// Adds a key, which is greater than those before.
    pub fn put<W: Write + Seek>(
        &mut self,
        bolt: &mut Bolt<W>,
        key: &[u8],
        value: &[u8],
    ) -> io::Result<()> {
        if !self.leaf.has_room(key, value) {
            self.flush(bolt)?;
        }
        self.leaf.push(0, key, value);
        Ok(())
    }

    fn flush<W: Write + Seek>(&mut self, bolt: &mut Bolt<W>) -> io::Result<()> {
        let leaf = std::mem::take(&mut self.leaf);
        let first = leaf.elements.first().map(|(_, key, _)| key.clone());
        let id = bolt.write(&leaf, LEAF)?;
        self.leaves.push((first.unwrap_or_default(), id));
        Ok(())
    }

    /// Writes the rest; returns the page of the root.
    pub fn finish<W: Write + Seek>(mut self, bolt: &mut Bolt<W>) -> io::Result<u64> {
        self.flush(bolt)?;
        let mut below = self.leaves;
        while below.len() > 1 {
            let mut above = Vec::new();
            let mut page = Page::default();
            for (key, id) in below {
                if !page.has_room(&key, &[]) {
                    flush_branch(&mut page, &mut above, bolt)?;
                }
                page.push(id, &key, &[]);
            }
            flush_branch(&mut page, &mut above, bolt)?;
            below = above;
        }
        Ok(below.first().map_or(0, |(_, id)| *id))
    }
}

fn flush_branch<W: Write + Seek>(
    page: &mut Page,
    above: &mut Vec<(Vec<u8>, u64)>,
    bolt: &mut Bolt<W>,
) -> io::Result<()> {
    let full = std::mem::take(page);
    let first = full.elements.first().map(|(_, key, _)| key.clone());
    let id = bolt.write(&full, BRANCH)?;
    above.push((first.unwrap_or_default(), id));
    Ok(())
}

// === impl Bolt ===

impl<W: Write + Seek> Bolt<W> {
    /// Begins a database.
    pub fn new(mut out: W) -> io::Result<Self> {
        // The meta pages are written last.
        out.write_all(&[0; 2 * PAGE])?;
        Ok(Self {
            out,
            next: 2,
            buckets: Vec::new(),
        })
    }

    /// Adds a bucket, whose name is greater than those before.
    pub fn bucket(&mut self, name: &str, root: u64) {
        self.buckets.push((name.to_owned(), root));
    }

    /// Writes the list of buckets and the meta pages.
    pub fn finish(mut self) -> io::Result<()> {
        let mut root = Page::default();
        for (name, page) in std::mem::take(&mut self.buckets) {
            // The root's page, and the bucket's own sequence.
            let value = [page.to_le_bytes(), 0_u64.to_le_bytes()].concat();
            root.push(u64::from(IS_BUCKET), name.as_bytes(), &value);
        }
        let root = self.write(&root, LEAF)?;
        let freelist = self.write(&Page::default(), FREELIST)?;
        self.out.seek(SeekFrom::Start(0))?;
        for id in [0, 1] {
            let mut meta = Vec::new();
            for number in [MAGIC, VERSION, u32::try_from(PAGE).unwrap_or_default(), 0] {
                meta.extend(number.to_le_bytes());
            }
            for number in [root, 0, freelist, self.next, id] {
                meta.extend(number.to_le_bytes());
            }
            let sum = fnv(&meta);
            meta.extend(sum.to_le_bytes());
            let mut page = Vec::with_capacity(PAGE);
            header(&mut page, id, META, 0, 0);
            page.extend(meta);
            page.resize(PAGE, 0);
            self.out.write_all(&page)?;
        }
        self.out.flush()
    }

    fn write(&mut self, page: &Page, kind: u16) -> io::Result<u64> {
        let id = self.next;
        let bytes = page.encode(id, kind);
        self.next += (bytes.len() / PAGE) as u64;
        self.out.write_all(&bytes)?;
        Ok(id)
    }
}

/// FNV-1a, 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn the_checksum_is_that_of_go() {
        // hash/fnv, New64a
        assert_eq!(fnv(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn pages_hold_elements_where_their_positions_say() {
        let mut page = Page::default();
        page.push(0, b"key", b"value");
        page.push(0, b"other", &[7; 5_000]);
        let bytes = page.encode(9, LEAF);
        assert_eq!(bytes.len(), 2 * PAGE);
        let number = |at: usize| {
            u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default()) as usize
        };
        assert_eq!(number(12), 1, "one page more");
        let second = HEADER + ELEMENT;
        let (at, key, value) = (
            second + number(second + 4),
            number(second + 8),
            number(second + 12),
        );
        assert_eq!(&bytes[at..at + key], b"other");
        assert_eq!(&bytes[at + key..at + key + value], &[7; 5_000]);
    }

    #[test]
    fn many_keys_make_a_tree() {
        let mut out = Cursor::new(Vec::new());
        let mut bolt = Bolt::new(&mut out).expect("begun");
        let mut bucket = BoltBucket::default();
        for number in 0..20_000_u64 {
            bucket
                .put(&mut bolt, &number.to_be_bytes(), &[1; 100])
                .expect("put");
        }
        let leaves = bucket.leaves.len();
        assert!(leaves > 500);
        let root = bucket.finish(&mut bolt).expect("finished");
        // Above the leaves are branches, and one above them.
        assert!(root > 2 + leaves as u64 + 1);
        bolt.bucket("key", root);
        bolt.finish().expect("finished");
        assert_eq!(out.into_inner().len() % PAGE, 0);
    }
}
