//! Custom connections to members of etcd and observers of calls. The member is a stand-in
//! that refuses everything; `etcd.rs` uses a real etcd.

use std::any::Any;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use control_store::Error;
use control_store::etcd::{Calls, Dial, Etcd, EtcdOptions, Io};
use futures::future::{BoxFuture, FutureExt};
use http::{HeaderMap, Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};

/// The calls that the members received, and the hosts that were dialed.
#[derive(Default)]
struct Seen {
    dialed: Mutex<Vec<(String, u16)>>,
    headers: Mutex<Vec<(String, String)>>,
    open: AtomicU32,
}

/// Connects to a stand-in for a member.
struct ByPipe(Arc<Seen>);

impl Dial for ByPipe {
    fn dial(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
        let seen = Arc::clone(&self.0);
        seen.dialed
            .lock()
            .expect("a lock")
            .push((host.to_owned(), port));
        async move {
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let told = request.headers().get("x-told").expect("told");
                let told = told.to_str().expect("text").to_owned();
                let path = request.uri().path().to_owned();
                seen.headers.lock().expect("a lock").push((path, told));
                async {
                    let refusal = Response::builder()
                        .header("content-type", "application/grpc")
                        .header("grpc-status", "7")
                        .header("grpc-message", "not you")
                        .body(Empty::<Bytes>::new());
                    Ok::<_, Infallible>(refusal.expect("a response"))
                }
            });
            let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(theirs), service);
            tokio::spawn(serving);
            Ok(Box::new(ours) as Box<dyn Io>)
        }
        .boxed()
    }
}

/// Counts calls that are open.
struct Told(Arc<Seen>);

struct Open(Arc<Seen>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Calls for Told {
    fn begins(&self, path: &str, headers: &mut HeaderMap) -> Option<Box<dyn Any + Send>> {
        self.0.open.fetch_add(1, Ordering::SeqCst);
        headers.insert("x-told", path.parse().expect("a value"));
        Some(Box::new(Open(Arc::clone(&self.0))))
    }
}

#[tokio::test]
async fn members_are_reached_by_who_connects_and_told_of_what_calls_belong_to() {
    let seen = Arc::<Seen>::default();
    let options = EtcdOptions {
        endpoints: ["http://one.invalid:1", "two.invalid:2"]
            .map(str::to_owned)
            .into(),
        dial: Some(Arc::new(ByPipe(Arc::clone(&seen)))),
        calls: Some(Arc::new(Told(Arc::clone(&seen)))),
        ..EtcdOptions::default()
    };
    let mut members = Vec::new();
    // Each connection begins with another member.
    for _ in 0..2 {
        let error = Etcd::connect(options.clone()).await.expect_err("refused");
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        members.extend(std::mem::take(&mut *seen.dialed.lock().expect("a lock")));
    }
    assert!(!members.is_empty());
    let known = [("one.invalid".to_owned(), 1), ("two.invalid".to_owned(), 2)];
    assert!(members.iter().all(|one| known.contains(one)), "{members:?}");
    let headers = seen.headers.lock().expect("a lock").clone();
    let range = "/etcdserverpb.KV/Range".to_owned();
    assert_eq!(headers.first(), Some(&(range.clone(), range)));
    // Whoever asks for a leader meanwhile hears of the end a moment later.
    for _ in 0..100 {
        if seen.open.load(Ordering::SeqCst) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} calls are open", seen.open.load(Ordering::SeqCst));
}

#[tokio::test]
async fn nobody_at_the_end_of_a_way_is_told_with_the_members() {
    struct Nobody;

    impl Dial for Nobody {
        fn dial(&self, _: &str, _: u16) -> BoxFuture<'static, io::Result<Box<dyn Io>>> {
            async { Err(io::Error::other("no way")) }.boxed()
        }
    }

    let options = EtcdOptions {
        endpoints: vec!["http://one.invalid:1".to_owned()],
        dial: Some(Arc::new(Nobody)),
        ..EtcdOptions::default()
    };
    let error = Etcd::connect(options).await.expect_err("nobody");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("one.invalid:1"), "{error}");
}
