//! Backups in a bucket of S3-compatible storage, uploaded in parts: an object is there when
//! its upload is completed.

mod sign;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::runtime::Handle;

use self::sign::{Credentials, Location};
use super::{Place, Sink, Stored};
use crate::{BackupName, Error};

/// How an S3 server is reached. What is not given comes from the variables of AWS' tools.
#[derive(Clone, Debug, Default)]
pub struct S3Options {
    /// The URL of the server; AWS itself unless given.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// A PEM file of the authorities that may have signed the server's certificate; those of
    /// the system unless given.
    pub ca_file: Option<PathBuf>,
}

/// A bucket, or the part of it with a prefix.
pub struct Bucket {
    inner: Arc<Inner>,
}

struct Inner {
    location: Location,
    bucket: String,
    prefix: String,
    credentials: Credentials,
    client: Client<hyper_rustls::HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
}

/// An upload in parts.
struct Upload {
    inner: Arc<Inner>,
    key: String,
    id: String,
    part: Vec<u8>,
    etags: Vec<String>,
    size: u64,
    is_done: bool,
}

/// An object that is read.
struct Download {
    runtime: Handle,
    body: hyper::body::Incoming,
    chunk: Bytes,
}

/// The bytes of a part: 10 000 of them at most make an object, so 160 GiB.
const PART: usize = 16 << 20;
const MAX_PARTS: usize = 10_000;
/// For how long a signature is good.
const SIGNED: Duration = Duration::from_secs(600);
/// How long a request may take until its answer begins.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How often a request is made that fails, and the first pause in between.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);

const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

fn variable(names: &[&str]) -> Option<String> {
    names
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|value| !value.is_empty())
}

// === impl Bucket ===

impl Bucket {
    /// A bucket; needs a runtime, on whose threads it makes its requests.
    ///
    /// # Errors
    /// Options that cannot be used.
    pub fn new(name: &str, prefix: &str, options: &S3Options) -> Result<Self, Error> {
        let region = options
            .region
            .clone()
            .or_else(|| variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]))
            .unwrap_or_else(|| "us-east-1".to_owned());
        let given = options
            .endpoint
            .clone()
            .or_else(|| variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]));
        // Other servers than AWS' rarely have a host name for each bucket.
        let (endpoint, is_in_path) = match given {
            Some(endpoint) => (endpoint, true),
            None => (format!("https://{name}.s3.{region}.amazonaws.com"), false),
        };
        let bucket_path = if is_in_path {
            format!("/{name}")
        } else {
            String::new()
        };
        let location = Location::new(&endpoint, &bucket_path, &region).ok_or_else(|| {
            Error::Place(format!("`{endpoint}` is no URL of S3-compatible storage"))
        })?;
        let (key, secret) = (
            variable(&["AWS_ACCESS_KEY_ID"]),
            variable(&["AWS_SECRET_ACCESS_KEY"]),
        );
        let (Some(key), Some(secret)) = (key, secret) else {
            return Err(Error::Place(
                "S3 needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".to_owned(),
            ));
        };
        let credentials = Credentials {
            key,
            secret,
            token: variable(&["AWS_SESSION_TOKEN"]),
        };
        let is_plain = endpoint.starts_with("http://");
        let tls = tls(options.ca_file.as_deref(), is_plain)?;
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            inner: Arc::new(Inner {
                location,
                bucket: name.to_owned(),
                prefix: prefix.to_owned(),
                credentials,
                client: Client::builder(TokioExecutor::new()).build(connector),
                runtime: Handle::current(),
            }),
        })
    }
}

