//! Delegated authentication and authorization by the API server.
//!
//! The certificate or the bearer token identifies a client. The API server reviews tokens
//! (TokenReview) and rights (SubjectAccessReview). Answers are cached for a while.
//! Members of `system:masters` need no review, so that a port can be read while reviews
//! are unavailable.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control_client::{Client, Error as ClientError, Resource};
use http::{Method, Response, StatusCode};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Body;

/// Most answers of one kind that are kept.
const MOST: usize = 4096;

/// The time for which an unknown token is cached.
const UNKNOWN_TOKEN: Duration = Duration::from_secs(10);

/// How requests are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether requests without credentials act as `system:anonymous`; otherwise they are
    /// rejected.
    pub anonymous: bool,
    /// Whether tokens are reviewed; otherwise they are refused.
    pub webhook_tokens: bool,
    /// How long the answer about a token is kept.
    pub tokens_for: Duration,
    /// Whether rights are reviewed; otherwise every known client may do everything.
    pub webhook_rights: bool,
    /// How long it is kept that a client may.
    pub allowed_for: Duration,
    /// How long it is kept that a client may not.
    pub denied_for: Duration,
}

impl Default for Settings {
    /// The kubelet's.
    fn default() -> Self {
        Self {
            anonymous: false,
            webhook_tokens: true,
            tokens_for: Duration::from_secs(120),
            webhook_rights: true,
            allowed_for: Duration::from_secs(300),
            denied_for: Duration::from_secs(30),
        }
    }
}

/// The authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct User {
    /// The name.
    #[serde(rename = "username")]
    pub name: String,
    /// Identity in time, where there is one.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Further attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns the user of a certificate with this name and these groups.
    #[must_use]
    pub fn certified(name: &str, groups: impl IntoIterator<Item = String>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().collect();
        groups.push("system:authenticated".to_owned());
        Self {
            name: name.to_owned(),
            groups,
            ..Self::default()
        }
    }

    fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }
}

/// The denial of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessDenied {
    /// The answer's status.
    pub status: StatusCode,
    /// The message.
    pub message: String,
}

fn unauthorized() -> AccessDenied {
    AccessDenied {
        status: StatusCode::UNAUTHORIZED,
        message: "Unauthorized".to_owned(),
    }
}

/// A cache of authentication and authorization results.
struct AnswerCache<K, V>(Mutex<FxHashMap<K, (Instant, V)>>);

impl<K: Hash + Eq, V: Clone> AnswerCache<K, V> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn get(&self, key: &K, now: Instant) -> Option<V> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(key)
            .filter(|(until, _)| *until > now)
            .map(|(_, value)| value.clone())
    }

    fn put(&self, key: K, value: V, until: Instant, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.retain(|_, (until, _)| *until > now);
        }
        // still full: answers are requested again rather than using more memory
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(key, (until, value));
    }
}

/// A question about rights: who, which verb, of what.
type Question = (User, String, String);

/// A protected port: the audience of its tokens, and the rights that clients need.
#[derive(Clone, Debug)]
pub struct GuardedPort {
    /// The prefix of the tokens' audience, before the name; `None`: tokens for the API
    /// are accepted.
    pub audience: Option<&'static str>,
    /// The header with the token. An API server that passes a request on keeps
    /// `authorization` for itself, and leaves others alone.
    pub header: &'static str,
    /// The rights that clients need.
    pub rights: Rights,
    /// The answer to a request that is not served.
    pub refusal: fn(&AccessDenied) -> Response<Body>,
}

/// The rights that clients need.
#[derive(Clone, Debug)]
pub enum Rights {
    /// A resource of the API whose name is that of [`Access`].
    Resource {
        /// The resource's API group.
        group: &'static str,
        /// The resource.
        resource: &'static str,
        /// The verb of a request, and the subresources of which one has to be allowed; the
        /// empty one is the resource itself.
        attributes: fn(&Method, &str) -> (&'static str, Vec<&'static str>),
    },
    /// The path of the request (`nonResourceURLs`).
    Paths {
        /// Paths that everybody may read; one that ends with `*` is a prefix.
        open: Vec<String>,
    },
}

