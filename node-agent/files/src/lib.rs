//! Access to files that a container, an image, a runtime or a plugin may control, and files
//! that are replaced as a whole ([`atomic_file`]).
//!
//! Three rules hold for such files:
//!
//! - A name is resolved below an open [`Directory`] (`openat2` with
//!   `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`), so that a link that is put in
//!   place of a folder leads nowhere.
//! - A tree is walked by descriptors ([`remove_tree`], [`disk_usage`]), so that it may
//!   be deeper than any path can be long, and no mount below it is entered.
//! - Content is read up to a bound ([`read`]), and only from regular files: a pipe never
//!   ends, a device may do something, a sparse file is larger than memory.

pub mod atomic_file;
pub mod blocking;
mod digest;
mod directory;
mod read;
#[cfg(any(test, feature = "fake"))]
pub mod testing;
mod tree;

pub use digest::digest;
pub use directory::{DIRECTORY_MODE, Directory, create_dirs, set_owner, tighten};
pub use read::{clip, has_content, open_regular, read, read_tail, read_to_string};
pub use tree::{TreeUsage, disk_usage, remove_tree};