fn tls(ca_file: Option<&Path>, is_plain: bool) -> Result<rustls::ClientConfig, Error> {
    let mut roots = rustls::RootCertStore::empty();
    if !is_plain {
        let path = ca_file.unwrap_or_else(|| Path::new(SYSTEM_AUTHORITIES));
        let pem = std::fs::read_to_string(path).map_err(Error::file(path))?;
        let found = control_pki::parse_certificates(&pem)
            .map_err(|error| Error::Place(error.to_string()))?;
        roots.add_parsable_certificates(found);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Place(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

impl Inner {
    fn describe(&self) -> String {
        format!("s3://{}/{}", self.bucket, self.prefix)
    }

    /// A signed URL for an object, or for the bucket if there is no name.
    fn url(&self, method: &Method, name: &str, query: &[(&str, &str)]) -> String {
        let now = jiff::Timestamp::now();
        self.location
            .presign(method, name, query, &self.credentials, SIGNED, now)
    }

    /// Makes a request, again and again while the server has trouble.
    fn call(
        &self,
        action: &'static str,
        method: &Method,
        url: impl Fn() -> String,
        body: &Bytes,
    ) -> Result<http::Response<hyper::body::Incoming>, Error> {
        let mut attempt = 1;
        loop {
            let result = self.call_once(action, method, &url(), body.clone());
            let may_pass = match &result {
                Err(Error::S3 { status, .. }) => *status >= 500 || *status == 429,
                Err(Error::Unreachable { .. }) => true,
                _ => false,
            };
            if !may_pass || attempt == ATTEMPTS {
                return result;
            }
            std::thread::sleep(PAUSE * 2_u32.pow(attempt - 1));
            attempt += 1;
        }
    }

    fn call_once(
        &self,
        action: &'static str,
        method: &Method,
        url: &str,
        body: Bytes,
    ) -> Result<http::Response<hyper::body::Incoming>, Error> {
        let unreachable = |source: Box<dyn std::error::Error + Send + Sync>| Error::Unreachable {
            place: self.describe(),
            source,
        };
        let request = Request::builder()
            .method(method.clone())
            .uri(url)
            .body(Full::new(body))
            .map_err(|error| unreachable(error.into()))?;
        self.runtime.block_on(async {
            let answer = tokio::time::timeout(TIMEOUT, self.client.request(request))
                .await
                .map_err(|elapsed| unreachable(elapsed.into()))?
                .map_err(|error| unreachable(error.into()))?;
            let status = answer.status();
            if status.is_success() {
                return Ok(answer);
            }
            let detail = answer.into_body().collect().await;
            let detail = detail
                .map(http_body_util::Collected::to_bytes)
                .unwrap_or_default();
            Err(Error::S3 {
                action,
                place: self.describe(),
                status: status.as_u16(),
                detail: summary(&String::from_utf8_lossy(&detail)),
            })
        })
    }

    fn text(
        &self,
        action: &'static str,
        method: &Method,
        url: impl Fn() -> String,
        body: &Bytes,
    ) -> Result<String, Error> {
        let answer = self.call(action, method, url, body)?;
        let body = self.runtime.block_on(answer.into_body().collect());
        let body = body.map_err(|error| Error::Unreachable {
            place: self.describe(),
            source: error.into(),
        })?;
        Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
    }

    fn nonsense(&self, action: &'static str, detail: &str) -> Error {
        Error::S3 {
            action,
            place: self.describe(),
            status: 200,
            detail: detail.to_owned(),
        }
    }
}

/// The code and message of an answer in XML, or its begin.
fn summary(text: &str) -> String {
    match (element(text, "Code"), element(text, "Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        _ => text.chars().take(200).collect(),
    }
}

/// The content of the first element of that name. S3's answers are flat enough for this: no
/// element lies in one of the same name.
fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    elements(text, name).next()
}

/// The contents of all elements of that name.
fn elements<'t>(text: &'t str, name: &str) -> impl Iterator<Item = &'t str> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once(&open)?;
            rest = after;
            // Not a longer name; attributes may follow.
            if !after.starts_with(['>', ' ']) {
                continue;
            }
            let (_, content) = after.split_once('>')?;
            let (content, after) = content.split_once(&close)?;
            rest = after;
            return Some(content);
        }
    })
}

fn unescape(text: &str) -> String {
    [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (escaped, plain)| {
        text.replace(escaped, plain)
    })
}

impl Place for Bucket {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn list(&self) -> Result<Vec<Stored>, Error> {
        const ACTION: &str = "listing objects";
        let inner = &self.inner;
        let mut found = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let url = || {
                let mut query = vec![("list-type", "2"), ("prefix", &*inner.prefix)];
                if let Some(token) = &token {
                    query.push(("continuation-token", token));
                }
                inner.url(&Method::GET, "", &query)
            };
            let text = inner.text(ACTION, &Method::GET, url, &Bytes::new())?;
            if element(&text, "ListBucketResult").is_none() {
                return Err(inner.nonsense(ACTION, &summary(&text)));
            }
            for object in elements(&text, "Contents") {
                let key = element(object, "Key").map(unescape).unwrap_or_default();
                let name = key.strip_prefix(&inner.prefix).unwrap_or_default();
                let size = element(object, "Size").and_then(|size| size.parse().ok());
                if let Some(name) = BackupName::parse(name) {
                    let size = size.unwrap_or_default();
                    found.push(Stored { name, size });
                }
            }
            token = element(&text, "NextContinuationToken").map(unescape);
            if token.is_none() {
                break;
            }
        }
        found.sort_by(|a, b| (a.name.created, &a.name).cmp(&(b.name.created, &b.name)));
        Ok(found)
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + Send>, Error> {
        let inner = &self.inner;
        let key = format!("{}{name}", inner.prefix);
        let url = || inner.url(&Method::GET, &key, &[]);
        let answer = inner.call("reading an object", &Method::GET, url, &Bytes::new());
        let answer = answer.map_err(|error| match error {
            Error::S3 { status, .. } if status == StatusCode::NOT_FOUND.as_u16() => {
                Error::NotFound {
                    name: name.to_owned(),
                    place: self.describe(),
                }
            }
            other => other,
        })?;
        Ok(Box::new(Download {
            runtime: inner.runtime.clone(),
            body: answer.into_body(),
            chunk: Bytes::new(),
        }))
    }

