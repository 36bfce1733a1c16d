//! A server that a kubeconfig file names: those that audit events are sent to, and that
//! are asked who somebody is, what he may do and which images may run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use control_pki::CertificateKeyPair;
use control_types::value::Value;
use control_types::yaml;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Limited};

use super::client::{self, HttpClient, explain};
use super::dial::Dialer;
use super::trust::{Trust, tls};
use control_request::body;

/// How much of an answer is read, in bytes.
const ANSWER: usize = 4 * 1024 * 1024;
/// How much of a refusal is shown, in bytes.
const SHOWN: usize = 1024;

/// Why such a server cannot be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no kubeconfig, or lacks something.
    #[error("`{}` is no kubeconfig that can be used: {why}", path.display())]
    Config {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Certificates or keys cannot be used.
    #[error("the certificates of `{}` cannot be used", path.display())]
    Certificates {
        /// Of which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: control_pki::Error,
    },
    /// It was not asked or did not answer, in the words of Go's HTTP client.
    #[error("Post {url:?}: {why}")]
    Unanswered {
        /// Who.
        url: String,
        /// Why.
        why: String,
    },
    /// It answered that it cannot.
    #[error("the server answered {code}{}", shown(told))]
    Refused {
        /// HTTP's code.
        code: u16,
        /// The beginning of what it said.
        told: String,
    },
    /// Its answer broke off, or is too large.
    #[error("the answer of {url:?} cannot be read: {why}")]
    Answer {
        /// Who.
        url: String,
        /// What is wrong.
        why: String,
    },
}

fn shown(told: &str) -> String {
    if told.is_empty() {
        String::new()
    } else {
        format!(": {told}")
    }
}

/// A server, and how it is spoken to.
#[derive(Clone)]
pub struct Remote {
    uri: Uri,
    authorization: Option<HeaderValue>,
    client: HttpClient,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Remote")
            .field("uri", &self.uri)
            .finish_non_exhaustive()
    }
}

/// A kubeconfig's current context.
struct Config<'a> {
    path: &'a Path,
    cluster: Value,
    user: Value,
}

// === impl Config ===

impl<'a> Config<'a> {
    fn read(path: &'a Path) -> Result<Self, Error> {
        let bytes = file(path)?;
        let wrong = |why: String| Error::Config {
            path: path.to_owned(),
            why,
        };
        let config = yaml::read(&bytes)
            .map_err(|error| wrong(error.to_string()))?
            .value;
        let named = |list: &str, name: &str, member: &str| {
            let all = config.items_at(&[list]);
            let found = all.iter().find(|one| one.str_at(&["name"]) == Some(name));
            found.and_then(|one| one.get(member)).cloned()
        };
        let name = config.str_at(&["current-context"]).unwrap_or_default();
        let context = named("contexts", name, "context")
            .ok_or_else(|| wrong(format!("there is no context `{name}`")))?;
        let of = |key: &str| context.str_at(&[key]).unwrap_or_default().to_owned();
        let cluster = of("cluster");
        Ok(Self {
            path,
            cluster: named("clusters", &cluster, "cluster")
                .ok_or_else(|| wrong(format!("there is no cluster `{cluster}`")))?,
            user: named("users", &of("user"), "user").unwrap_or_else(Value::object),
        })
    }

    /// What stands in the file (`KEY-data`, base64) or in another that it names.
    fn data(&self, of: &Value, key: &str) -> Result<Option<String>, Error> {
        let wrong = |why: &str| Error::Config {
            path: self.path.to_owned(),
            why: format!("{key}: {why}"),
        };
        if let Some(data) = of.str_at(&[&format!("{key}-data")]) {
            let bytes = STANDARD
                .decode(data)
                .map_err(|_| wrong("the data is no base64"))?;
            let text = String::from_utf8(bytes).map_err(|_| wrong("the data is no PEM"))?;
            return Ok(Some(text));
        }
        let Some(path) = of.str_at(&[key]).filter(|path| !path.is_empty()) else {
            return Ok(None);
        };
        let path = self.path.parent().unwrap_or(Path::new("")).join(path);
        let text = String::from_utf8(file(&path)?).map_err(|_| wrong("the file is no PEM"))?;
        Ok(Some(text))
    }
}

fn file(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}

// === impl Remote ===

