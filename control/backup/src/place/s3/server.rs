//! Requests to an S3 server: where it is, who asks, and trying again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use rusty_s3::{Bucket, Credentials, UrlStyle};
use tokio::runtime::Handle;
use url::Url;

use super::S3Options;
use super::xml::summary;
use crate::Error;

/// A bucket, or the part of it with a prefix, and the credentials.
pub(super) struct Server {
    bucket: Bucket,
    pub(super) prefix: String,
    credentials: Credentials,
    client: Client<hyper_rustls::HttpsConnector<HttpConnector>, Full<Bytes>>,
    pub(super) runtime: Handle,
}

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

/// The bucket at an endpoint, or at AWS.
fn bucket(name: &str, endpoint: Option<&str>, region: String) -> Result<Bucket, Error> {
    let aws = format!("https://s3.{region}.amazonaws.com");
    let text = endpoint.unwrap_or(&aws);
    // Other servers than AWS' rarely have a host name for each bucket, and certificates of AWS
    // are for names of one part.
    let style = if endpoint.is_some() || name.contains('.') {
        UrlStyle::Path
    } else {
        UrlStyle::VirtualHost
    };
    // Only a path that ends so is one of a folder.
    let url = Url::parse(&format!("{}/", text.trim_end_matches('/'))).ok();
    url.and_then(|url| Bucket::new(url, style, name.to_owned(), region).ok())
        .ok_or_else(|| Error::Place(format!("`{text}` is no URL of S3-compatible storage")))
}

/// A URL by which `method` can be used on an object for some time: AWS Signature Version 4 in the
/// query, with an unsigned payload.
fn presigned(
    bucket: &Bucket,
    credentials: &Credentials,
    method: &Method,
    name: &str,
    query: &[(&str, &str)],
    now: Timestamp,
) -> String {
    let url = match name {
        "" => bucket.base_url().clone(),
        name => bucket.object_url(name),
    };
    let method = match *method {
        Method::PUT => rusty_s3::Method::Put,
        Method::POST => rusty_s3::Method::Post,
        Method::DELETE => rusty_s3::Method::Delete,
        _ => rusty_s3::Method::Get,
    };
    // It has to be signed in order.
    let mut query = query.to_vec();
    query.sort_unstable();
    let signed = rusty_s3::signing::sign(
        &now,
        method,
        url,
        credentials.key(),
        credentials.secret(),
        credentials.token(),
        bucket.region(),
        SIGNED.as_secs(),
        query.iter().copied(),
        std::iter::empty(),
    );
    signed.into()
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

// === impl Server ===

impl Server {
    /// The server of a bucket, for objects whose names begin with `prefix`.
    pub(super) fn new(name: &str, prefix: &str, options: &S3Options) -> Result<Self, Error> {
        let region = options
            .region
            .clone()
            .or_else(|| variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]))
            .unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = options
            .endpoint
            .clone()
            .or_else(|| variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]));
        let bucket = bucket(name, endpoint.as_deref(), region)?;
        let (key, secret) = (
            variable(&["AWS_ACCESS_KEY_ID"]),
            variable(&["AWS_SECRET_ACCESS_KEY"]),
        );
        let (Some(key), Some(secret)) = (key, secret) else {
            return Err(Error::Place(
                "S3 needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".to_owned(),
            ));
        };
        let credentials = match variable(&["AWS_SESSION_TOKEN"]) {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        };
        let is_plain = bucket.base_url().scheme() == "http";
        let tls = tls(options.ca_file.as_deref(), is_plain)?;
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            bucket,
            prefix: prefix.to_owned(),
            credentials,
            client: Client::builder(TokioExecutor::new()).build(connector),
            runtime: Handle::current(),
        })
    }

    pub(super) fn describe(&self) -> String {
        format!("s3://{}/{}", self.bucket.name(), self.prefix)
    }

    /// Returns a signed URL for an object, or for the bucket if `name` is empty.
    pub(super) fn url(&self, method: &Method, name: &str, query: &[(&str, &str)]) -> String {
        let now = Timestamp::now();
        presigned(&self.bucket, &self.credentials, method, name, query, now)
    }

    /// Makes a request, again and again while the server has trouble.
    pub(super) fn call(
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

    pub(super) fn text(
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

    pub(super) fn nonsense(&self, action: &'static str, detail: &str) -> Error {
        Error::S3 {
            action,
            place: self.describe(),
            status: 200,
            detail: detail.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(name: &str, endpoint: Option<&str>) -> Result<String, String> {
        let found = bucket(name, endpoint, "eu-west-1".to_owned());
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.base_url().to_string())
    }

    #[test]
    fn buckets_are_in_the_host_of_aws_and_in_the_path_of_others() {
        assert_eq!(
            base("b", None).as_deref(),
            Ok("https://b.s3.eu-west-1.amazonaws.com/")
        );
        assert_eq!(
            base("b.c", None).as_deref(),
            Ok("https://s3.eu-west-1.amazonaws.com/b.c/")
        );
        for endpoint in ["http://127.0.0.1:9000/s3", "http://127.0.0.1:9000/s3/"] {
            assert_eq!(
                base("b", Some(endpoint)).as_deref(),
                Ok("http://127.0.0.1:9000/s3/b/")
            );
        }
        for bad in ["", "127.0.0.1:9000", "ftp://x", "/path"] {
            let refused = base("b", Some(bad)).expect_err(bad);
            assert!(refused.contains("no URL of S3"), "{refused}");
        }
    }

    #[test]
    fn a_url_has_the_query_in_order_and_the_token_of_a_session() {
        let bucket = bucket("b", Some("http://h:9000"), "r".to_owned()).expect("a bucket");
        let credentials = Credentials::new_with_token("k", "s", "t");
        let now = "2013-05-24T00:00:00Z".parse().expect("a time");
        let query = [("uploadId", "u/1"), ("partNumber", "2")];
        let url = presigned(&bucket, &credentials, &Method::PUT, "a/n", &query, now);
        let wanted = "http://h:9000/b/a/n?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=\
                      k%2F20130524%2Fr%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&\
                      X-Amz-Expires=600&X-Amz-Security-Token=t&X-Amz-SignedHeaders=host&\
                      partNumber=2&uploadId=u%2F1&X-Amz-Signature=";
        assert!(url.starts_with(wanted), "{url}");
        let other = presigned(&bucket, &credentials, &Method::GET, "a/n", &query, now);
        assert_ne!(url, other, "the method is signed");
    }
}
