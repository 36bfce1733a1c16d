//! A webhook for questions about webhooks, on loopback with a certificate of its
//! own. What it answers is said by the path that it is asked at, so that questions
//! decide it:
//!
//! | path | answer |
//! | --- | --- |
//! | `/answer/BASE64URL` | a review with the JSON of the path as its response, and the uid |
//! | `/tell` | a denial whose message is the request, members in order |
//! | `/raw/BASE64URL` | `{code, type, body}` as they are; `$uid` in the body is the uid |
//! | `/convert[/ONE-OTHER]` | the objects in the version wanted; `spec.ONE` is `spec.OTHER` in `v2` |

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::Error;
use crate::normal::sorted;

/// Where it is, and whom its callers must believe.
pub struct Hook {
    /// `https://127.0.0.1:PORT`.
    pub url: String,
    /// Its certificate: PEM, and that in base64.
    pub bundle: String,
}

impl Hook {
    /// Starts it on this runtime.
    pub async fn start() -> Result<Self, Error> {
        let failed = |why: &dyn std::fmt::Display| Error::Hook(why.to_string());
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])
            .map_err(|error| failed(&error))?;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
            .map_err(|error| failed(&error))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .map_err(|error| failed(&error))?;
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // Callers that do not believe it go away in the handshake.
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service =
                        service_fn(|request| async { Ok::<_, Infallible>(respond(request).await) });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok(Self {
            url: format!("https://{address}"),
            bundle: STANDARD.encode(made.cert.pem()),
        })
    }
}

async fn respond(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let body = match request.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return reply(400, "text/plain", error.to_string()),
    };
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut parts = path.trim_matches('/').splitn(2, '/');
    let what = parts.next().unwrap_or_default();
    let rest = parts.next().unwrap_or_default();
    let said = URL_SAFE_NO_PAD.decode(rest).unwrap_or_default();
    let said: Value = serde_json::from_slice(&said).unwrap_or_default();
    let uid = review["request"]["uid"].as_str().unwrap_or_default();
    let answer = match what {
        "answer" => said,
        "tell" => {
            let message = sorted(&review["request"]);
            let status = json!({"code": 418, "message": message, "reason": "Told"});
            json!({"allowed": false, "status": status})
        }
        "convert" => {
            let (one, other) = rest.split_once('-').unwrap_or_default();
            let objects = converted(&review["request"], one, other);
            json!({"result": {"status": "Success"}, "convertedObjects": objects})
        }
        "raw" => {
            let code = said["code"].as_u64().and_then(|code| code.try_into().ok());
            let kind = said["type"].as_str().unwrap_or("application/json");
            let body = said["body"].as_str().unwrap_or_default();
            return reply(code.unwrap_or(200), kind, body.replace("$uid", uid));
        }
        _ => return reply(404, "application/json", "nothing here".to_owned()),
    };
    let mut response = json!({"uid": uid});
    if let (Value::Object(response), Value::Object(answer)) = (&mut response, answer) {
        response.extend(answer);
    }
    let review = json!({
        "apiVersion": review["apiVersion"],
        "kind": review["kind"],
        "response": response
    });
    reply(200, "application/json", review.to_string())
}

/// The objects of a request to convert, in the version that it wants.
fn converted(request: &Value, one: &str, other: &str) -> Value {
    let version = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let mut objects = request["objects"].clone();
    for object in objects.as_array_mut().into_iter().flatten() {
        object["apiVersion"] = version.into();
        let (from, to) = if version.ends_with("/v2") {
            (one, other)
        } else {
            (other, one)
        };
        if let Some(spec) = object["spec"].as_object_mut()
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to.to_owned(), value);
        }
    }
    objects
}

fn reply(code: u16, kind: &str, body: String) -> Response<Full<Bytes>> {
    let made = Response::builder()
        .status(code)
        .header("content-type", kind)
        .body(Full::new(Bytes::from(body)));
    made.unwrap_or_else(|error| Response::new(Full::new(Bytes::from(error.to_string()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_another_name_in_the_other_version() {
        let request = json!({
            "desiredAPIVersion": "a/v2",
            "objects": [{"apiVersion": "a/v1", "spec": {"small": 1}}]
        });
        assert_eq!(
            converted(&request, "small", "big"),
            json!([{"apiVersion": "a/v2", "spec": {"big": 1}}])
        );
    }
}
