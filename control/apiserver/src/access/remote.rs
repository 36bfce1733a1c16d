//! Other servers that are asked who somebody is or what he may do: found by a
//! kubeconfig, asked by `POST` of a review.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_pki::Issued;
use control_types::value::Value;
use control_types::yaml;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};

use crate::body;
use crate::service_client::{ServiceClient, Trust, explain, service_client, tls};

/// How large an answer may be.
const MOST: usize = 4 * 1024 * 1024;
/// How often a server is asked that cannot answer, and how long is waited before
/// the second time; then half as long again each time.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// One server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Remote {
    client: ServiceClient,
    uri: Uri,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    pause: Duration,
}

/// Why a kubeconfig names no server that can be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file has another form.
    #[error("{} cannot be used: {why}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Remote")
            .field("uri", &self.uri)
            .finish_non_exhaustive()
    }
}

// === impl Remote ===

impl Remote {
    /// The server of a kubeconfig's current context.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn load(path: &Path, timeout: Duration) -> Result<Self, RemoteError> {
        let text = std::fs::read(path).map_err(|source| RemoteError::File {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path.parent().unwrap_or(Path::new("")), timeout).map_err(|why| {
            RemoteError::Kubeconfig {
                path: path.to_owned(),
                why,
            }
        })
    }

    /// The same server, with this pause before it is asked a second time.
    pub fn pausing(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    fn parse(text: &[u8], folder: &Path, timeout: Duration) -> Result<Self, String> {
        let config = yaml::read(text).map_err(|error| error.to_string())?.value;
        let named = |list: &str, of: &str, name: &str| {
            let mut all = config.items_at(&[list]).iter();
            all.find(|entry| entry.str_at(&["name"]) == Some(name))
                .and_then(|entry| entry.get(of).cloned())
        };
        let context = config.str_at(&["current-context"]).unwrap_or_default();
        let context = named("contexts", "context", context)
            .ok_or_else(|| format!("it has no context {context:?}"))?;
        let of = |field: &str| context.str_at(&[field]).unwrap_or_default().to_owned();
        let cluster = named("clusters", "cluster", &of("cluster"))
            .ok_or_else(|| format!("it has no cluster {:?}", of("cluster")))?;
        let user = named("users", "user", &of("user")).unwrap_or_default();
        let text = |value: &Value, data: &str, file: &str| -> Result<Option<String>, String> {
            if let Some(data) = value.str_at(&[data]).filter(|data| !data.is_empty()) {
                let bytes = STANDARD.decode(data).map_err(|error| error.to_string())?;
                return String::from_utf8(bytes)
                    .map(Some)
                    .map_err(|error| error.to_string());
            }
            let Some(file) = value.str_at(&[file]).filter(|file| !file.is_empty()) else {
                return Ok(None);
            };
            let path = folder.join(file);
            let text = std::fs::read_to_string(&path);
            text.map(Some)
                .map_err(|error| format!("{}: {error}", path.display()))
        };
        let authority = text(
            &cluster,
            "certificate-authority-data",
            "certificate-authority",
        )?;
        let cert_pem = text(&user, "client-certificate-data", "client-certificate")?;
        let key_pem = text(&user, "client-key-data", "client-key")?;
        let own = cert_pem
            .zip(key_pem)
            .map(|(cert_pem, key_pem)| Issued { cert_pem, key_pem });
        let blind = cluster.bool_at(&["insecure-skip-tls-verify"]) == Some(true);
        let trust = match &authority {
            _ if blind => Trust::Anybody,
            Some(pem) => Trust::Bundle(pem),
            None => Trust::System,
        };
        let tls = tls(trust, own.as_ref()).map_err(|error| error.to_string())?;
        let server = cluster.str_at(&["server"]).unwrap_or_default();
        let (uri, host) = https(server)?;
        let name = cluster.str_at(&["tls-server-name"]).unwrap_or(&host);
        let client = service_client(tls, name).map_err(|error| error.to_string())?;
        let authorization = match text(&user, "", "tokenFile")? {
            Some(token) => Some(format!("Bearer {}", token.trim())),
            None => user
                .str_at(&["token"])
                .map(|token| format!("Bearer {token}")),
        };
        let authorization = match (authorization, user.str_at(&["username"])) {
            (None, Some(name)) => {
                let password = user.str_at(&["password"]).unwrap_or_default();
                Some(format!(
                    "Basic {}",
                    STANDARD.encode(format!("{name}:{password}"))
                ))
            }
            (token, _) => token,
        };
        let authorization = authorization
            .map(|text| HeaderValue::from_str(&text))
            .transpose()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            client,
            uri,
            authorization,
            timeout,
            pause: PAUSE,
        })
    }

    /// Posts a review and returns the answer; a server that is overburdened or
    /// broken is asked again a few times.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn review(&self, review: &Value) -> Result<Value, String> {
        let bytes = bytes::Bytes::from(review.to_vec());
        let mut pause = self.pause;
        for attempt in 1.. {
            let asked = tokio::time::timeout(self.timeout, self.post(bytes.clone())).await;
            let (again, why) = match asked {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(failed)) => failed,
                Err(_) => (
                    false,
                    format!("Post {:?}: context deadline exceeded", self.uri.to_string()),
                ),
            };
            if !again || attempt >= ATTEMPTS {
                return Err(why);
            }
            tokio::time::sleep(pause).await;
            pause = pause * 3 / 2;
        }
        unreachable!("the loop ends by returning")
    }

    /// Asks once; tells whether to ask again.
    async fn post(&self, bytes: bytes::Bytes) -> Result<Value, (bool, String)> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.uri.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request = request
            .body(body::full(bytes))
            .map_err(|error| (false, error.to_string()))?;
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| {
            (
                false,
                format!("Post {:?}: {}", self.uri.to_string(), explain(&error)),
            )
        })?;
        let code = answer.status();
        let body = Limited::new(answer.into_body(), MOST).collect().await;
        let body = body.map_err(|error| (true, error.to_string()))?.to_bytes();
        if !code.is_success() {
            let again = matches!(
                code,
                StatusCode::INTERNAL_SERVER_ERROR
                    | StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::GATEWAY_TIMEOUT
            );
            let told = String::from_utf8_lossy(&body[..body.len().min(1024)]).into_owned();
            let why = format!("the server answered {}: {}", code.as_u16(), told.trim());
            return Err((again, why));
        }
        Value::from_slice(&body)
            .map_err(|error| (false, format!("the answer cannot be read: {error}")))
    }
}

/// The address and the host of an `https` URL.
pub(super) fn https(url: &str) -> Result<(Uri, String), String> {
    let uri: Uri = url
        .parse()
        .map_err(|error| format!("{url:?} is no URL: {error}"))?;
    if uri.scheme_str() != Some("https") {
        return Err(format!("{url:?}: only https servers are asked"));
    }
    let host = uri.host().unwrap_or_default();
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    Ok((uri, host))
}
