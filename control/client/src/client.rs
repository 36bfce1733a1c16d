//! Requests to the API server: read, write and delete, with errors that say what
//! happened.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::uri::Authority;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::{BoxError, Service};

use crate::bearer::BearerToken;
use crate::error::{Error, Status};
use crate::reflector::Selection;
use crate::resource::Resource;
use crate::transport::{self, RequestBody};
use crate::updates::Updates;
use crate::wire::Page;

/// For an answer whose content does not matter: `client.patch::<Discard>(…)`.
pub type Discard = serde::de::IgnoredAny;

/// Timeout of requests. kube-apiserver ends its own at 60 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(65);

/// How often a request is sent again when the server says when to come back.
const RETRIES: u32 = 10;

/// Page size when listing, as in client-go: bounds the memory of both sides.
const PAGE: usize = 500;

/// A client of the API server. Cloning is cheap; all clones share connections.
///
/// There is no throttling on this side: the server's priority and fairness
/// says (with 429 and `Retry-After`) when it is too much, and that is obeyed.
#[derive(Clone)]
pub struct Client {
    transport: kube::Client,
    user_agent: Arc<header::HeaderValue>,
    /// As whose bearer it asks; without it, as the transport's user.
    token: Option<BearerToken>,
    /// The servers behind it, over the network.
    servers: Option<transport::Servers>,
    /// The fallback for users who may not patch.
    updates: Option<Arc<Updates>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("user_agent", &self.user_agent)
            .finish_non_exhaustive()
    }
}

/// The name of the server in metrics; a client has only one.
const HOST: &str = "apiserver";

/// The default media type of request and response bodies.
const JSON: &str = "application/json";

/// How often it is looked which servers there are.
const LOOK: Duration = Duration::from_secs(10);

/// Hosts and ports of the ready endpoints of a slice.
fn servers_of(slice: &serde_json::Value) -> Vec<Authority> {
    let ports = slice["ports"].as_array().into_iter().flatten();
    let port = ports
        .filter(|port| port["name"] == "https")
        .find_map(|port| u16::try_from(port["port"].as_u64()?).ok());
    let Some(port) = port else { return Vec::new() };
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints
        .filter(|endpoint| endpoint["conditions"]["ready"] != false)
        .filter_map(|endpoint| endpoint["addresses"][0].as_str()?.parse::<IpAddr>().ok())
        .filter_map(|address| SocketAddr::new(address, port).to_string().parse().ok())
        .collect()
}

/// How an object is to be deleted.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Seconds for a graceful end; the kind's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Delete only this very object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// The fate of the objects that this one owns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<Propagation>,
}

impl DeleteOptions {
    /// Delete only if the object still has this uid.
    #[must_use]
    pub fn of_uid(uid: impl Into<String>) -> Self {
        Self {
            preconditions: Some(Preconditions {
                uid: Some(uid.into()),
                resource_version: None,
            }),
            ..Self::default()
        }
    }

    /// Sets the grace period in seconds; 0 deletes immediately.
    #[must_use]
    pub const fn grace(mut self, seconds: i64) -> Self {
        self.grace_period_seconds = Some(seconds);
        self
    }

    /// With this propagation.
    #[must_use]
    pub const fn propagation(mut self, propagation: Propagation) -> Self {
        self.propagation_policy = Some(propagation);
        self
    }
}

/// `metav1.Preconditions`.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// The object's identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The revision it must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// The fate of owned objects on deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// They stay, without this owner.
    Orphan,
    /// They are deleted after this object.
    Background,
    /// Owned objects are deleted first; the object waits for them.
    Foreground,
}

