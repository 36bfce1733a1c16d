//! Who may: authentication and authorisation decisions.

mod attributes;
mod user;

pub use attributes::Attributes;
pub use user::*;
