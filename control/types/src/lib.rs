//! The API registry, object tree, codecs, selectors, quantities; no I/O.

pub mod coerce;
pub mod cron;
pub mod duration;
mod error_chain;
pub mod fields;
pub mod generated;
pub mod go;
pub mod intern;
pub mod internal;
pub mod json_patch;
pub mod label_selector;
pub mod labels;
pub mod meta;
pub mod names;
pub mod nearest;
pub mod protobuf;
pub mod qos;
pub mod quantity;
pub mod registry;
pub mod schema;
pub mod status;
pub mod strategic;
pub mod structural;
pub mod taints;
pub mod time;
pub mod value;
pub mod volumes;
pub mod yaml;

pub use error_chain::error_chain;
pub use status::Status;
pub use value::{Key, Map, Value};
