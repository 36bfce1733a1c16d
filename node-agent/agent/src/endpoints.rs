//! What the serving API answers besides the kubelet's paths.
//!
//! ```text
//! /flows   the last flows, and those that come    (`flows/serve.rs`)
//! /why     why a new flow is allowed or denied    (`policy/explain.rs`)
//! ```
//!
//! Beside another kubelet, at a port of its own (`port.rs`).

pub mod port;

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use node_agent_kubelet_server::extra_endpoints::{
    EndpointRequest, EndpointResponse, ExtraEndpoints,
};
use tokio::sync::{mpsc, oneshot};

use crate::{explain, flows::FlowServer, policy::PolicyQuery};

/// How long policy's task may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers both; `policy` is the task that knows, where policy is enforced.
pub fn answers(flows: FlowServer, policy: Option<mpsc::Sender<PolicyQuery>>) -> ExtraEndpoints {
    let flows = Arc::new(flows);
    ExtraEndpoints::new(move |question: EndpointRequest| {
        let (flows, policy) = (Arc::clone(&flows), policy.clone());
        async move {
            match question.what.as_str() {
                "flows" => Some(flows.answer(&question)),
                "why" => Some(why(&question, policy.as_ref()).await),
                _ => None,
            }
        }
    })
}

async fn why(
    question: &EndpointRequest,
    policy: Option<&mpsc::Sender<PolicyQuery>>,
) -> EndpointResponse {
    let asked = match explain::FlowQuestion::from_query(&question.query) {
        Ok(asked) => asked,
        Err(error) => {
            return EndpointResponse::Not(StatusCode::BAD_REQUEST, error.to_string());
        }
    };
    let Some(policy) = policy else {
        let why = "this node enforces no network policy (--network-policy off)";
        return EndpointResponse::Not(StatusCode::NOT_IMPLEMENTED, why.to_owned());
    };
    let (sender, told) = oneshot::channel();
    let answer = async {
        policy.send(PolicyQuery::Why(asked, sender)).await.ok()?;
        told.await.ok()
    };
    let account = tokio::time::timeout(PATIENCE, answer).await.ok().flatten();
    let text = account.map(|it| serde_json::to_string(&it));
    match text {
        Some(Ok(text)) => EndpointResponse::Json(text),
        Some(Err(error)) => {
            EndpointResponse::Not(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
        }
        None => {
            let why =
                "the agent does not know the node's policies yet; is its API server reachable?";
            EndpointResponse::Not(StatusCode::SERVICE_UNAVAILABLE, why.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &[(&str, &str)]) -> EndpointRequest {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        EndpointRequest {
            what: "why".to_owned(),
            query: query.iter().map(pair).collect(),
        }
    }

    const WHOLE: [(&str, &str); 4] = [
        ("from", "10.0.0.1"),
        ("to", "10.0.0.2"),
        ("protocol", "6"),
        ("port", "80"),
    ];

    fn status(answer: &EndpointResponse) -> u16 {
        match answer {
            EndpointResponse::Not(status, _) => status.as_u16(),
            EndpointResponse::Json(_) | EndpointResponse::Lines(_) => 200,
        }
    }

    #[tokio::test]
    async fn questions_reach_the_task_that_knows_and_what_hinders_is_said() {
        let (asks, mut receiver) = mpsc::channel(1);
        let answered = tokio::spawn(async move {
            let Some(PolicyQuery::Why(question, answer)) = receiver.recv().await else {
                panic!("no question");
            };
            assert_eq!(question.port, 80);
            let account = serde_json::json!({
                "node": "n1", "complete": true, "epoch": 1, "generation": 2,
                "from": "x/a", "to": "x/b",
            });
            let account = serde_json::from_value(account).expect("an account");
            answer.send(account).expect("someone waits");
        });
        let answer = why(&asked(&WHOLE), Some(&asks)).await;
        let EndpointResponse::Json(text) = &answer else {
            panic!("{answer:?}");
        };
        assert!(text.contains("\"node\":\"n1\""), "{text}");
        answered.await.expect("no panic");
        // The task has ended.
        assert_eq!(status(&why(&asked(&WHOLE), Some(&asks)).await), 503);
        assert_eq!(status(&why(&asked(&WHOLE), None).await), 501);
        assert_eq!(status(&why(&asked(&WHOLE[1..]), Some(&asks)).await), 400);
    }
}
