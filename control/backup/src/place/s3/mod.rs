//! Backups in a bucket of S3-compatible storage.

mod download;
mod server;
mod upload;
mod xml;

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};

use self::download::Download;
use self::server::Server;
use self::upload::Upload;
use self::xml::{element, elements, summary, unescape};
use super::{Place, Sink, StoredBackup};
use crate::{BackupName, Error};

/// The connection to an S3 server. Missing values are read from the variables of AWS'
/// tools.
#[derive(Clone, Debug, Default)]
pub struct S3Options {
    /// The URL of the server; AWS itself unless given.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// A PEM file of the authorities of the server's certificate; those of the system
    /// unless given.
    pub ca_file: Option<PathBuf>,
}

/// A bucket, or the part of it with a prefix.
pub struct S3Bucket {
    server: Arc<Server>,
}

// === impl Bucket ===

impl S3Bucket {
    /// A bucket; needs a runtime, on whose threads it makes its requests.
    ///
    /// # Errors
    /// Options that cannot be used.
    pub fn new(name: &str, prefix: &str, options: &S3Options) -> Result<Self, Error> {
        let server = Arc::new(Server::new(name, prefix, options)?);
        Ok(Self { server })
    }
}

impl Place for S3Bucket {
    fn describe(&self) -> String {
        self.server.describe()
    }

    fn list(&self) -> Result<Vec<StoredBackup>, Error> {
        const ACTION: &str = "listing objects";
        let server = &self.server;
        let mut found = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let url = || {
                let mut query = vec![("list-type", "2"), ("prefix", &*server.prefix)];
                if let Some(token) = &token {
                    query.push(("continuation-token", token));
                }
                server.url(&Method::GET, "", &query)
            };
            let text = server.text(ACTION, &Method::GET, url, &Bytes::new())?;
            if element(&text, "ListBucketResult").is_none() {
                return Err(server.nonsense(ACTION, &summary(&text)));
            }
            for object in elements(&text, "Contents") {
                let key = element(object, "Key").map(unescape).unwrap_or_default();
                let name = key.strip_prefix(&server.prefix).unwrap_or_default();
                let size = element(object, "Size").and_then(|size| size.parse().ok());
                if let Some(name) = BackupName::parse(name) {
                    let size = size.unwrap_or_default();
                    found.push(StoredBackup { name, size });
                }
            }
            // Some servers end the list with an empty token.
            token = element(&text, "NextContinuationToken")
                .filter(|token| !token.is_empty())
                .map(unescape);
            if token.is_none() {
                break;
            }
        }
        found.sort_by(|a, b| (a.name.created, &a.name).cmp(&(b.name.created, &b.name)));
        Ok(found)
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + Send>, Error> {
        let server = &self.server;
        let key = format!("{}{name}", server.prefix);
        let url = || server.url(&Method::GET, &key, &[]);
        let answer = server.call("reading an object", &Method::GET, url, &Bytes::new());
        let answer = answer.map_err(|error| match error {
            Error::S3 { status, .. } if status == StatusCode::NOT_FOUND.as_u16() => {
                Error::NotFound {
                    name: name.to_owned(),
                    place: self.describe(),
                }
            }
            other => other,
        })?;
        let runtime = server.runtime.clone();
        Ok(Box::new(Download::new(runtime, answer.into_body())))
    }

    fn create(&self, name: &str) -> Result<Box<dyn Sink>, Error> {
        let key = format!("{}{name}", self.server.prefix);
        Ok(Box::new(Upload::begin(&self.server, key)?))
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let server = &self.server;
        let key = format!("{}{name}", server.prefix);
        let url = || server.url(&Method::DELETE, &key, &[]);
        server
            .text("removing an object", &Method::DELETE, url, &Bytes::new())
            .map(drop)
    }
}