/// A patch: what to send, and how the server is to read it.
#[derive(Clone, Copy, Debug)]
pub enum Patch<'a, T: Serialize> {
    /// RFC 6902.
    Json(&'a T),
    /// RFC 7386.
    Merge(&'a T),
    /// Kubernetes' strategic merge: lists merge by key. Built-in kinds only.
    Strategic(&'a T),
    /// Server-side apply.
    Apply {
        /// The complete desired state of this manager.
        body: &'a T,
        /// The manager's name.
        manager: &'a str,
        /// Take fields over from other managers.
        force: bool,
    },
}

/// All objects of a list, with the revision they were read at.
#[derive(Clone, Debug)]
pub struct List<T> {
    /// The revision; a watch may continue from it.
    pub resource_version: String,
    /// The objects.
    pub items: Vec<T>,
}

impl Client {
    /// A client over the network, as the kubeconfig at `path` says.
    ///
    /// # Errors
    /// [`Error::Kubeconfig`], in one line, when the file cannot be used. The
    /// API server is not called yet.
    pub async fn from_kubeconfig(path: impl AsRef<std::path::Path>) -> Result<Self, Error> {
        Ok(Self::to(transport::from_kubeconfig(path.as_ref()).await?))
    }

    /// Returns a client for the server that several kubeconfigs describe. They are merged
    /// as kubectl merges the files of `KUBECONFIG`: the first file that sets a value
    /// wins.
    ///
    /// # Errors
    /// As [`Client::from_kubeconfig`]; also when there is no file.
    pub async fn from_kubeconfigs(paths: &[std::path::PathBuf]) -> Result<Self, Error> {
        Ok(Self::to(transport::from_kubeconfigs(paths).await?))
    }

    /// A client over the network, as the text of a kubeconfig says. `path` is
    /// where it is from, for errors; files that it names are relative to the
    /// working directory.
    ///
    /// # Errors
    /// As [`Client::from_kubeconfig`].
    pub async fn from_kubeconfig_text(
        text: &str,
        path: impl AsRef<std::path::Path>,
    ) -> Result<Self, Error> {
        Ok(Self::to(transport::from_text(text, path.as_ref()).await?))
    }

    /// As [`Client::from_kubeconfig`], with this token in place of the kubeconfig's user.
    ///
    /// # Errors
    /// As [`Client::from_kubeconfig`].
    pub async fn from_kubeconfig_with_token(
        path: impl AsRef<std::path::Path>,
        token: BearerToken,
    ) -> Result<Self, Error> {
        let transport = transport::with_token(path.as_ref(), token).await?;
        Ok(Self::to(transport))
    }

    /// As [`Client::from_kubeconfigs`], without the user that they name: requests need a token
    /// ([`Client::bearing`]). Clients of several users share its connections.
    ///
    /// # Errors
    /// As [`Client::from_kubeconfig`].
    pub async fn anonymous(paths: &[std::path::PathBuf]) -> Result<Self, Error> {
        Ok(Self::to(transport::anonymous(paths).await?))
    }

    /// The same client for the bearer of a token.
    #[must_use]
    pub fn bearing(mut self, token: BearerToken) -> Self {
        self.token = Some(token);
        self
    }

    /// A client of an API server in this process: its tower service, and the
    /// identity to put into the extensions of every request (in place of the
    /// one that the network listener finds in the TLS certificate).
    ///
    /// Must be called within a tokio runtime.
    pub fn in_process<S, B, I>(service: S, identity: I) -> Self
    where
        S: Service<Request<RequestBody>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
        I: Clone + Send + Sync + 'static,
    {
        let service =
            tower::ServiceExt::map_request(service, move |mut request: Request<RequestBody>| {
                request.extensions_mut().insert(identity.clone());
                request
            });
        Self::over(kube::Client::new(service, "default"))
    }

    fn to(transport: transport::Transport) -> Self {
        Self {
            servers: Some(transport.servers),
            ..Self::over(transport.client)
        }
    }

    /// Follows the servers in the endpoints of the `kubernetes` Service while it is
    /// polled: requests of this client and its clones go to any of them, and avoid a
    /// server that is slow or unreachable. Does nothing for a client in the server's
    /// process.
    pub async fn follow_servers(&self) {
        let Some(servers) = &self.servers else {
            return std::future::pending().await;
        };
        loop {
            match self.named_servers().await {
                Ok(named) if !named.is_empty() => servers.learn(named),
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(error = error.chain(), "failed to list API servers");
                }
            }
            tokio::time::sleep(LOOK.mul_f64(rand::random_range(0.8..1.2))).await;
        }
    }

    /// The ready endpoints of the `kubernetes` Service.
    async fn named_servers(&self) -> Result<Vec<Authority>, Error> {
        let selection = Selection::all()
            .namespace("default")
            .fields("metadata.name=kubernetes");
        let slices = crate::resource::resources::ENDPOINT_SLICES;
        let list = self.list::<serde_json::Value>(&slices, &selection).await?;
        Ok(list.items.iter().flat_map(servers_of).collect())
    }

    /// A client over any transport that kube made.
    #[must_use]
    pub fn over(transport: kube::Client) -> Self {
        Self {
            transport,
            user_agent: Arc::new(header::HeaderValue::from_static(concat!(
                "orlop/",
                env!("CARGO_PKG_VERSION")
            ))),
            token: None,
            servers: None,
            updates: None,
        }
    }

    /// The same client under the name of a component, such as
    /// `kube-scheduler`: the API server records it as the field manager of
    /// writes and in its audit log. Text that is no header value is ignored.
    #[must_use]
    pub fn named(mut self, component: &str) -> Self {
        let agent = format!("{component}/orlop-{}", env!("CARGO_PKG_VERSION"));
        if let Ok(agent) = header::HeaderValue::from_str(&agent) {
            self.user_agent = Arc::new(agent);
        }
        self
    }

    /// Returns the same client for a user who may be allowed to update objects, but not
    /// to patch them: a merge patch that is forbidden becomes an update of the whole
    /// object, which is read through a list by `reader`.
    #[must_use]
    pub fn updating_through(mut self, reader: &Self) -> Self {
        self.updates = Some(Arc::new(Updates::new(reader.clone())));
        self
    }

    /// Returns kube's client, for requests that this one does not offer.
    #[must_use]
    pub const fn kube(&self) -> &kube::Client {
        &self.transport
    }

    /// One object. `namespace` is ignored for cluster-scoped resources, here
    /// and in all requests below.
    ///
    /// # Errors
    /// [`Error::NotFound`], and whatever prevents an answer.
    pub async fn get<R: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<R, Error> {
        let path = path(resource, namespace, name, "");
        self.request(Method::GET, &path, None::<&()>).await
    }

    /// Lists all objects that `selection` selects, in pages. With
    /// [`Selection::metadata_only`] the server returns metadata alone.
    ///
    /// # Errors
    /// [`Error::Expired`] when the revision was compacted between two pages
    /// (list again), and whatever prevents an answer.
    pub async fn list<R: DeserializeOwned>(
        &self,
        resource: &Resource,
        selection: &Selection,
    ) -> Result<List<R>, Error> {
        let base = path(
            resource,
            selection.namespace.as_deref().unwrap_or(""),
            "",
            "",
        );
        let mut all = List {
            resource_version: String::new(),
            items: Vec::new(),
        };
        let accept = selection.accept_list();
        let mut token = String::new();
        loop {
            let mut query = Query::new();
            query.selection(selection).pair("limit", &PAGE.to_string());
            if !token.is_empty() {
                query.pair("continue", &token);
            }
            let path = query.onto(&base);
            let answer = self
                .exchange(Method::GET, &path, JSON, accept, Bytes::new())
                .await?;
            let page: Page<R> = decode(&Method::GET, &path, &answer)?;
            all.resource_version = page.metadata.resource_version.to_string();
            all.items.extend(page.items);
            token = page.metadata.continue_token;
            if token.is_empty() {
                return Ok(all);
            }
        }
    }

    /// Whether the API server serves a resource; custom ones come and go.
    ///
    /// # Errors
    /// Whatever prevents an answer.
    pub async fn serves(&self, resource: &Resource) -> Result<bool, Error> {
        #[derive(serde::Deserialize)]
        struct Served {
            #[serde(default)]
            resources: Vec<Named>,
        }
        #[derive(serde::Deserialize)]
        struct Named {
            name: String,
        }
        let prefix = if resource.group.is_empty() {
            "api"
        } else {
            "apis"
        };
        let path = format!("/{prefix}/{}", resource.api_version());
        match self
            .request::<Served>(Method::GET, &path, None::<&()>)
            .await
        {
            Ok(list) => Ok(list.resources.iter().any(|it| it.name == resource.plural)),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates an object.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`], [`Error::Invalid`], and whatever prevents an
    /// answer.
    pub async fn create<R: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<R, Error> {
        let path = path(resource, namespace, "", "");
        self.request(Method::POST, &path, Some(body)).await
    }

    /// Posts to a subresource: `binding`, `eviction`, `token`.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Conflict`], and whatever prevents an
    /// answer.
    pub async fn create_subresource<R: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<R, Error> {
        let path = path(resource, namespace, name, subresource);
        self.request(Method::POST, &path, Some(body)).await
    }

    /// Replaces an object. With a `resourceVersion` in `body` only that
    /// revision is replaced.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::NotFound`], [`Error::Invalid`], and
    /// whatever prevents an answer.
    pub async fn update<R: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<R, Error> {
        let path = path(resource, namespace, name, "");
        self.request(Method::PUT, &path, Some(body)).await
    }

    /// Replaces a subresource, such as `status` or `finalize`.
    ///
    /// # Errors
    /// As [`Client::update`].
    pub async fn update_subresource<R: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<R, Error> {
        let path = path(resource, namespace, name, subresource);
        self.request(Method::PUT, &path, Some(body)).await
    }

    /// Replaces the status of an object.
    ///
    /// # Errors
    /// As [`Client::update`].
    pub async fn update_status<R: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<R, Error> {
        self.update_subresource(resource, namespace, name, "status", body)
            .await
    }

    /// Patches an object, or a subresource (empty for the object itself).
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`], [`Error::Conflict`] (for apply: another
    /// manager owns a field), and errors that prevent a response.
    pub async fn patch<R: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        patch: Patch<'_, impl Serialize>,
    ) -> Result<R, Error> {
        let path = path(resource, namespace, name, subresource);
        let is_merge = matches!(patch, Patch::Merge(_));
        let (media, body, path) = match patch {
            Patch::Json(body) => ("application/json-patch+json", body, path),
            Patch::Merge(body) => ("application/merge-patch+json", body, path),
            Patch::Strategic(body) => ("application/strategic-merge-patch+json", body, path),
            Patch::Apply {
                body,
                manager,
                force,
            } => {
                let mut query = Query::new();
                query.pair("fieldManager", manager);
                if force {
                    query.pair("force", "true");
                }
                ("application/apply-patch+yaml", body, query.onto(&path))
            }
        };
        let body = encode(&Method::PATCH, &path, body)?;
        let answer = match self.updates.as_deref().filter(|_| is_merge) {
            None => {
                self.exchange(Method::PATCH, &path, media, JSON, body)
                    .await?
            }
            Some(updates) => {
                let object = (resource, namespace, name, subresource);
                let patched = self.patch_or_update(updates, object, &path, media, body);
                Box::pin(patched).await?
            }
        };
        decode(&Method::PATCH, &path, &answer)
    }

    /// Sends a merge patch, or updates the object where patches are forbidden.
    async fn patch_or_update(
        &self,
        updates: &Updates,
        (resource, namespace, name, subresource): (&Resource, &str, &str, &str),
        path: &str,
        media: &str,
        body: Bytes,
    ) -> Result<Bytes, Error> {
        if !updates.are_known_for(resource, subresource) {
            let exchange = self.exchange(Method::PATCH, path, media, JSON, body.clone());
            match exchange.await {
                Err(error) if updates.help_with(&error, resource, subresource) => {}
                answer => return answer,
            }
        }
        let patch = serde_json::from_slice(&body).map_err(|source| Error::Encode {
            request: format!("PATCH {path}"),
            source,
        })?;
        let object = (namespace, name);
        updates
            .patch(self, resource, object, subresource, &patch)
            .await
    }

    /// Patches the status of an object.
    ///
    /// # Errors
    /// As [`Client::patch`].
    pub async fn patch_status<R: DeserializeOwned>(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        patch: Patch<'_, impl Serialize>,
    ) -> Result<R, Error> {
        self.patch(resource, namespace, name, "status", patch).await
    }

    /// Deletes an object, or asks for its graceful deletion.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Conflict`] (a precondition failed), and
    /// whatever prevents an answer.
    pub async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        let path = path(resource, namespace, name, "");
        self.request::<Discard>(Method::DELETE, &path, Some(options))
            .await?;
        Ok(())
    }

    /// Deletes all objects of a namespace that `selection` selects.
    ///
    /// # Errors
    /// Whatever prevents an answer.
    pub async fn delete_collection(
        &self,
        resource: &Resource,
        selection: &Selection,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        let base = path(
            resource,
            selection.namespace.as_deref().unwrap_or(""),
            "",
            "",
        );
        let mut query = Query::new();
        query.selection(selection);
        self.request::<Discard>(Method::DELETE, &query.onto(&base), Some(options))
            .await?;
        Ok(())
    }

    /// Any request with JSON in and out; `path` with its query, such as
    /// `/apis` or `/api/v1/nodes?limit=1`.
    ///
    /// # Errors
    /// Whatever the server answers, or prevents an answer.
    pub async fn request<R: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<R, Error> {
        let body = match body {
            Some(body) => encode(&method, path, body)?,
            None => Bytes::new(),
        };
        let answer = self
            .exchange(method.clone(), path, JSON, JSON, body)
            .await?;
        decode(&method, path, &answer)
    }

    /// As [`Client::exchange_bytes`], as one type of future: callers, which are many, need not
    /// be compiled with all that is inside.
    fn exchange<'a>(
        &'a self,
        method: Method,
        path: &'a str,
        media: &'a str,
        accept: &'a str,
        body: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, Error>> {
        Box::pin(self.exchange_bytes(method, path, media, accept, body))
    }

    /// Sends a request, retries when the server asks for it, and returns the body of a success.
    async fn exchange_bytes(
        &self,
        method: Method,
        path: &str,
        media: &str,
        accept: &str,
        body: Bytes,
    ) -> Result<Bytes, Error> {
        let mut attempt = 0;
        loop {
            let whole = async {
                let response = self
                    .send(&method, path, media, accept, body.clone())
                    .await?;
                let (head, body) = response.into_parts();
                let body = body.collect().await.map_err(Error::Body)?.to_bytes();
                Ok::<_, Error>((head, body))
            };
            let (head, answer) =
                tokio::time::timeout(ANSWER_WITHIN, whole)
                    .await
                    .map_err(|_| Error::NoAnswer {
                        request: format!("{method} {path}"),
                        after: ANSWER_WITHIN,
                    })??;
            if head.status.is_success() {
                return Ok(answer);
            }
            if let Some(delay) = come_back_after(&head)
                && attempt < RETRIES
            {
                attempt += 1;
                tokio::time::sleep(delay).await;
                continue;
            }
            return Err(Error::from_status(read_status(head.status, &answer)));
        }
    }

    /// Sends one request, once. The answer may be an error.
    pub(crate) async fn send(
        &self,
        method: &Method,
        path: &str,
        media: &str,
        accept: &str,
        body: Bytes,
    ) -> Result<Response<RequestBody>, Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, accept)
            .header(header::USER_AGENT, &*self.user_agent);
        if !body.is_empty() {
            request = request
                .header(header::CONTENT_TYPE, media)
                .header(header::CONTENT_LENGTH, body.len());
        }
        if let (Some(token), Some(headers)) = (&self.token, request.headers_mut()) {
            token.authorize(headers);
        }
        let request = request
            .body(RequestBody::from(body.to_vec()))
            .map_err(|source| Error::Request {
                request: format!("{method} {path}"),
                source,
            })?;
        let began = std::time::Instant::now();
        let answer = self.transport.send(request).await;
        if let Ok(answer) = &answer {
            if let Some(token) = &self.token {
                token.answered(answer.status());
            }
            let code = answer.status().as_u16();
            crate::metrics::requested(HOST, method, code, began.elapsed());
        }
        answer.map_err(Error::from_transport)
    }
}

