//! `/flows` of the node's serving API: the last flows, and those that come.
//!
//! ```text
//! /flows?pod=&verdict=&sinceSeconds=&last=            {"node", "lost", "flows": […]}
//! /flows?…&follow=true                                a flow a line, as JSON
//! ```

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use node_agent_kubelet_server::extra_endpoints::{EndpointRequest, EndpointResponse};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast::error::RecvError, mpsc};
use tokio_util::sync::CancellationToken;

use super::{
    flow::{Flow, FlowFilter, FlowQueryError},
    metrics::FlowMetrics,
    store::FlowStore,
};

/// Flows of one answer unless it is said otherwise.
const USUAL: usize = 1_000;
/// Requests that follow at once.
const FOLLOWERS: i64 = 32;
/// Lines that wait for a follower's connection.
const WAITING: usize = 64;

/// The most recent flows of a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlowList {
    /// The node.
    pub node: String,
    /// Records that were lost since its agent began.
    pub lost: u64,
    /// Oldest first.
    pub flows: Vec<Flow>,
}

/// Tells a follower how many flows it missed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissedFlows {
    /// So many flows came faster than they were read.
    pub missed: u64,
}

/// Serves flows over HTTP.
#[derive(Clone, Debug)]
pub struct FlowServer {
    /// The node's name.
    pub node: String,
    /// What is answered.
    pub store: Arc<FlowStore>,
    /// Where those who follow are counted.
    pub metrics: FlowMetrics,
    /// Ends those who follow.
    pub shutdown: CancellationToken,
}

/// The query parameters of a flow request.
struct FlowQuery {
    filter: FlowFilter,
    last: Option<usize>,
    follow: bool,
}

// === impl Server ===

impl FlowServer {
    /// Answers a question for flows.
    pub fn answer(&self, question: &EndpointRequest) -> EndpointResponse {
        let asked = match FlowQuery::of(&question.query) {
            Ok(asked) => asked,
            Err(error) => {
                return EndpointResponse::Not(StatusCode::BAD_REQUEST, error.to_string());
            }
        };
        if asked.follow {
            return self.follow(asked);
        }
        let last = asked.last.unwrap_or(USUAL);
        let flows = self.store.last(&asked.filter, last, Timestamp::now());
        let listed = FlowList {
            node: self.node.clone(),
            lost: self.store.lost(),
            flows: flows.iter().map(|it| Flow::clone(it)).collect(),
        };
        match serde_json::to_string(&listed) {
            Ok(text) => EndpointResponse::Json(text),
            Err(error) => {
                EndpointResponse::Not(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
            }
        }
    }

    fn follow(&self, asked: FlowQuery) -> EndpointResponse {
        let follower = FollowerCount::new(&self.metrics);
        if follower.number > FOLLOWERS {
            let why = format!("{FOLLOWERS} requests follow flows already");
            return EndpointResponse::Not(StatusCode::TOO_MANY_REQUESTS, why);
        }
        let FlowQuery { filter, last, .. } = asked;
        let (flows, mut more) = self
            .store
            .follow(&filter, last.unwrap_or(0), Timestamp::now());
        let (sender, lines) = mpsc::channel(WAITING);
        let (metrics, shutdown) = (self.metrics.clone(), self.shutdown.clone());
        // Those that come are of any age by their nature.
        let filter = FlowFilter {
            since: None,
            ..filter
        };
        tokio::spawn(async move {
            let _follower = follower;
            for flow in flows {
                if send(&sender, &*flow).await.is_err() {
                    return;
                }
            }
            loop {
                let came = tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = sender.closed() => return,
                    came = more.recv() => came,
                };
                let sent = match came {
                    Ok(flow) if filter.takes(&flow, flow.time) => send(&sender, &*flow).await,
                    Ok(_) => Ok(()),
                    Err(RecvError::Lagged(missed)) => {
                        metrics.missed(missed);
                        send(&sender, &MissedFlows { missed }).await
                    }
                    Err(RecvError::Closed) => return,
                };
                if sent.is_err() {
                    return;
                }
            }
        });
        EndpointResponse::Lines(lines)
    }
}

/// The client closed the connection.
struct ReaderGone;

async fn send(sender: &mpsc::Sender<Bytes>, line: &impl Serialize) -> Result<(), ReaderGone> {
    let mut text = serde_json::to_vec(line).map_err(|_| ReaderGone)?;
    text.push(b'\n');
    sender.send(text.into()).await.map_err(|_| ReaderGone)
}