impl Remote {
    /// The server of a kubeconfig's current context, reached by `dialer`.
    ///
    /// # Errors
    /// When the file cannot be read or used.
    pub fn open(path: &Path, dialer: Dialer) -> Result<Self, Error> {
        let config = Config::read(path)?;
        let wrong = |why: String| Error::Config {
            path: path.to_owned(),
            why,
        };
        let cluster = &config.cluster;
        let server = cluster.str_at(&["server"]).unwrap_or_default();
        let (uri, host) = client::parse(server, &["https", "http"])
            .map_err(|why| wrong(format!("server: {}", explain(&why))))?;
        let client = if uri.scheme_str() == Some("https") {
            let authority = config.data(cluster, "certificate-authority")?;
            let blind = cluster.bool_at(&["insecure-skip-tls-verify"]) == Some(true);
            let trust = Trust::from_config(authority.as_deref(), blind);
            let certificate = config.data(&config.user, "client-certificate")?;
            let own = match (certificate, config.data(&config.user, "client-key")?) {
                (Some(cert_pem), Some(key_pem)) => Some(CertificateKeyPair { cert_pem, key_pem }),
                _ => None,
            };
            let tls = tls(trust, own.as_ref()).map_err(|source| Error::Certificates {
                path: path.to_owned(),
                source,
            })?;
            let name = cluster.str_at(&["tls-server-name"]).unwrap_or(&host);
            HttpClient::over_tls(dialer, tls, name).map_err(|error| wrong(error.to_string()))?
        } else {
            HttpClient::in_clear(dialer)
        };
        let authorization = authorization(&config)?
            .map(|text| {
                let mut value = HeaderValue::from_str(&text)
                    .map_err(|_| wrong("user: the credentials fit in no header".into()))?;
                value.set_sensitive(true);
                Ok(value)
            })
            .transpose()?;
        Ok(Self {
            uri,
            authorization,
            client,
        })
    }

    /// The error for an answer that cannot be read.
    pub(crate) fn unreadable(&self, why: String) -> Error {
        let url = self.uri.to_string();
        Error::Answer { url, why }
    }

    /// Sends JSON and gives what a server answers that takes it.
    ///
    /// # Errors
    /// When there is no answer within `time`, or it is of another code than 2xx.
    pub async fn post(&self, json: Bytes, time: Duration) -> Result<Bytes, Error> {
        let unanswered = |why: String| Error::Unanswered {
            url: self.uri.to_string(),
            why,
        };
        let mut request = Request::post(self.uri.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request = request
            .body(body::full(json))
            .map_err(|error| unanswered(error.to_string()))?;
        let asked = async {
            let answer = self.client.request(request).await;
            let answer = answer.map_err(|error| unanswered(explain(&error)))?;
            let status = answer.status();
            let bytes = Limited::new(answer.into_body(), ANSWER).collect().await;
            let bytes = bytes
                .map_err(|error| self.unreadable(explain(&*error)))?
                .to_bytes();
            if status.is_success() {
                return Ok(bytes);
            }
            let told = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
            Err(Error::Refused {
                code: status.as_u16(),
                told: told.trim().to_owned(),
            })
        };
        tokio::time::timeout(time, asked)
            .await
            .unwrap_or_else(|_| Err(unanswered("context deadline exceeded".to_owned())))
    }
}

fn authorization(config: &Config<'_>) -> Result<Option<String>, Error> {
    let user = &config.user;
    let text = |key: &str| user.str_at(&[key]).filter(|text| !text.is_empty());
    if let Some(path) = text("tokenFile") {
        let path = config.path.parent().unwrap_or(Path::new("")).join(path);
        let token = String::from_utf8_lossy(&file(&path)?).trim().to_owned();
        return Ok(Some(format!("Bearer {token}")));
    }
    if let Some(token) = text("token") {
        return Ok(Some(format!("Bearer {token}")));
    }
    Ok(text("username").map(|name| {
        let both = format!("{name}:{}", text("password").unwrap_or_default());
        format!("Basic {}", STANDARD.encode(both))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Result<Remote, Error> {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("config");
        std::fs::write(dir.path().join("token"), "abc\n").expect("written");
        std::fs::write(&path, text).expect("written");
        Remote::open(&path, Dialer::default())
    }

    fn config(server: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\nclusters: [{{name: k, cluster: {{server: \"{server}\"}}}}]\nusers: [{{name: u, user: {user}}}]\n"
        )
    }

    #[tokio::test]
    async fn server_and_credentials_of_the_current_context_are_used() {
        for (user, expected) in [
            ("{}", None),
            ("{token: xyz}", Some("Bearer xyz")),
            ("{tokenFile: token}", Some("Bearer abc")),
            ("{token: xyz, tokenFile: token}", Some("Bearer abc")),
            ("{username: a, password: b}", Some("Basic YTpi")),
        ] {
            let remote = open(&config("http://127.0.0.1:1/audit", user)).expect("usable");
            assert_eq!(remote.uri.path(), "/audit");
            let header = remote.authorization.as_ref();
            assert_eq!(header.map(|value| value.to_str().expect("text")), expected);
            let error = remote.post(Bytes::new(), Duration::from_secs(5)).await;
            assert!(matches!(error, Err(Error::Unanswered { .. })));
        }
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let missing =
            Remote::open(Path::new("/nowhere/config"), Dialer::default()).expect_err("no file");
        assert!(missing.to_string().contains("/nowhere/config"));
        for (text, word) in [
            ("{}", "no context"),
            (
                "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]",
                "no cluster `k`",
            ),
            (&config("", "{}"), "server"),
            (
                &config("https://a/", "{client-certificate-data: \"*\"}"),
                "base64",
            ),
            (&config("ftp://a/", "{}"), "only https and http"),
        ] {
            let error = open(text).expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