/// Authenticates and authorizes requests.
pub struct Access {
    client: Client,
    name: String,
    settings: Settings,
    guarded: GuardedPort,
    tokens: AnswerCache<String, Option<User>>,
    rights: AnswerCache<Question, bool>,
}

const TOKEN_REVIEWS: Resource =
    Resource::cluster("authentication.k8s.io", "v1", "tokenreviews", "TokenReview");

const ACCESS_REVIEWS: Resource = Resource::cluster(
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
    "SubjectAccessReview",
);

impl Access {
    /// Reviews through the API of `client` about the guarded port with this name: a
    /// node's, or none.
    #[must_use]
    pub fn new(guarded: GuardedPort, client: Client, name: &str, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            client,
            name: name.to_owned(),
            settings,
            guarded,
            tokens: AnswerCache::new(),
            rights: AnswerCache::new(),
        })
    }

    /// The header with the token.
    pub(crate) fn header(&self) -> &'static str {
        self.guarded.header
    }

    /// The answer to a request that is not served.
    pub(crate) fn refusal(&self, refused: &AccessDenied) -> Response<Body> {
        (self.guarded.refusal)(refused)
    }

    /// Whether the request may be served, of a client with this certificate's
    /// name and this text in the header.
    ///
    /// # Errors
    /// What to answer instead.
    pub async fn check(
        &self,
        certified: Option<&User>,
        authorization: Option<&str>,
        method: &Method,
        path: &str,
    ) -> Result<(), AccessDenied> {
        let user = self.user(certified, authorization).await?;
        if !self.settings.webhook_rights {
            return Ok(());
        }
        match &self.guarded.rights {
            Rights::Resource {
                group,
                resource,
                attributes,
            } => {
                let (verb, subresources) = attributes(method, path);
                self.check_resource(&user, verb, group, resource, &subresources)
                    .await
            }
            Rights::Paths { open } if is_open(open, path) => Ok(()),
            Rights::Paths { .. } => self.check_path(&user, method, path).await,
        }
    }

    async fn check_resource(
        &self,
        user: &User,
        verb: &str,
        group: &str,
        resource: &str,
        subresources: &[&str],
    ) -> Result<(), AccessDenied> {
        for subresource in subresources {
            let attributes = json!({
                "verb": verb,
                "group": group,
                "version": "v1",
                "resource": resource,
                "subresource": subresource,
                "name": self.name,
            });
            let wanted = ("resourceAttributes", attributes);
            match self.may(user, verb, subresource, wanted).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(
                        user = user.name,
                        verb,
                        subresource,
                        error = error.chain(),
                        "failed to review a client's access"
                    );
                    return Err(AccessDenied {
                        status: StatusCode::INTERNAL_SERVER_ERROR,
                        message: format!(
                            "Authorization error (user={}, verb={verb}, resource={resource}, subresource={subresource})",
                            user.name
                        ),
                    });
                }
            }
        }
        Err(AccessDenied {
            status: StatusCode::FORBIDDEN,
            message: format!(
                "Forbidden (user={}, verb={verb}, resource={resource}, subresource(s)=[{}])",
                user.name,
                subresources.join(" ")
            ),
        })
    }

    async fn check_path(
        &self,
        user: &User,
        method: &Method,
        path: &str,
    ) -> Result<(), AccessDenied> {
        if user.groups.iter().any(|group| group == "system:masters") {
            return Ok(());
        }
        let verb = method.as_str().to_ascii_lowercase();
        let wanted = ("nonResourceAttributes", json!({"verb": verb, "path": path}));
        match self.may(user, &verb, path, wanted).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(AccessDenied {
                status: StatusCode::FORBIDDEN,
                message: format!(
                    "forbidden: User \"{}\" cannot {verb} path \"{path}\"",
                    user.name
                ),
            }),
            Err(error) => {
                tracing::warn!(
                    user = user.name,
                    verb,
                    path,
                    error = error.chain(),
                    "failed to review a client's access"
                );
                Err(AccessDenied {
                    status: StatusCode::INTERNAL_SERVER_ERROR,
                    message: format!("Internal Server Error: \"{path}\": {error}"),
                })
            }
        }
    }

    async fn user(
        &self,
        certified: Option<&User>,
        authorization: Option<&str>,
    ) -> Result<User, AccessDenied> {
        if let Some(user) = certified {
            return Ok(user.clone());
        }
        let token = authorization
            .and_then(|text| text.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .filter(|token| !token.is_empty());
        let Some(token) = token else {
            return if self.settings.anonymous {
                Ok(User::anonymous())
            } else {
                Err(unauthorized())
            };
        };
        if !self.settings.webhook_tokens {
            return Err(unauthorized());
        }
        let now = Instant::now();
        let key = token.to_owned();
        let found = match self.tokens.get(&key, now) {
            Some(found) => found,
            None => {
                let found = self.review(token).await.map_err(|error| {
                    tracing::warn!(error = error.chain(), "failed to review a token");
                    unauthorized()
                })?;
                let good_for = if found.is_some() {
                    self.settings.tokens_for
                } else {
                    UNKNOWN_TOKEN.min(self.settings.tokens_for)
                };
                self.tokens.put(key, found.clone(), now + good_for, now);
                found
            }
        };
        found.ok_or_else(unauthorized)
    }

    async fn review(&self, token: &str) -> Result<Option<User>, ClientError> {
        #[derive(Deserialize)]
        struct Review {
            #[serde(default)]
            status: Status,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            authenticated: bool,
            user: User,
            audiences: Vec<String>,
        }
        let audience = self.guarded.audience.map(|it| format!("{it}{}", self.name));
        let mut body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        });
        if let Some(audience) = &audience {
            body["spec"]["audiences"] = json!([audience]);
        }
        let review: Review = self.client.create(&TOKEN_REVIEWS, "", &body).await?;
        let status = review.status;
        // A client of a server without audiences names none, and accepts all tokens.
        let is_for_this = audience.is_none_or(|it| status.audiences.contains(&it));
        Ok((status.authenticated && is_for_this).then_some(status.user))
    }

    /// Whether a user may do that to something, as a review with the `wanted` attributes says.
    async fn may(
        &self,
        user: &User,
        verb: &str,
        what: &str,
        wanted: (&'static str, Value),
    ) -> Result<bool, ClientError> {
        #[derive(Deserialize)]
        struct Review {
            #[serde(default)]
            status: Status,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            allowed: bool,
            denied: bool,
        }
        let now = Instant::now();
        let question = (user.clone(), verb.to_owned(), what.to_owned());
        if let Some(known) = self.rights.get(&question, now) {
            return Ok(known);
        }
        let mut body = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.name,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
            },
        });
        let (kind, attributes) = wanted;
        body["spec"][kind] = attributes;
        let review: Review = self.client.create(&ACCESS_REVIEWS, "", &body).await?;
        let allowed = review.status.allowed && !review.status.denied;
        let good_for = if allowed {
            self.settings.allowed_for
        } else {
            self.settings.denied_for
        };
        self.rights.put(question, allowed, now + good_for, now);
        Ok(allowed)
    }
}

