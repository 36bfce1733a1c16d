//! The form of the functions that expressions call.

use super::error::Error;
use super::meter::Meter;
use super::value::Val;

/// A function: gets its arguments, the receiver first.
pub(crate) type Native = for<'a> fn(&mut Meter, &[Val<'a>]) -> Result<Val<'a>, Error>;