/// When the server wants the request again, for the answers that allow it
/// whatever the request was: it was not begun.
fn come_back_after(head: &http::response::Parts) -> Option<Duration> {
    if head.status != StatusCode::TOO_MANY_REQUESTS && !head.status.is_server_error() {
        return None;
    }
    let seconds: u64 = head
        .headers
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds.min(30)))
}

/// The status in an error's body, or one made of the HTTP code where a proxy
/// (or anything that is no API server) answered.
pub(crate) fn read_status(code: StatusCode, body: &[u8]) -> Status {
    let mut status = serde_json::from_slice::<Status>(body).unwrap_or_default();
    if status.code == 0 {
        status.code = code.as_u16();
    }
    if status.message.is_empty() {
        let text = String::from_utf8_lossy(body);
        let text: String = text.trim().chars().take(300).collect();
        status.message = if text.is_empty() {
            format!("the server answered {code}")
        } else {
            format!("the server answered {code}: {text}")
        };
    }
    status
}

/// Reads the body of a success.
fn decode<R: DeserializeOwned>(method: &Method, path: &str, answer: &[u8]) -> Result<R, Error> {
    serde_json::from_slice(answer).map_err(|source| Error::Decode {
        request: format!("{method} {path}"),
        source,
    })
}

fn encode(method: &Method, path: &str, body: &(impl Serialize + ?Sized)) -> Result<Bytes, Error> {
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|source| Error::Encode {
            request: format!("{method} {path}"),
            source,
        })
}

