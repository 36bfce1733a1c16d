//! Who asks the node, and whether they may: the kubelet's way.
//!
//! A client is who its certificate or its bearer token says; tokens are held
//! against the API (TokenReview), and so are rights, as those to `nodes/…` of
//! this node (SubjectAccessReview). Answers are kept for a while. The API
//! server itself and administrators need no review, so that logs can be read
//! and commands run while reviews cannot be had.
//!
//! Subresources: <https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/>
//! with the finer ones of KEP-2862.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control_client::{Client, Resource};
use http::{Method, StatusCode};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::json;

use crate::settings::Access as Settings;

/// Most answers of one kind that are kept.
const MOST: usize = 4096;

/// How long it is kept that a token is nobody's.
const UNKNOWN_TOKEN: Duration = Duration::from_secs(10);

/// Whoever asks.
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
    /// What else was found out.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Whoever has a certificate of this name and these groups.
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

/// The verb of a request, and the subresources of the node of which one has to
/// be allowed.
#[must_use]
pub fn attributes(method: &Method, path: &str) -> (&'static str, Vec<&'static str>) {
    let verb = match *method {
        Method::POST => "create",
        Method::GET => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    };
    let first = path.trim_start_matches('/').split('/').next();
    let subresources = match first.unwrap_or_default() {
        "pods" | "runningpods" => vec!["pods", "proxy"],
        "healthz" => vec!["healthz", "proxy"],
        "configz" => vec!["configz", "proxy"],
        "stats" => vec!["stats"],
        "metrics" => vec!["metrics"],
        "logs" => vec!["log"],
        "checkpoint" => vec!["checkpoint"],
        "statusz" => vec!["statusz"],
        "flagz" => vec!["configz"],
        _ => vec!["proxy"],
    };
    (verb, subresources)
}

/// Why a request is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The answer's status.
    pub status: StatusCode,
    /// What it says.
    pub message: String,
}

fn unauthorized() -> Refused {
    Refused {
        status: StatusCode::UNAUTHORIZED,
        message: "Unauthorized".to_owned(),
    }
}

/// Answers that are good for a while.
struct Kept<K, V>(Mutex<FxHashMap<K, (Instant, V)>>);

impl<K: Hash + Eq, V: Clone> Kept<K, V> {
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
        // still full: answers are asked for anew rather than memory used up
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(key, (until, value));
    }
}

/// A question about rights: who, which verb, which subresource.
type Question = (User, &'static str, &'static str);

/// What is guarded: for whom tokens have to be made, and what clients need a right to.
#[derive(Clone, Copy, Debug)]
pub struct Guarded {
    /// What tokens' audience begins with, before the node's name; none: tokens for the
    /// API are taken.
    pub audience: Option<&'static str>,
    /// The header with the token. An API server that passes a request on keeps
    /// `authorization` for itself, and leaves others alone.
    pub header: &'static str,
    /// The resource's API group.
    pub group: &'static str,
    /// The resource; its name is the node's.
    pub resource: &'static str,
    /// The verb of a request, and the subresources of which one has to be allowed; the
    /// empty one is the resource itself.
    pub attributes: fn(&Method, &str) -> (&'static str, Vec<&'static str>),
}

/// A kubelet's port.
pub const KUBELET: Guarded = Guarded {
    audience: None,
    header: "authorization",
    group: "",
    resource: "nodes",
    attributes,
};

/// Decides who may ask the node.
pub struct Access {
    client: Client,
    node: String,
    settings: Settings,
    guarded: Guarded,
    tokens: Kept<String, Option<User>>,
    rights: Kept<Question, bool>,
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
    /// Asks the API of `client` about the node of that name, as its kubelet.
    #[must_use]
    pub fn new(client: Client, node: &str, settings: Settings) -> Arc<Self> {
        Self::to(KUBELET, client, node, settings)
    }

