use control_pki::ServiceAccountKey;
use serde_json::{Value, json};

use super::*;
use crate::configuration::authentication;

const NOW: i64 = 1_000;

/// The document that publishes a key.
fn keys_of(key: &ServiceAccountKey) -> String {
    format!("{{\"keys\":[{}]}}", key.public().jwk())
}

fn key() -> (tempfile::TempDir, ServiceAccountKey) {
    let dir = tempfile::tempdir().expect("a directory");
    let key = ServiceAccountKey::load_or_create(dir.path()).expect("a key");
    (dir, key)
}

fn claims() -> Value {
    json!({
        "iss": "https://issuer", "aud": ["a"], "exp": 2000, "sub": "ann", "jti": "j",
        "roles": ["dev", "ops"], "acme-team": "red", "email": "ann@x", "email_verified": true
    })
}

fn issuer(mappings: &str) -> Issuer {
    let file = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: {{url: 'https://issuer', audiences: [a]}}\n{mappings}"
    );
    let mut read = authentication::parse(file.as_bytes(), &[]).expect("right");
    let mut issuer = read.issuers.remove(0);
    issuer.algorithms = vec!["ES256".to_owned()];
    issuer
}

const PLAIN: &str = "  claimMappings:\n    username: {claim: sub, prefix: 'x:'}\n    groups: {claim: roles, prefix: 'g:'}\n";

fn ask(issuer: &Issuer, claims: &Value) -> Result<crate::User, String> {
    let (_dir, key) = key();
    let keys = Keys::parse(keys_of(&key).as_bytes()).expect("keys");
    let token = key.sign(claims).expect("signed");
    issuer
        .user(&token, &keys, NOW)
        .map_err(|error| error.to_string())
}

#[test]
fn claims_become_a_user() {
    let user = ask(&issuer(PLAIN), &claims()).expect("ann");
    assert_eq!(user.name, "x:ann");
    assert_eq!(user.groups, ["g:dev", "g:ops", "system:authenticated"]);
    assert_eq!(
        user.extra,
        [(CREDENTIAL.to_owned(), vec!["JTI=j".to_owned()])]
    );
}

const CREDENTIAL: &str = crate::CREDENTIAL_ID;

#[test]
fn expressions_map_and_judge() {
    let with = issuer(
        r#"  claimMappings:
    username: {expression: "claims.email_verified ? claims.email : ''"}
    groups: {expression: "claims.roles.filter(r, r != 'ops')"}
    uid: {expression: "claims.acme__dash__team"}
    extra: [{key: acme.io/team, valueExpression: "claims['acme-team']"}]
  claimValidationRules:
  - {expression: "claims.exp > 1500", message: too short}
  - {claim: sub, requiredValue: ann}
  userValidationRules:
  - {expression: "!user.groups.exists(g, g.startsWith('system:'))", message: no system groups}
"#,
    );
    let user = ask(&with, &claims()).expect("ann");
    assert_eq!((&*user.name, &*user.uid), ("ann@x", "red"));
    assert_eq!(user.groups[0], "dev");
    assert_eq!(
        user.extra[1],
        ("acme.io/team".to_owned(), vec!["red".to_owned()])
    );
    let change = |field: &str, value: Value| {
        let mut claims = claims();
        claims[field] = value;
        ask(&with, &claims).expect_err("refused")
    };
    assert_eq!(
        change("exp", json!(1200)),
        "oidc: error evaluating claim validation expression: validation expression 'claims.exp > 1500' failed: too short"
    );
    assert_eq!(
        change("sub", json!("bob")),
        "oidc: required claim sub value does not match. Got = bob, want = ann"
    );
    assert!(change("roles", json!(["system:masters"])).ends_with("failed: no system groups"));
    assert_eq!(
        change("email_verified", json!(false)),
        "oidc: empty username via CEL expression is not allowed"
    );
}

#[test]
fn what_is_not_of_the_issuer_is_refused() {
    let plain = issuer(PLAIN);
    let change = |field: &str, value: Value| {
        let mut claims = claims();
        claims[field] = value;
        ask(&plain, &claims).expect_err(field)
    };
    assert!(change("aud", json!("b")).contains(r#"expected audience in ["a"] got ["b"]"#));
    assert!(change("exp", json!(999)).contains("token is expired"));
    assert!(change("nbf", json!(1301)).contains("before the nbf"));
    assert!(change("iss", json!("https://other")).contains("issued by a different provider"));
    assert!(change("sub", json!(7)).contains("parse username claims"));
}

#[test]
fn forged_signatures_are_refused() {
    let (_dir, key) = key();
    let (_other_dir, other) = self::key();
    let keys = Keys::parse(keys_of(&key).as_bytes()).expect("keys");
    let plain = issuer(PLAIN);
    let refused = |token: &str| {
        let answer = plain.user(token, &keys, NOW);
        answer.expect_err("refused").to_string()
    };
    let foreign = other.sign(&claims()).expect("signed");
    assert!(
        refused(&foreign).contains("failed to verify"),
        "{}",
        refused(&foreign)
    );
    let good = key.sign(&claims()).expect("signed");
    assert!(plain.user(&good, &keys, NOW).is_ok() && plain.claims(&good));
    let body = good.split('.').nth(1).expect("claims");
    use base64::Engine as _;
    let encode = |text: String| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    let none = encode(r#"{"alg":"none"}"#.to_owned());
    assert!(plain.user(&format!("{none}.{body}."), &keys, NOW).is_err());
    // The public key as a secret: HS256 signed with it must not pass.
    let mut shared = plain;
    shared.algorithms = vec!["HS256".to_owned(), "ES256".to_owned()];
    let header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::HS256);
    let secret = jsonwebtoken::EncodingKey::from_secret(key.public_pem().as_bytes());
    let forged = jsonwebtoken::encode(&header, &claims(), &secret).expect("signed");
    assert!(shared.user(&forged, &keys, NOW).is_err());
}

#[test]
fn a_key_that_issuer_and_clients_share_is_left_out() {
    let set = json!({"keys": [
        {"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"},
        {"kty": "unknown"}
    ]});
    let keys = Keys::parse(set.to_string().as_bytes()).expect("a set");
    assert_eq!(format!("{keys:?}"), "Keys { count: 0 }");
    assert!(Keys::parse(b"{}").is_err() && Keys::parse(b"x").is_err());
}
