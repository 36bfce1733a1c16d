//! The API registry, object tree, codecs, selectors, quantities; no I/O.

pub mod generated;
pub mod meta;
pub mod status;
pub mod time;
pub mod value;

pub use status::Status;
pub use value::{Key, Map, Value};
