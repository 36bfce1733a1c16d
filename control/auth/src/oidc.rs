//! What verifiers of service accounts' tokens need to know of this cluster:
//! OpenID Connect discovery 1.0 and the keys (RFC 7517).

use std::net::SocketAddr;

use control_access::Tokens;
use control_types::value;
use control_types::value::Value;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, Response};

use control_registry::reply;
use control_request::body::Body;

/// Where the keys are.
const KEYS: &str = "/openid/v1/jwks";

/// Returns the document of a path, if it is one of the two and tokens are issued here;
/// `address` is where verifiers reach the server.
#[must_use]
pub fn document(
    tokens: Option<&Tokens>,
    address: SocketAddr,
    path: &str,
) -> Option<Response<Body>> {
    let (content_type, body) = match path {
        "/.well-known/openid-configuration" => {
            ("application/json", provider(tokens?, address).to_vec())
        }
        KEYS => {
            let keys = tokens?.keys().jwks();
            ("application/jwk-set+json", keys.to_string().into_bytes())
        }
        _ => return None,
    };
    let mut response = reply::bytes(200, content_type, body);
    // Keys outlive the hour: verifiers ask again for a key that they do not know.
    response.headers_mut().insert(
        CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=3600"),
    );
    Some(response)
}

fn provider(tokens: &Tokens, address: SocketAddr) -> Value {
    let keys = tokens.keys();
    let algorithms: Vec<_> = keys.algorithms().into_iter().map(Value::from).collect();
    value!({
        "issuer": (tokens.issuer()),
        "jwks_uri": (format!("https://{address}{KEYS}")),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": (algorithms)
    })
}