    fn create(&self, name: &str) -> Result<Box<dyn Sink>, Error> {
        const ACTION: &str = "beginning an upload";
        let inner = &self.inner;
        let key = format!("{}{name}", inner.prefix);
        let url = || inner.url(&Method::POST, &key, &[("uploads", "")]);
        let text = inner.text(ACTION, &Method::POST, url, &Bytes::new())?;
        let id = element(&text, "UploadId").map(unescape);
        let id = id.ok_or_else(|| inner.nonsense(ACTION, &summary(&text)))?;
        Ok(Box::new(Upload {
            inner: Arc::clone(inner),
            id,
            key,
            part: Vec::new(),
            etags: Vec::new(),
            size: 0,
            is_done: false,
        }))
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let inner = &self.inner;
        let key = format!("{}{name}", inner.prefix);
        let url = || inner.url(&Method::DELETE, &key, &[]);
        inner
            .text("removing an object", &Method::DELETE, url, &Bytes::new())
            .map(drop)
    }
}

// === impl Upload ===

impl Upload {
    fn send(&mut self) -> Result<(), Error> {
        const ACTION: &str = "uploading a part";
        let inner = &self.inner;
        let body = Bytes::from(std::mem::take(&mut self.part));
        if self.etags.len() >= MAX_PARTS {
            return Err(inner.nonsense(ACTION, "the backup is larger than 160 GiB"));
        }
        let number = (self.etags.len() + 1).to_string();
        let url = || {
            let query = [("partNumber", &*number), ("uploadId", &*self.id)];
            inner.url(&Method::PUT, &self.key, &query)
        };
        let answer = inner.call(ACTION, &Method::PUT, url, &body)?;
        let etag = answer
            .headers()
            .get(http::header::ETAG)
            .and_then(|tag| tag.to_str().ok())
            .ok_or_else(|| inner.nonsense(ACTION, "the answer has no ETag"))?;
        self.etags.push(etag.to_owned());
        self.size += body.len() as u64;
        Ok(())
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.part.len() >= PART {
            self.send().map_err(io::Error::other)?;
        }
        let taken = bytes.len().min(PART - self.part.len());
        self.part.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Upload {
    fn commit(mut self: Box<Self>) -> Result<u64, Error> {
        const ACTION: &str = "completing an upload";
        self.send()?;
        let inner = &self.inner;
        let mut body = "<CompleteMultipartUpload>".to_owned();
        for (at, etag) in self.etags.iter().enumerate() {
            let (number, etag) = (at + 1, etag.replace('"', "&quot;"));
            body.push_str(&format!(
                "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
            ));
        }
        body.push_str("</CompleteMultipartUpload>");
        let body = Bytes::from(body);
        let url = || inner.url(&Method::POST, &self.key, &[("uploadId", &self.id)]);
        let text = inner.text(ACTION, &Method::POST, url, &body)?;
        // A server that begins its answer before it is done says so inside.
        if text.contains("<Error>") {
            return Err(inner.nonsense(ACTION, &summary(&text)));
        }
        self.is_done = true;
        Ok(self.size)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let inner = &self.inner;
        let url = || inner.url(&Method::DELETE, &self.key, &[("uploadId", &self.id)]);
        let aborted = inner.text("giving up an upload", &Method::DELETE, url, &Bytes::new());
        if let Err(error) = aborted {
            tracing::warn!(place = inner.describe(), %error, "failed to abort an upload");
        }
    }
}

// === impl Download ===

impl Read for Download {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            let frame = self.runtime.block_on(self.body.frame());
            match frame {
                None => return Ok(0),
                Some(Err(error)) => return Err(io::Error::other(error)),
                Some(Ok(frame)) => {
                    self.chunk = frame.into_data().unwrap_or_default();
                }
            }
        }
        let taken = self.chunk.len().min(out.len());
        self.chunk.copy_to_slice(&mut out[..taken]);
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_server_is_told_in_its_words() {
        let text = "<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>none</Message></Error>";
        assert_eq!(summary(text), "NoSuchBucket: none");
        assert_eq!(summary("<html>"), "<html>");
        let list = "<R xmlns=\"x\"><Contents><Key>a&amp;b</Key><Size>7</Size></Contents>\
                    <Contents><Key>c</Key></Contents><KeyCount>2</KeyCount></R>";
        let keys: Vec<_> = elements(list, "Contents")
            .map(|object| unescape(element(object, "Key").unwrap_or_default()))
            .collect();
        assert_eq!(keys, ["a&b", "c"]);
        assert_eq!(element(list, "Size"), Some("7"));
        assert!(element(list, "R").is_some());
    }
}
