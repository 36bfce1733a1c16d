//! Asking webhooks: servers of the users' own that are sent an object by POST and
//! answer with one.
//!
//! Where they are is said by a `clientConfig` ([`ClientConfig::read`]), as a URL or as
//! a Service. A Service is asked at one of
//! its endpoints, never at its cluster address: this server need not run where Services
//! are translated. Connections are kept and shared; HTTP/2 is spoken with who speaks
//! it. What fails is told in the words of kube-apiserver, on which people search.

pub mod words;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use control_types::status::{Status, quote};
use control_types::value::Value;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, Response, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::ServiceLister;
use crate::egress::client::HttpClient;
use crate::egress::trust::{Trust, tls};
use crate::egress::{Egress, Kind};
use crate::service_resolver;
use control_request::body;

/// The largest answer that is read: an object of the largest size, before and after
/// a conversion of many, has room in it.
const LARGEST: usize = 64 << 20;
/// At so many endpoints of a Service it is tried to connect.
const ENDPOINTS: usize = 3;
/// So much of a text that is no object is shown.
const SHOWN: usize = 2048;

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookLocation {
    /// At a URL.
    Url(String),
    /// Behind a Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The path, with its slash, or empty.
        path: String,
        /// The Service's port.
        port: u16,
    },
}

/// Where a webhook is and whom one believes to be it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// Where.
    pub place: WebhookLocation,
    /// PEM of the authorities believed; empty for those of this machine.
    pub authorities: String,
}

/// Why a webhook has no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It says nowhere where it is.
    #[error("webhook configuration must have either service or URL")]
    NoPlace,
    /// Its URL is none.
    #[error("Unparsable URL: {0}")]
    Url(String),
    /// Its authorities cannot be read.
    #[error("unable to load root certificates: {0}")]
    Authorities(String),
    /// Its host has no name that a certificate can have.
    #[error("{0}")]
    Name(String),
}

/// Why a webhook gave no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// It could not be asked, or broke off.
    #[error("Post {}: {why}", quote(.url))]
    Failed {
        /// Where it was asked.
        url: String,
        /// What went wrong.
        why: String,
    },
    /// It answered, but with an error.
    #[error("{0}")]
    Refused(Status),
    /// It answered with something else than an object.
    #[error("{0}")]
    Answer(String),
}

/// A webhook that can be asked. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    target: Arc<WebhookTarget>,
    http: HttpClient,
}

#[derive(Debug)]
struct WebhookTarget {
    place: WebhookLocation,
    /// `https://host:port/path`, as errors name it.
    url: String,
    path: String,
}

// === impl ClientConfig ===

impl ClientConfig {
    /// Reads the `clientConfig` of a webhook.
    ///
    /// # Errors
    /// When it says nowhere where the webhook is.
    pub fn read(config: &Value) -> Result<Self, ConfigError> {
        let text = |path: &[&str]| config.str_at(path).unwrap_or_default().to_owned();
        let service = config.get("service").filter(|service| !service.is_null());
        let place = match (service, config.str_at(&["url"])) {
            (Some(_), _) => WebhookLocation::Service {
                namespace: text(&["service", "namespace"]),
                name: text(&["service", "name"]),
                path: text(&["service", "path"]),
                port: config
                    .i64_at(&["service", "port"])
                    .and_then(|port| u16::try_from(port).ok())
                    .unwrap_or(443),
            },
            (None, Some(url)) if !url.is_empty() => WebhookLocation::Url(url.to_owned()),
            _ => return Err(ConfigError::NoPlace),
        };
        // Bytes are base64 within objects.
        let authorities = STANDARD
            .decode(text(&["caBundle"]))
            .map_err(|error| ConfigError::Authorities(error.to_string()))?;
        Ok(Self {
            place,
            authorities: String::from_utf8_lossy(&authorities).into_owned(),
        })
    }

