//! Tests leases in virtual time against a server that leaves requests unanswered.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::service_fn;

use super::*;
use crate::transport::{ConnectionError, RequestBody};

/// An API server with one Lease and configurable faults.
#[derive(Clone, Default)]
struct Server {
    lease: Arc<Mutex<Option<Value>>>,
    /// The arrival time of each write.
    writes: Arc<Mutex<Vec<Instant>>>,
    /// Writes, counted from 0, that are neither answered nor stored.
    silent: std::ops::Range<usize>,
    /// Writes, counted from 0, that are answered with 500 and not stored.
    refused: std::ops::Range<usize>,
    /// Time between storing a write and answering it.
    slow: Duration,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<RequestBody>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Client::in_process(service, ())
    }

    async fn answer(&self, request: Request<RequestBody>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let whole = |code: u16, body: &Value| {
            let body = Full::new(Bytes::from(body.to_string()));
            Response::builder().status(code).body(body).unwrap()
        };
        if head.method != Method::GET {
            let number = {
                let mut writes = self.writes.lock().unwrap();
                writes.push(Instant::now());
                writes.len() - 1
            };
            if self.silent.contains(&number) {
                std::future::pending::<()>().await;
            }
            let body = body.collect().await.unwrap().to_bytes();
            let mut lease: Value = serde_json::from_slice(&body).unwrap();
            lease["metadata"]["resourceVersion"] = json!((number + 1).to_string());
            lease["metadata"]["uid"] = json!("u");
            if self.refused.contains(&number) {
                let status = json!({"kind": "Status", "code": 500, "reason": "InternalError"});
                return whole(500, &status);
            }
            *self.lease.lock().unwrap() = Some(lease.clone());
            tokio::time::sleep(self.slow).await;
            return whole(200, &lease);
        }
        let lease = self.lease.lock().unwrap().clone();
        let is_lease = head.uri.path().contains("/leases/");
        match lease.filter(|_| is_lease) {
            Some(lease) => whole(200, &lease),
            None => whole(
                404,
                &json!({"kind": "Status", "code": 404, "reason": "NotFound"}),
            ),
        }
    }

    /// The longest time between writes that were made.
    fn longest(&self) -> Duration {
        let writes = self.writes.lock().unwrap();
        let made = writes.iter().enumerate();
        let made: Vec<_> = made
            .filter(|(number, _)| !self.silent.contains(number))
            .map(|(_, at)| *at)
            .collect();
        let pauses = made.windows(2).map(|pair| pair[1] - pair[0]);
        pauses.max().unwrap_or_default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_lives_though_renewals_remain_without_an_answer() {
    let server = Server {
        silent: 5..7,
        ..Server::default()
    };
    let (client, shutdown) = (server.client(), CancellationToken::new());
    let lease = NodeLease::new("n");
    let kept = async {
        tokio::time::sleep(Duration::from_secs(300)).await;
        shutdown.cancel();
    };
    tokio::join!(lease.keep(&client, &shutdown), kept);
    let count = server.writes.lock().unwrap().len();
    assert!(count > 20, "{count} renewals in 300 s");
    let longest = server.longest();
    assert!(longest < lease.duration, "{longest:?} without a renewal");
}

#[tokio::test(start_paused = true)]
async fn a_node_renews_its_lease_within_a_second_after_the_server_is_back() {
    let (server, back) = (Server::default(), Instant::now() + Duration::from_secs(300));
    let service = {
        let server = server.clone();
        service_fn(move |request: Request<RequestBody>| {
            let server = server.clone();
            async move {
                if Instant::now() < back {
                    return Err(ConnectionError {
                        server: "https://10.0.0.1:6443".to_owned(),
                        reason: "tcp connect error: Connection refused".to_owned(),
                        is_tls: false,
                    });
                }
                Ok(server.answer(request).await)
            }
        })
    };
    let (client, shutdown) = (Client::in_process(service, ()), CancellationToken::new());
    let kept = async {
        tokio::time::sleep_until(back + Duration::from_secs(30)).await;
        shutdown.cancel();
    };
    let lease = NodeLease::new("n");
    tokio::join!(lease.keep(&client, &shutdown), kept);
    let late = server.writes.lock().unwrap()[0] - back;
    assert!(late <= Duration::from_secs(1), "{late:?} after the return");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_renewal_remains_without_an_answer_tries_again_in_time() {
    let server = Server {
        silent: 3..4,
        ..Server::default()
    };
    let (client, shutdown) = (server.client(), CancellationToken::new());
    let election = Election::new("kube-system", "one", "me");
    let led = election
        .lead(&client, &shutdown, async |stop| {
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(Duration::from_secs(60)) => {}
            }
        })
        .await;
    assert_eq!(led, LeadershipEnd::Finished);
    let longest = server.longest();
    assert!(longest < election.renew_deadline * 8 / 10, "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_gets_no_answer_steps_down_in_time() {
    let server = Server {
        silent: 3..usize::MAX,
        ..Server::default()
    };
    let (client, shutdown) = (server.client(), CancellationToken::new());
    let election = Election::new("kube-system", "one", "me");
    let led = election
        .lead(&client, &shutdown, async |stop| stop.cancelled().await)
        .await;
    assert_eq!(led, LeadershipEnd::Lost);
    let since = server.writes.lock().unwrap()[2].elapsed();
    assert!(since <= election.renew_deadline, "{since:?}");
}

/// Returns how long after the third write, the last that is stored, the leader steps down.
async fn steps_down_after(server: Server) -> Duration {
    let (client, shutdown) = (server.client(), CancellationToken::new());
    let election = Election::new("kube-system", "one", "me");
    let led = election
        .lead(&client, &shutdown, async |stop| stop.cancelled().await)
        .await;
    assert_eq!(led, LeadershipEnd::Lost);
    server.writes.lock().unwrap()[2].elapsed()
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_from_the_request_and_not_from_its_answer() {
    let since = steps_down_after(Server {
        silent: 3..usize::MAX,
        slow: Duration::from_secs(4),
        ..Server::default()
    });
    let since = since.await;
    assert!(since <= Duration::from_secs(10), "{since:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_renewals_are_refused_does_not_outstay_its_deadline() {
    let since = steps_down_after(Server {
        refused: 3..usize::MAX,
        ..Server::default()
    });
    let since = since.await;
    assert!(since <= Duration::from_secs(10), "{since:?}");
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_end_is_dropped_before_the_lease_runs_out() {
    let server = Server {
        silent: 3..usize::MAX,
        ..Server::default()
    };
    let (client, shutdown) = (server.client(), CancellationToken::new());
    let election = Election::new("kube-system", "one", "me");
    let led = election.lead(&client, &shutdown, async |_stop| {
        std::future::pending::<()>().await;
    });
    let led = tokio::time::timeout(Duration::from_secs(3600), led).await;
    assert_eq!(led, Ok(LeadershipEnd::Lost));
    let since = server.writes.lock().unwrap()[2].elapsed();
    assert!(since < election.lease_duration, "{since:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_work_does_not_end_at_shutdown_does_not_release_its_lease() {
    let server = Server::default();
    let (client, shutdown) = (server.client(), CancellationToken::new());
    let election = Election::new("kube-system", "one", "me");
    let end = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        shutdown.cancel();
    };
    let led = election.lead(&client, &shutdown, async |_stop| {
        std::future::pending::<()>().await;
    });
    let led = tokio::time::timeout(Duration::from_secs(3600), led);
    let (led, ()) = tokio::join!(led, end);
    assert_eq!(led, Ok(LeadershipEnd::Shutdown));
    let lease = server.lease.lock().unwrap().clone().unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "me");
}
