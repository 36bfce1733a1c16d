//! Discovery and OpenAPI as clients get them: the documents of built-in and custom resources
//! together with what other servers say of theirs.

mod discovery;
mod openapi;
pub mod paths;

pub use discovery::{Discovery, representable, versions};
pub use openapi::OpenApi;