    /// A client of it. A Service is reached as all that the cluster runs, a URL as a
    /// part of the control plane.
    ///
    /// # Errors
    /// When the URL or the authorities cannot be used.
    pub fn client(&self, egress: &Egress) -> Result<Client, ConfigError> {
        let (url, server_name, path, kind) = match &self.place {
            WebhookLocation::Service {
                namespace,
                name,
                path,
                port,
            } => {
                let server_name = service_resolver::server_name(namespace, name);
                let url = format!("https://{server_name}:{port}{path}");
                (url, server_name, path.clone(), Kind::Cluster)
            }
            WebhookLocation::Url(text) => {
                let uri: Uri = text
                    .parse()
                    .map_err(|error| ConfigError::Url(format!("{error}")))?;
                let host = uri
                    .host()
                    .ok_or_else(|| ConfigError::Url("host must be specified".into()))?;
                let host = host.trim_matches(['[', ']']).to_owned();
                (
                    text.clone(),
                    host,
                    uri.path().to_owned(),
                    Kind::ControlPlane,
                )
            }
        };
        let bundle = Some(self.authorities.as_str()).filter(|text| !text.trim().is_empty());
        let tls = tls(Trust::from_config(bundle, false), None)
            .map_err(|error| ConfigError::Authorities(error.to_string()))?;
        let http = HttpClient::over_tls(egress.to(kind), tls, &server_name)
            .map_err(|error| ConfigError::Name(error.to_string()))?;
        Ok(Client {
            target: Arc::new(WebhookTarget {
                place: self.place.clone(),
                url,
                path,
            }),
            http,
        })
    }
}

// === impl Client ===

impl Client {
    /// Sends an object and reads the answer, which must be an object of one kind or
    /// another.
    ///
    /// # Errors
    /// When there is no answer within `timeout`, or it is not a good one.
    pub async fn post(
        &self,
        services: &dyn ServiceLister,
        object: Bytes,
        timeout: Duration,
    ) -> Result<Value, Error> {
        // The webhook learns how long it is waited for, in whole seconds.
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        let query = format!("?timeout={seconds}s");
        self.post_with(services, object, timeout, &query).await
    }

    /// As [`Client::post`], but the webhook is not told how long it is waited for.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub async fn post_quietly(
        &self,
        services: &dyn ServiceLister,
        object: Bytes,
        timeout: Duration,
    ) -> Result<Value, Error> {
        self.post_with(services, object, timeout, "").await
    }

    async fn post_with(
        &self,
        services: &dyn ServiceLister,
        object: Bytes,
        timeout: Duration,
        query: &str,
    ) -> Result<Value, Error> {
        let answered = tokio::time::timeout(timeout, async {
            let response = self.send(services, object, query).await?;
            read(response).await
        });
        answered
            .await
            .unwrap_or_else(|_| Err(self.failed(query, "context deadline exceeded".into())))
    }

    async fn send(
        &self,
        services: &dyn ServiceLister,
        object: Bytes,
        query: &str,
    ) -> Result<Response<Incoming>, Error> {
        let WebhookTarget { place, path, .. } = &*self.target;
        let addresses = match place {
            WebhookLocation::Url(url) => vec![authority(url)],
            WebhookLocation::Service {
                namespace,
                name,
                port,
                ..
            } => {
                service_resolver::resolve(services, namespace, name, i64::from(*port))
                    .map_err(|error| self.failed(query, error.to_string()))?
                    .addresses
            }
        };
        let mut why = String::new();
        for address in addresses.iter().take(ENDPOINTS) {
            let slash = if path.starts_with('/') { "" } else { "/" };
            let uri = format!("https://{address}{slash}{path}{query}");
            let request = request(&uri, object.clone())
                .map_err(|error| self.failed(query, error.to_string()))?;
            match self.http.request(request).await {
                Ok(response) => return Ok(response),
                Err(error) => {
                    why = words::of_client(&error, address);
                    // Only where nothing can have been received yet.
                    if !error.is_connect() {
                        break;
                    }
                }
            }
        }
        Err(self.failed(query, why))
    }

    fn failed(&self, query: &str, why: String) -> Error {
        Error::Failed {
            url: format!("{}{query}", self.target.url),
            why,
        }
    }
}

fn request(uri: &str, object: Bytes) -> Result<Request<body::Body>, http::Error> {
    Request::builder()
        .method(Method::POST)
        .uri(uri)
        .header(ACCEPT, "application/json, */*")
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, "kube-apiserver-admission")
        .body(body::full(object))
}

