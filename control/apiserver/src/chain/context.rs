//! A request on its way to a handler.

use std::ops::Deref;
use std::sync::Arc;

use control_proxy::ProxiedRequest;

use crate::api::Api;

/// One request, understood and allowed.
#[derive(Debug)]
pub struct Context {
    /// What all handlers share.
    pub api: Arc<Api>,
    /// The request as the registry answers it.
    pub inner: control_registry::Context,
}

impl Deref for Context {
    type Target = control_registry::Context;

    #[inline]
    fn deref(&self) -> &control_registry::Context {
        &self.inner
    }
}

impl Context {
    /// The request as it is passed on to another server.
    #[must_use]
    pub fn proxied(&self) -> ProxiedRequest<'_> {
        ProxiedRequest {
            parts: &self.parts,
            rest: &self.info.rest,
            ending: self.ending(),
        }
    }
}