/// Whether a path is one of those, or begins as one that ends with `*`.
fn is_open(open: &[String], path: &str) -> bool {
    open.iter().any(|it| match it.strip_suffix('*') {
        Some(begin) => path.starts_with(begin),
        None => it == path,
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt, Full};

    use super::*;

    fn refusal(refused: &AccessDenied) -> Response<Body> {
        crate::text(refused.status, refused.message.clone())
    }

    fn guarded(audience: Option<&'static str>, rights: Rights) -> GuardedPort {
        GuardedPort {
            audience,
            header: "authorization",
            rights,
            refusal,
        }
    }

    /// Paths are subresources of a node: the first word, or `proxy`.
    fn node() -> GuardedPort {
        let attributes: fn(&Method, &str) -> _ = |_, path| match path {
            "/metrics" => ("get", vec!["metrics"]),
            _ => ("get", vec!["pods", "proxy"]),
        };
        guarded(
            None,
            Rights::Resource {
                group: "",
                resource: "nodes",
                attributes,
            },
        )
    }

    /// An API that knows one token, and lets its user read metrics. Counts.
    fn api(asked: Arc<AtomicUsize>) -> Client {
        let service = tower::service_fn(move |request: Request<control_client::RequestBody>| {
            let asked = asked.clone();
            async move {
                asked.fetch_add(1, Ordering::Relaxed);
                let tokens = request.uri().path().ends_with("tokenreviews");
                let bytes = request.into_body().collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&bytes).unwrap();
                let status = if tokens {
                    json!({"authenticated": body["spec"]["token"] == "good",
                        "user": {"username": "prom", "groups": ["scrapers"]}})
                } else {
                    assert_eq!(body["spec"]["resourceAttributes"]["name"], "n1");
                    assert_eq!(body["spec"]["groups"][0], "scrapers");
                    let wanted = &body["spec"]["resourceAttributes"]["subresource"];
                    json!({"allowed": wanted == "metrics"})
                };
                let text = json!({"status": status}).to_string();
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
            }
        });
        Client::in_process(service, ())
    }

    #[tokio::test]
    async fn a_token_opens_what_the_api_says_and_the_api_is_asked_once() {
        let asked = Arc::new(AtomicUsize::new(0));
        let access = Access::new(node(), api(asked.clone()), "n1", Settings::default());
        let ask = |token: &'static str, path: &'static str| {
            let access = access.clone();
            async move {
                let answer = access.check(None, Some(token), &Method::GET, path).await;
                answer.map_err(|refused| (refused.status.as_u16(), refused.message))
            }
        };
        for _ in 0..3 {
            assert_eq!(ask("Bearer good", "/metrics").await, Ok(()));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        let (status, message) = ask("Bearer good", "/pods").await.unwrap_err();
        assert_eq!(status, 403);
        assert_eq!(
            message,
            "Forbidden (user=prom, verb=get, resource=nodes, subresource(s)=[pods proxy])"
        );
        assert_eq!(ask("Bearer bad", "/metrics").await.unwrap_err().0, 401);
        assert_eq!(ask("Basic x", "/metrics").await.unwrap_err().0, 401);
        let before = asked.load(Ordering::Relaxed);
        assert_eq!(ask("Bearer bad", "/metrics").await.unwrap_err().0, 401);
        assert_eq!(asked.load(Ordering::Relaxed), before);
    }

    #[tokio::test]
    async fn a_token_for_something_else_opens_nothing() {
        let flows = Rights::Resource {
            group: "example.org",
            resource: "flows",
            attributes: |_, _| ("get", vec![""]),
        };
        let flows = guarded(Some("flows/"), flows);
        // Says of each token that it is good, for what stands in it; and lets `web` alone.
        let service = tower::service_fn(|request: Request<control_client::RequestBody>| async {
            let bytes = request.into_body().collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&bytes).unwrap();
            let status = if body["kind"] == "TokenReview" {
                assert_eq!(body["spec"]["audiences"], json!(["flows/n1"]));
                let token = body["spec"]["token"].as_str().unwrap();
                let (user, audience) = token.split_once('@').unwrap();
                let audiences: Vec<_> = audience.split(',').filter(|it| !it.is_empty()).collect();
                json!({"authenticated": true, "user": {"username": user}, "audiences": audiences})
            } else {
                let wanted = json!({"verb": "get", "group": "example.org", "version": "v1",
                    "resource": "flows", "subresource": "", "name": "n1"});
                assert_eq!(body["spec"]["resourceAttributes"], wanted);
                json!({"allowed": body["spec"]["user"] == "web"})
            };
            let text = json!({"status": status}).to_string();
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
        });
        let client = Client::in_process(service, ());
        let access = Access::new(flows, client, "n1", Settings::default());
        for (token, status) in [
            ("Bearer web@flows/n1", 0),
            ("Bearer web@api,flows/n1", 0),
            ("Bearer web@flows/n2", 401),
            ("Bearer web@api", 401),
            // An authenticator that knows of no audiences.
            ("Bearer web@", 401),
            ("Bearer job@flows/n1", 403),
        ] {
            let checked = access
                .check(None, Some(token), &Method::GET, "/flows")
                .await;
            let said = checked.map_or_else(|refused| refused.status.as_u16(), |()| 0);
            assert_eq!(said, status, "{token}");
        }
    }

    #[tokio::test]
    async fn without_reviews_whoever_is_known_may_and_nobody_else() {
        let settings = Settings {
            webhook_rights: false,
            webhook_tokens: false,
            ..Settings::default()
        };
        let access = Access::new(node(), api(Arc::default()), "n1", settings.clone());
        let user = User::certified("me", []);
        let get = Method::GET;
        assert!(access.check(Some(&user), None, &get, "/pods").await.is_ok());
        let nobody = access.check(None, Some("Bearer good"), &get, "/pods");
        assert_eq!(nobody.await.unwrap_err().status, StatusCode::UNAUTHORIZED);
        let open = Settings {
            anonymous: true,
            ..settings
        };
        let access = Access::new(node(), api(Arc::default()), "n1", open);
        assert!(access.check(None, None, &get, "/pods").await.is_ok());
    }

    #[tokio::test]
    async fn a_path_is_open_or_asked_for_by_its_verb_and_masters_need_no_review() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let service = tower::service_fn(move |request: Request<control_client::RequestBody>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async {
                let bytes = request.into_body().collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&bytes).unwrap();
                let spec = &body["spec"];
                let is_reader = spec["user"] == "reader"
                    && spec["nonResourceAttributes"] == json!({"verb": "get", "path": "/metrics"});
                let text = json!({"status": {"allowed": is_reader}}).to_string();
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
            }
        });
        let open = ["/healthz", "/open/*"].map(str::to_owned).to_vec();
        let settings = Settings {
            anonymous: true,
            ..Settings::default()
        };
        let guarded = guarded(None, Rights::Paths { open });
        let access = Access::new(guarded, Client::in_process(service, ()), "", settings);
        let ask = |user: Option<User>, method: Method, path: &'static str| {
            let access = access.clone();
            async move {
                let answer = access.check(user.as_ref(), None, &method, path).await;
                answer.map_err(|refused| (refused.status.as_u16(), refused.message))
            }
        };
        assert_eq!(ask(None, Method::GET, "/healthz").await, Ok(()));
        assert_eq!(ask(None, Method::GET, "/open/a").await, Ok(()));
        let masters = User::certified("root", ["system:masters".to_owned()]);
        assert_eq!(ask(Some(masters), Method::GET, "/metrics").await, Ok(()));
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        let no = "forbidden: User \"system:anonymous\" cannot get path \"/healthz/x\"";
        let answer = ask(None, Method::GET, "/healthz/x").await;
        assert_eq!(answer, Err((403, no.to_owned())));
        let reader = || Some(User::certified("reader", []));
        assert_eq!(ask(reader(), Method::GET, "/metrics").await, Ok(()));
        let posted = ask(reader(), Method::POST, "/metrics").await;
        assert_eq!(posted.unwrap_err().0, 403);
    }
}
