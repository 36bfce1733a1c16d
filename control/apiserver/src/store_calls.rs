//! Calls to etcd as spans, of which its members are told.

use std::any::Any;

use control_store::etcd::Calls;
use http::HeaderMap;

use control_tracing::to_other;

/// Makes each call to etcd a part of the request that it is for.
#[derive(Debug, Clone, Copy, Default)]
pub struct StoreCalls;

impl Calls for StoreCalls {
    fn begins(&self, path: &str, headers: &mut HeaderMap) -> Option<Box<dyn Any + Send>> {
        let method = path.trim_start_matches('/');
        let span = to_other(method.to_owned(), headers)?;
        Some(Box::new(span.with("rpc.system", "grpc")))
    }
}
