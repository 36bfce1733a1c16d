//! The services of the protocol: requests are checked, calls are made, answers
//! are put into messages.

mod controller;
mod group;
mod identity;
mod metadata;
mod node;
mod registration;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tonic::body::Body;

use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::server::{Answer, Handler};

/// Messages of a streaming answer.
type Messages<A> = BoxStream<'static, Result<A, tonic::Status>>;

/// State shared by all services.
#[derive(Clone)]
pub struct Services {
    driver: Arc<Driver>,
    metrics: Metrics,
}

impl Services {
    /// Makes the services of a driver.
    #[must_use]
    pub fn new(driver: Arc<Driver>, metrics: Metrics) -> Self {
        Self { driver, metrics }
    }

    /// Returns what answers calls of all CSI services.
    #[must_use]
    pub fn handler(&self) -> Handler {
        let identity = identity::Identity(self.clone());
        let controller = controller::Controller(self.clone());
        let group = group::GroupController(self.clone());
        let metadata = metadata::SnapshotMetadata(self.clone());
        let node = node::Node(self.clone());
        Arc::new(move |request| {
            let path = request.uri().path().to_owned();
            let (service, method) = path
                .trim_start_matches('/')
                .split_once('/')
                .unwrap_or_default();
            match service {
                "csi.v1.Identity" => identity.answer(method, request),
                "csi.v1.Controller" => controller.answer(method, request),
                "csi.v1.GroupController" => group.answer(method, request),
                "csi.v1.SnapshotMetadata" => metadata.answer(method, request),
                "csi.v1.Node" => node.answer(method, request),
                _ => unimplemented(&path),
            }
        })
    }

    /// Returns what answers a kubelet's calls of registration, for a driver
    /// that answers at `endpoint`.
    #[must_use]
    pub fn registration(&self, endpoint: PathBuf) -> Handler {
        let registration = registration::Registration::new(self.clone(), endpoint);
        Arc::new(move |request| match request.uri().path() {
            "/pluginregistration.Registration/GetInfo" => registration.info(request),
            "/pluginregistration.Registration/NotifyRegistrationStatus" => {
                registration.status(request)
            }
            path => unimplemented(path),
        })
    }

    /// Answers one message with one, by a call that may block.
    fn unary<Q, A>(
        &self,
        method: &'static str,
        request: http::Request<Body>,
        call: impl FnOnce(&Driver, Q) -> Result<A> + Clone + Send + 'static,
    ) -> BoxFuture<'static, Answer>
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + Default + 'static,
    {
        let services = self.clone();
        let codec = tonic_prost::ProstCodec::<A, Q>::default();
        let service = tower::service_fn(move |request: tonic::Request<Q>| {
            let (services, call) = (services.clone(), call.clone());
            services.call(method, request.into_inner(), call)
        });
        Box::pin(async move {
            tonic::server::Grpc::new(codec)
                .unary(service, request)
                .await
        })
    }

    async fn call<Q: Send + 'static, A: Send + 'static>(
        self,
        method: &'static str,
        message: Q,
        call: impl FnOnce(&Driver, Q) -> Result<A> + Send + 'static,
    ) -> Result<tonic::Response<A>, tonic::Status> {
        let begun = Instant::now();
        let driver = self.driver.clone();
        // Runs to its end, whether or not the caller waits for it.
        let done = tokio::task::spawn_blocking(move || call(&driver, message)).await;
        let status = match done {
            Ok(Ok(answer)) => {
                self.metrics
                    .observe(method, tonic::Code::Ok, begun.elapsed());
                return Ok(tonic::Response::new(answer));
            }
            Ok(Err(error)) => tonic::Status::from(error),
            Err(_) => tonic::Status::internal("the call ended unexpectedly: see the driver's log"),
        };
        self.metrics.observe(method, status.code(), begun.elapsed());
        let (code, message) = (status.code(), status.message());
        if code == tonic::Code::Internal {
            tracing::error!(method, ?code, message, "call failed");
        } else {
            tracing::debug!(method, ?code, message, "call refused");
        }
        Err(status)
    }

    /// Answers one message with many.
    fn streaming<Q, A>(
        &self,
        method: &'static str,
        request: http::Request<Body>,
        call: impl FnOnce(&Driver, Q) -> Result<Vec<A>> + Clone + Send + 'static,
    ) -> BoxFuture<'static, Answer>
    where
        Q: prost::Message + Default + 'static,
        A: prost::Message + Default + 'static,
    {
        let services = self.clone();
        let codec = tonic_prost::ProstCodec::<A, Q>::default();
        let service = tower::service_fn(move |request: tonic::Request<Q>| {
            let (services, call) = (services.clone(), call.clone());
            async move {
                let answer = services.call(method, request.into_inner(), call).await?;
                let messages = futures::stream::iter(answer.into_inner().into_iter().map(Ok));
                let messages: Messages<A> = Box::pin(messages);
                Ok(tonic::Response::new(messages))
            }
        });
        Box::pin(async move {
            tonic::server::Grpc::new(codec)
                .server_streaming(service, request)
                .await
        })
    }
}

/// Answers a call of a method that does not exist.
fn unimplemented(method: &str) -> BoxFuture<'static, Answer> {
    let status = tonic::Status::unimplemented(format!("`{method}` is not implemented"));
    Box::pin(async move { status.into_http() })
}

/// Returns a field that must not be empty.
fn required(field: &'static str, value: String) -> Result<String> {
    if value.is_empty() {
        return Err(Error::Missing { field });
    }
    Ok(value)
}

/// Returns a path that must be absolute and whose parts are plain.
fn path(field: &'static str, value: String) -> Result<PathBuf> {
    let path = PathBuf::from(required(field, value.clone())?);
    let plain = |part: std::path::Component<'_>| {
        matches!(
            part,
            std::path::Component::RootDir | std::path::Component::Normal(_)
        )
    };
    if !path.is_absolute() || !path.components().all(plain) {
        return Err(Error::invalid(
            field,
            value,
            "must be an absolute path without `..`",
        ));
    }
    Ok(path)
}

/// Keys of StorageClass parameters that external-provisioner adds or takes.
const KUBERNETES: &str = "csi.storage.k8s.io/";

/// Returns the class that parameters name.
///
/// # Errors
/// Names the first parameter that is unknown.
fn class(parameters: &BTreeMap<String, String>) -> Result<Option<String>> {
    let foreign = |key: &&String| *key != "class" && !key.starts_with(KUBERNETES);
    if let Some(key) = parameters.keys().find(foreign) {
        return Err(Error::invalid(
            "parameters",
            key,
            "the only parameter is `class`",
        ));
    }
    Ok(parameters
        .get("class")
        .filter(|name| !name.is_empty())
        .cloned())
}