/// Returns the path of a resource, an object or a subresource. Empty parts are left out.
pub(crate) fn path(resource: &Resource, namespace: &str, name: &str, subresource: &str) -> String {
    let mut path = String::with_capacity(96);
    if resource.group.is_empty() {
        path.push_str("/api/");
    } else {
        path.push_str("/apis/");
        path.push_str(&resource.group);
        path.push('/');
    }
    path.push_str(&resource.version);
    if resource.namespaced && !namespace.is_empty() {
        path.push_str("/namespaces/");
        escape(&mut path, namespace);
    }
    path.push('/');
    path.push_str(&resource.plural);
    for part in [name, subresource] {
        if !part.is_empty() {
            path.push('/');
            escape(&mut path, part);
        }
    }
    path
}

/// A query string.
#[derive(Debug, Default)]
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn pair(&mut self, key: &str, value: &str) -> &mut Self {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(key);
        self.0.push('=');
        escape(&mut self.0, value);
        self
    }

    pub(crate) fn selection(&mut self, selection: &Selection) -> &mut Self {
        if let Some(labels) = &selection.labels {
            self.pair("labelSelector", labels);
        }
        if let Some(fields) = &selection.fields {
            self.pair("fieldSelector", fields);
        }
        self
    }

    pub(crate) fn onto(&self, path: &str) -> String {
        format!("{path}{}", self.0)
    }
}