    /// The same, for what else is at the node.
    #[must_use]
    pub fn to(guarded: Guarded, client: Client, node: &str, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            client,
            node: node.to_owned(),
            settings,
            guarded,
            tokens: Kept::new(),
            rights: Kept::new(),
        })
    }

    /// The header with the token.
    pub(super) fn header(&self) -> &'static str {
        self.guarded.header
    }

    /// Whether the request may be served, of a client with this certificate's
    /// name and this text in the [header](Guarded::header).
    ///
    /// # Errors
    /// What to answer instead.
    pub async fn check(
        &self,
        certified: Option<&User>,
        authorization: Option<&str>,
        method: &Method,
        path: &str,
    ) -> Result<(), Refused> {
        let user = self.user(certified, authorization).await?;
        if !self.settings.webhook_rights {
            return Ok(());
        }
        let (verb, subresources) = (self.guarded.attributes)(method, path);
        let resource = self.guarded.resource;
        for subresource in &subresources {
            match self.may(&user, verb, subresource).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(
                        user = user.name,
                        verb,
                        subresource,
                        error,
                        "cannot ask whether a client may"
                    );
                    return Err(Refused {
                        status: StatusCode::INTERNAL_SERVER_ERROR,
                        message: format!(
                            "Authorization error (user={}, verb={verb}, resource={resource}, subresource={subresource})",
                            user.name
                        ),
                    });
                }
            }
        }
        Err(Refused {
            status: StatusCode::FORBIDDEN,
            message: format!(
                "Forbidden (user={}, verb={verb}, resource={resource}, subresource(s)=[{}])",
                user.name,
                subresources.join(" ")
            ),
        })
    }

    async fn user(
        &self,
        certified: Option<&User>,
        authorization: Option<&str>,
    ) -> Result<User, Refused> {
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
                    tracing::warn!(error, "cannot ask whose token it is");
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

    async fn review(&self, token: &str) -> Result<Option<User>, String> {
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
        let audience = self.guarded.audience.map(|it| format!("{it}{}", self.node));
        let mut body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        });
        if let Some(audience) = &audience {
            body["spec"]["audiences"] = json!([audience]);
        }
        let review: Review = self
            .client
            .create(&TOKEN_REVIEWS, "", &body)
            .await
            .map_err(|e| e.chain())?;
        let status = review.status;
        // Who does not know of audiences names none, and takes tokens for anything.
        let is_for_this = audience.is_none_or(|it| status.audiences.contains(&it));
        Ok((status.authenticated && is_for_this).then_some(status.user))
    }

    async fn may(
        &self,
        user: &User,
        verb: &'static str,
        subresource: &'static str,
    ) -> Result<bool, String> {
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
        let question = (user.clone(), verb, subresource);
        if let Some(known) = self.rights.get(&question, now) {
            return Ok(known);
        }
        let body = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.name,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                "resourceAttributes": {
                    "verb": verb,
                    "group": self.guarded.group,
                    "version": "v1",
                    "resource": self.guarded.resource,
                    "subresource": subresource,
                    "name": self.node,
                },
            },
        });
        let review: Review = self
            .client
            .create(&ACCESS_REVIEWS, "", &body)
            .await
            .map_err(|e| e.chain())?;
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[test]
    fn paths_are_subresources_of_the_node() {
        let of = |method, path| attributes(&method, path);
        assert_eq!(
            of(Method::GET, "/metrics/cadvisor"),
            ("get", vec!["metrics"])
        );
        assert_eq!(of(Method::GET, "/pods"), ("get", vec!["pods", "proxy"]));
        assert_eq!(of(Method::GET, "/podsx"), ("get", vec!["proxy"]));
        assert_eq!(of(Method::POST, "/exec/a/b/c"), ("create", vec!["proxy"]));
        assert_eq!(
            of(Method::POST, "/checkpoint/a/b/c"),
            ("create", vec!["checkpoint"])
        );
        assert_eq!(of(Method::GET, "/logs/"), ("get", vec!["log"]));
        assert_eq!(
            of(Method::GET, "/healthz"),
            ("get", vec!["healthz", "proxy"])
        );
    }

    /// An API that knows one token, and lets its user read metrics. Counts.
    fn api(asked: Arc<AtomicUsize>) -> Client {
        let service = tower::service_fn(move |request: Request<control_client::RequestBody>| {
            let asked = asked.clone();
            async move {
                asked.fetch_add(1, Ordering::Relaxed);
                let tokens = request.uri().path().ends_with("tokenreviews");
                let bytes = request.into_body().collect().await.unwrap().to_bytes();
                let body: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
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
        let access = Access::new(api(asked.clone()), "n1", Settings::default());
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
        const GUARDED: Guarded = Guarded {
            audience: Some("flows/"),
            header: "x",
            group: "example.org",
            resource: "flows",
            attributes: |_, _| ("get", vec![""]),
        };
        // Says of each token that it is good, for what stands in it; and lets `web` alone.
        let service = tower::service_fn(|request: Request<control_client::RequestBody>| async {
            let bytes = request.into_body().collect().await.unwrap().to_bytes();
            let body: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
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
        let access = Access::to(GUARDED, client, "n1", Settings::default());
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
        let access = Access::new(api(Arc::default()), "n1", settings.clone());
        let user = User::certified("me", []);
        let get = Method::GET;
        assert!(access.check(Some(&user), None, &get, "/pods").await.is_ok());
        let nobody = access.check(None, Some("Bearer good"), &get, "/pods");
        assert_eq!(nobody.await.unwrap_err().status, StatusCode::UNAUTHORIZED);
        let open = Settings {
            anonymous: true,
            ..settings
        };
        let access = Access::new(api(Arc::default()), "n1", open);
        assert!(access.check(None, None, &get, "/pods").await.is_ok());
    }
}
