//! An API server for tests, that writes down what it is sent and answers as it is
//! told.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use control_client::{Client, RequestBody};
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Bytes};
use serde_json::{Value, json};

/// How long a test waits for what is sent beside it.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Default)]
pub struct Api {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Method, path, content.
    sent: Vec<(String, String, Value)>,
    /// The code for a method; 200 for others.
    codes: HashMap<String, u16>,
}

impl Api {
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, requests of a method are answered with a code.
    pub fn answer(&self, method: &str, code: u16) {
        self.state().codes.insert(method.to_owned(), code);
    }

    /// What was sent to a path.
    pub fn sent(&self, method: &str, path: &str) -> Vec<Value> {
        let state = self.state();
        let its = state
            .sent
            .iter()
            .filter(|(m, p, _)| m == method && p == path);
        its.map(|(.., content)| content.clone()).collect()
    }

    /// Events, once there are so many; in the order in which they came.
    pub async fn events(&self, count: usize) -> Vec<Value> {
        let all = async {
            loop {
                let found: Vec<Value> = {
                    let state = self.state();
                    let its = state
                        .sent
                        .iter()
                        .filter(|(method, path, _)| method == "POST" && path.ends_with("/events"));
                    its.map(|(.., content)| content.clone()).collect()
                };
                if found.len() >= count {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, all).await;
        found.expect("so many events are sent")
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<RequestBody>| {
            let api = api.clone();
            async move {
                let (head, body) = request.into_parts();
                let bytes = body
                    .collect()
                    .await
                    .map(http_body_util::Collected::to_bytes);
                let content = serde_json::from_slice(&bytes.unwrap_or_default());
                let content: Value = content.unwrap_or_default();
                let method = head.method.to_string();
                let mut state = api.state();
                let code = state.codes.get(&method).copied().unwrap_or(200);
                let answer = if code < 400 {
                    content.clone()
                } else {
                    json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure",
                        "code": code, "message": "as the test has it",
                        "reason": if code == 403 { "Forbidden" } else { "NotFound" },
                    })
                };
                state
                    .sent
                    .push((method, head.uri.path().to_owned(), content));
                let answer = Response::builder()
                    .status(code)
                    .header("content-type", "application/json")
                    .body(Full::new(Bytes::from(answer.to_string())));
                Ok::<_, Infallible>(answer.expect("an answer"))
            }
        });
        Client::in_process(service, ())
    }
}