/// Percent-encodes all but the unreserved characters of RFC 3986.
fn escape(into: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                into.push(char::from(byte));
            }
            _ => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                into.push('%');
                for nibble in [byte >> 4, byte & 15] {
                    into.push(char::from(HEX[usize::from(nibble)]));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources;

    #[test]
    fn paths_name_group_namespace_object_and_subresource() {
        assert_eq!(
            path(&resources::PODS, "default", "web-0", "binding"),
            "/api/v1/namespaces/default/pods/web-0/binding"
        );
        assert_eq!(path(&resources::PODS, "", "", ""), "/api/v1/pods");
        assert_eq!(
            path(&resources::NODES, "ignored", "node-1", ""),
            "/api/v1/nodes/node-1"
        );
        assert_eq!(
            path(&resources::DEPLOYMENTS, "a", "", ""),
            "/apis/apps/v1/namespaces/a/deployments"
        );
        assert_eq!(
            path(&resources::PODS, "../x", "a?b", ""),
            "/api/v1/namespaces/..%2Fx/pods/a%3Fb"
        );
    }

    #[test]
    fn servers_are_the_ready_endpoints_of_their_service() {
        let slice = serde_json::json!({
            "ports": [{"name": "https", "port": 6443}],
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
                {"addresses": ["fd00::3"], "conditions": {}},
                {"addresses": ["nonsense"]},
            ],
        });
        let found: Vec<String> = servers_of(&slice).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.1:6443", "[fd00::3]:6443"]);
        assert!(servers_of(&serde_json::json!({"ports": []})).is_empty());
    }

    #[test]
    fn selectors_are_escaped() {
        let mut query = Query::new();
        query.selection(
            &Selection::all()
                .labels("app in (a,b)")
                .fields("spec.nodeName="),
        );
        assert_eq!(
            query.onto("/x"),
            "/x?labelSelector=app%20in%20%28a%2Cb%29&fieldSelector=spec.nodeName%3D"
        );
    }

    #[test]
    fn an_answer_that_is_no_status_still_says_what_came() {
        let status = read_status(StatusCode::BAD_GATEWAY, b"upstream is down\n");
        assert_eq!(status.code, 502);
        assert!(
            status.message.contains("upstream is down"),
            "{}",
            status.message
        );
        let status = read_status(StatusCode::NOT_FOUND, b"");
        assert!(Error::from_status(status).is_not_found());
    }
}