/// Counts clients that follow flows.
struct FollowerCount {
    metrics: FlowMetrics,
    number: i64,
}

impl FollowerCount {
    fn new(metrics: &FlowMetrics) -> Self {
        Self {
            metrics: metrics.clone(),
            number: metrics.follower(1),
        }
    }
}

impl Drop for FollowerCount {
    fn drop(&mut self) {
        self.metrics.follower(-1);
    }
}

// === impl Asked ===

impl FlowQuery {
    fn of(query: &[(String, String)]) -> Result<Self, FlowQueryError> {
        let mut asked = Self {
            filter: FlowFilter::default(),
            last: None,
            follow: false,
        };
        for (name, value) in query {
            match name.as_str() {
                "follow" => asked.follow = matches!(value.as_str(), "true" | "1" | ""),
                "last" => {
                    let last = value.parse();
                    asked.last = Some(last.map_err(|_| FlowQueryError::Last(value.clone()))?);
                }
                // What a newer command asks for is not understood, and so not
                // answered with something else.
                name if !asked.filter.take(name, value)? => {
                    return Err(FlowQueryError::Unknown(name.to_owned()));
                }
                _ => {}
            }
        }
        Ok(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::flow::{FlowVerdict, tests::flow},
        *,
    };

    fn server() -> FlowServer {
        let store = Arc::new(FlowStore::new(9));
        store.add([
            flow(1, FlowVerdict::Dropped),
            flow(2, FlowVerdict::Forwarded),
        ]);
        FlowServer {
            node: "n1".to_owned(),
            store,
            metrics: FlowMetrics::default(),
            shutdown: CancellationToken::new(),
        }
    }

    fn asked(query: &[(&str, &str)]) -> EndpointRequest {
        EndpointRequest {
            what: "flows".to_owned(),
            query: query
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    fn listed(answer: EndpointResponse) -> Vec<i64> {
        let EndpointResponse::Json(text) = answer else {
            panic!("{answer:?}");
        };
        let listed: FlowList = serde_json::from_str(&text).expect("a list");
        assert_eq!(listed.node, "n1");
        listed.flows.iter().map(|it| it.time.as_second()).collect()
    }

    #[test]
    fn flows_are_listed_as_asked_for_and_what_is_not_understood_is_refused() {
        let server = server();
        assert_eq!(listed(server.answer(&asked(&[]))), [1, 2]);
        assert_eq!(listed(server.answer(&asked(&[("last", "1")]))), [2]);
        assert_eq!(
            listed(server.answer(&asked(&[("verdict", "dropped")]))),
            [1]
        );
        let young = [("sinceSeconds", "60")];
        assert_eq!(listed(server.answer(&asked(&young))), [0; 0]);
        for pair in [("verdict", "x"), ("last", "x"), ("colour", "red")] {
            let answer = server.answer(&asked(&[pair]));
            assert!(
                matches!(answer, EndpointResponse::Not(StatusCode::BAD_REQUEST, _)),
                "{answer:?}"
            );
        }
    }

    #[tokio::test]
    async fn who_follows_gets_the_last_and_all_that_come_and_not_too_many_may() {
        let server = server();
        let query = [("follow", "true"), ("last", "9"), ("verdict", "dropped")];
        let EndpointResponse::Lines(mut lines) = server.answer(&asked(&query)) else {
            panic!("no lines");
        };
        let mut next = async || {
            let line = lines.recv().await.expect("a line");
            let flow: Flow = serde_json::from_slice(&line).expect("a flow");
            assert!(line.ends_with(b"\n"));
            flow.time.as_second()
        };
        assert_eq!(next().await, 1);
        server.store.add([
            flow(3, FlowVerdict::Forwarded),
            flow(4, FlowVerdict::Dropped),
        ]);
        assert_eq!(next().await, 4);
        let mut others = Vec::new();
        for _ in 1..FOLLOWERS {
            let answer = server.answer(&asked(&[("follow", "true")]));
            assert!(matches!(answer, EndpointResponse::Lines(_)), "{answer:?}");
            others.push(answer);
        }
        let refused = || server.answer(&asked(&[("follow", "true")]));
        let one_too_many = refused();
        assert!(
            matches!(
                one_too_many,
                EndpointResponse::Not(StatusCode::TOO_MANY_REQUESTS, _)
            ),
            "{one_too_many:?}"
        );
        // Who goes makes room.
        others.clear();
        for _ in 0..10_000 {
            if matches!(refused(), EndpointResponse::Lines(_)) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("no room for another follower");
    }
}
