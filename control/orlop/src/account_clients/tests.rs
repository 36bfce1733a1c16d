//! Tests missing, refused and renewed tokens of service accounts.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use control_client::RequestBody;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use serde_json::Value;
use tokio_util::bytes::Bytes;

use super::*;

/// An API server that gives tokens of accounts that exist, numbered, and takes the last one.
#[derive(Default)]
struct Api {
    accounts: Mutex<Vec<String>>,
    given: AtomicU32,
    asked: Mutex<Vec<String>>,
}

impl Api {
    fn answer(&self, request: &Request<RequestBody>, name: &str) -> (u16, Value) {
        let path = request.uri().path();
        self.asked
            .lock()
            .unwrap()
            .push(format!("{} {path}", request.method()));
        let mut accounts = self.accounts.lock().unwrap();
        if path.ends_with("/token") {
            if !accounts.iter().any(|it| it == name) {
                return (
                    404,
                    json!({"kind": "Status", "code": 404, "reason": "NotFound"}),
                );
            }
            let number = self.given.fetch_add(1, Ordering::Relaxed) + 1;
            let until = Timestamp::now() + Duration::from_secs(3600);
            let status = json!({"token": format!("t{number}"), "expirationTimestamp": until});
            return (201, json!({"status": status}));
        }
        if path.ends_with("/serviceaccounts") {
            accounts.push(name.to_owned());
            return (201, json!({}));
        }
        let last = format!("Bearer t{}", self.given.load(Ordering::Relaxed));
        match request.headers().get("authorization") {
            Some(sent) if *sent == *last => (200, json!({})),
            _ => (
                401,
                json!({"kind": "Status", "code": 401, "reason": "Unauthorized"}),
            ),
        }
    }
}

fn client(api: &Arc<Api>) -> Client {
    let api = Arc::clone(api);
    let service = tower::service_fn(move |request: Request<RequestBody>| {
        let (code, body) = api.answer(&request, "job-controller");
        let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
        *answer.status_mut() = StatusCode::from_u16(code).expect("a code");
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    Client::in_process(service, ())
}

#[tokio::test(start_paused = true)]
async fn a_missing_account_is_made_and_a_refused_token_is_replaced() {
    let api = Arc::new(Api::default());
    let own = client(&api);
    let (token, renew_in) = first(&own, "job-controller").await;
    let asked = api.asked.lock().unwrap().clone();
    let token_path = "POST /api/v1/namespaces/kube-system/serviceaccounts/job-controller/token";
    let accounts = "POST /api/v1/namespaces/kube-system/serviceaccounts";
    assert_eq!(asked, [token_path, accounts, token_path]);
    assert!((2000..=2880).contains(&renew_in.as_secs()), "{renew_in:?}");

    let bearing = client(&api).bearing(token.clone());
    let ask = || bearing.request::<Value>(http::Method::GET, "/version", None::<&()>);
    assert!(ask().await.is_ok());
    tokio::spawn(keep(own, "job-controller", token, renew_in));
    // Tokens of before count no longer, as when keys are replaced.
    api.given.fetch_add(1, Ordering::Relaxed);
    assert!(ask().await.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(ask().await.is_ok(), "{:?}", api.asked.lock().unwrap());
    // Renewed in time, without a refusal.
    let given = api.given.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(3000)).await;
    assert_eq!(api.given.load(Ordering::Relaxed), given + 1);
}
