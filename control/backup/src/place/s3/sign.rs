//! Signed URLs of S3: AWS Signature Version 4 in the query, with an unsigned payload.
//! Source: "Authenticating Requests: Using Query Parameters" of the S3 API Reference.

use std::time::Duration;

use aws_lc_rs::hmac;
use http::{Method, Uri};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

/// Who signs.
pub(super) struct Credentials {
    pub key: String,
    pub secret: String,
    pub token: Option<String>,
}

/// Where a bucket is.
pub(super) struct Location {
    /// Scheme and authority.
    origin: String,
    host: String,
    /// What paths begin with.
    path: String,
    region: String,
}

impl Location {
    /// The bucket at a URL; `None` if that is none.
    pub fn new(endpoint: &str, bucket_path: &str, region: &str) -> Option<Self> {
        let uri: Uri = endpoint.parse().ok()?;
        let scheme = uri
            .scheme_str()
            .filter(|scheme| ["http", "https"].contains(scheme))?;
        let host = uri.authority()?.as_str().to_owned();
        let base = uri.path().trim_end_matches('/');
        Some(Self {
            origin: format!("{scheme}://{host}"),
            host,
            path: format!("{base}{bucket_path}"),
            region: region.to_owned(),
        })
    }

    /// A URL by which `method` can be used on an object for some time.
    pub fn presign(
        &self,
        method: &Method,
        name: &str,
        query: &[(&str, &str)],
        credentials: &Credentials,
        valid: Duration,
        now: Timestamp,
    ) -> String {
        let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let day = time.get(..8).unwrap_or_default();
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let credential = format!("{}/{scope}", credentials.key);
        let valid = valid.as_secs().to_string();
        let mut all = vec![
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", &*credential),
            ("X-Amz-Date", &*time),
            ("X-Amz-Expires", &*valid),
            ("X-Amz-SignedHeaders", "host"),
        ];
        if let Some(token) = &credentials.token {
            all.push(("X-Amz-Security-Token", token));
        }
        all.extend(query);
        let mut pairs: Vec<String> = all
            .iter()
            .map(|(name, value)| format!("{}={}", escape(name, ""), escape(value, "")))
            .collect();
        pairs.sort_unstable();
        let query = pairs.join("&");
        let path = format!("{}/{}", self.path, escape(name, "/"));
        let canonical = format!(
            "{method}\n{path}\n{query}\nhost:{}\n\nhost\nUNSIGNED-PAYLOAD",
            self.host
        );
        let digest = hex(&Sha256::digest(canonical.as_bytes()));
        let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}");
        let first = format!("AWS4{}", credentials.secret).into_bytes();
        let parts = [day, &self.region, "s3", "aws4_request", &to_sign];
        let signature = parts.iter().fold(first, |key, part| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
            hmac::sign(&key, part.as_bytes()).as_ref().to_vec()
        });
        format!(
            "{}{path}?{query}&X-Amz-Signature={}",
            self.origin,
            hex(&signature)
        )
    }
}

/// Percent-encoding as the signature wants it.
fn escape(text: &str, kept: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        let letter = char::from(byte);
        if byte.is_ascii_alphanumeric() || "-._~".contains(letter) || kept.contains(letter) {
            out.push(letter);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_signed_as_in_the_reference() {
        // The example of the S3 API Reference.
        let endpoint = "https://examplebucket.s3.amazonaws.com";
        let location = Location::new(endpoint, "", "us-east-1").unwrap();
        let credentials = Credentials {
            key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        };
        let now = "2013-05-24T00:00:00Z".parse().unwrap();
        let day = Duration::from_secs(86_400);
        let url = location.presign(&Method::GET, "test.txt", &[], &credentials, day, now);
        let wanted = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert!(url.ends_with(&format!("X-Amz-Signature={wanted}")), "{url}");
        assert!(
            url.starts_with("https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=")
        );
    }

    #[test]
    fn an_endpoint_may_have_a_port_and_a_path() {
        let location = Location::new("http://127.0.0.1:9000/s3/", "/b", "r").unwrap();
        assert_eq!(
            (&*location.host, &*location.path),
            ("127.0.0.1:9000", "/s3/b")
        );
        for bad in ["", "127.0.0.1:9000", "ftp://x", "/path"] {
            assert!(Location::new(bad, "", "r").is_none(), "{bad}");
        }
    }
}
