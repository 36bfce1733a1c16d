//! What a plugin is.

use std::fmt::Debug;
use std::future::{Ready, ready};

use control_types::status::Status;
use control_types::value::Value;
use futures::future::{BoxFuture, Either};

use crate::attributes::Attributes;

/// The answer of a plugin: at once, or after it waited for something. Hardly any plugin waits,
/// so that a chain of them costs no allocation.
pub type AdmissionResult<'a> = Either<Ready<Result<(), Status>>, BoxFuture<'a, Result<(), Status>>>;

/// A step of admission. Which requests it handles is listed in `crate::table`.
pub trait Admission: Debug + Send + Sync {
    /// Changes the object that is written, or refuses it; `old` is the object as it is, none for
    /// a new one.
    fn admit<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
    ) -> AdmissionResult<'a> {
        let _ = (attributes, object, old);
        done(Ok(()))
    }

    /// Validates a change after all mutations; adds warnings for the client to `warnings`.
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        change: Change<'a>,
        warnings: &'a mut Vec<String>,
    ) -> AdmissionResult<'a> {
        let _ = (attributes, change, warnings);
        done(Ok(()))
    }
}

/// What a request changes, as the plugins see it that only look.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The object as it is to be; of a deletion, the object that is deleted.
    pub new: &'a Value,
    /// The object as it is; none for a new object and for a deletion.
    pub old: Option<&'a Value>,
}

/// Returns an answer that is known at once.
pub(crate) fn done<'a>(result: Result<(), Status>) -> AdmissionResult<'a> {
    Either::Left(ready(result))
}

/// Returns the answer of a plugin that waits.
pub(crate) fn wait<'a>(
    answer: impl Future<Output = Result<(), Status>> + Send + 'a,
) -> AdmissionResult<'a> {
    Either::Right(Box::pin(answer))
}