/// Host and port of a URL.
fn authority(url: &str) -> String {
    let uri: Uri = url.parse().unwrap_or_default();
    match (uri.host(), uri.port_u16()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => format!("{host}:443"),
        (None, _) => String::new(),
    }
}

async fn read(response: Response<Incoming>) -> Result<Value, Error> {
    let (parts, mut body) = response.into_parts();
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Error::Answer(format!(
                "unexpected error when reading response body. Please retry. Original error: {error}"
            ))
        })?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > LARGEST {
            return Err(Error::Answer(format!(
                "the webhook's answer is larger than {LARGEST} bytes"
            )));
        }
        bytes.extend_from_slice(&data);
    }
    let code = parts.status.as_u16();
    let media = parts
        .headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if !(200..=206).contains(&code) {
        return Err(Error::Refused(refusal(code, media, &bytes)));
    }
    if bytes.is_empty() {
        let media = if media.is_empty() {
            "application/json"
        } else {
            media
        };
        return Err(Error::Answer(format!(
            "0-length response with status code: {code} and content type: {media}"
        )));
    }
    let object = match Value::from_slice(&bytes) {
        Ok(object) => object,
        // What is no JSON may be YAML.
        Err(error) => control_strategy::decode::from_yaml(&bytes).map_err(|_| {
            Error::Answer(format!(
                "couldn't get version/kind; json parse error: {error}"
            ))
        })?,
    };
    if object.is_null() {
        // As Go has it, null says nothing about any field.
        return Ok(Value::object());
    }
    if object.as_object().is_none() {
        return Err(Error::Answer(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            object.type_name()
        )));
    }
    if object.str_at(&["kind"]) == Some("Status") && object.str_at(&["status"]) != Some("Success") {
        return Err(Error::Refused(Status::from_value(&object)));
    }
    Ok(object)
}

/// An answer that is an error: a `Status`, if the body is one, else what the code means.
fn refusal(code: u16, media: &str, bytes: &[u8]) -> Status {
    if let Ok(object) = Value::from_slice(bytes)
        && object.str_at(&["kind"]) == Some("Status")
        && object.str_at(&["status"]) == Some("Failure")
    {
        return Status::from_value(&object);
    }
    let text = if media.is_empty() || media.starts_with("text/") {
        let shown = &bytes[..bytes.len().min(SHOWN)];
        String::from_utf8_lossy(shown).trim().to_owned()
    } else {
        "unknown".to_owned()
    };
    words::of_code(code, &text)
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn a_place_is_a_service_or_a_url() {
        let service = value!({
            "service": {"namespace": "n", "name": "s", "path": "/p"},
            "caBundle": "YWJj"
        });
        assert_eq!(
            ClientConfig::read(&service),
            Ok(ClientConfig {
                place: WebhookLocation::Service {
                    namespace: "n".into(),
                    name: "s".into(),
                    path: "/p".into(),
                    port: 443
                },
                authorities: "abc".into(),
            })
        );
        let url = value!({"url": "https://example.com/p"});
        assert_eq!(
            ClientConfig::read(&url).map(|config| config.place),
            Ok(WebhookLocation::Url("https://example.com/p".into()))
        );
        assert_eq!(
            ClientConfig::read(&Value::object()),
            Err(ConfigError::NoPlace)
        );
        assert_eq!(authority("https://[::1]/x"), "[::1]:443");
        assert_eq!(authority("https://example.com:8443"), "example.com:8443");
    }

    #[test]
    fn refusals_are_told_by_their_status_or_their_code() {
        let status =
            br#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","code":409}"#;
        assert_eq!(refusal(409, "application/json", status).message, "no");
        assert_eq!(
            refusal(500, "text/plain", b"boom\n").message,
            "an error on the server (\"boom\") has prevented the request from succeeding"
        );
        assert_eq!(
            refusal(404, "application/json", b"{}").message,
            "the server could not find the requested resource"
        );
        assert_eq!(
            refusal(418, "text/html", b"teapot").message,
            "the server responded with the status code 418 but did not return more information"
        );
    }
}
