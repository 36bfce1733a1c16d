//! Tests that the embedded store answers any history of requests as a real etcd does (`$ETCD`, or
//! the one on the PATH): responses, codes and texts of errors, and the events of watches from
//! every revision. Without etcd, the tests are skipped with a message.

mod common;

use bytes::Bytes;
use common::{Client, Etcd, Server, find};
use control_etcd_api::messages as pb;
use futures::stream::{self, StreamExt as _};
use proptest::prelude::*;
use proptest::sample::Index;
use tonic::Status;

/// Keys that are prefixes of each other, and hold zero bytes and 0xff.
const KEYS: [&[u8]; 8] = [
    b"/a/",
    b"/a/x",
    b"/a/x\0",
    b"/a/x\0\0\0\0\0\0\0\x07",
    b"/a/y",
    b"/b/\xff",
    b"/b/\xff\xff",
    b"\xff",
];
/// Written last, so that a watch knows its end.
const LAST_KEY: &[u8] = b"\xff\xff\xff";
/// The end of an interval that has none.
const OPEN: &[u8] = b"\0";
const LEASES: [i64; 3] = [7, 1 << 40, i64::MAX];

#[derive(Clone, Debug)]
enum Request {
    Range(pb::RangeRequest, Back),
    Put(pb::PutRequest),
    Delete(pb::DeleteRangeRequest),
    Txn(pb::TxnRequest, Back),
    Compact(u64),
    Grant(i64),
    Revoke(i64),
    TimeToLive(i64),
    Leases,
}

/// How far from the newest revision a query looks: back, or ahead if negative.
type Back = Option<i64>;

fn key() -> impl Strategy<Value = Bytes> {
    (0..KEYS.len()).prop_map(|index| Bytes::from_static(KEYS[index]))
}

fn lease() -> impl Strategy<Value = i64> {
    (0..LEASES.len()).prop_map(|index| LEASES[index])
}

/// An end: none, the key itself, an interval that may be empty, all keys from here.
fn range_end() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        4 => Just(Bytes::new()),
        5 => key(),
        1 => Just(Bytes::from_static(b"/b")),
    ]
}

fn any_range_end() -> impl Strategy<Value = Bytes> {
    prop_oneof![4 => range_end(), 2 => Just(Bytes::from_static(OPEN))]
}

fn range() -> impl Strategy<Value = pb::RangeRequest> {
    let bound = || prop_oneof![5 => Just(0i64), 1 => 1..30i64];
    (
        (key(), any_range_end(), 0..5i64),
        (
            0..3i32,
            0..5i32,
            prop::bool::weighted(0.2),
            prop::bool::weighted(0.1),
        ),
        (bound(), bound(), bound(), bound()),
    )
        .prop_map(
            |((key, range_end, limit), (order, target, keys_only, count_only), bounds)| {
                pb::RangeRequest {
                    key,
                    range_end,
                    limit,
                    sort_order: order,
                    sort_target: target,
                    keys_only,
                    count_only,
                    min_mod_revision: bounds.0,
                    max_mod_revision: bounds.1,
                    min_create_revision: bounds.2,
                    max_create_revision: bounds.3,
                    ..pb::RangeRequest::default()
                }
            },
        )
}

fn put() -> impl Strategy<Value = pb::PutRequest> {
    let value = prop::collection::vec(any::<u8>(), 0..12).prop_map(Bytes::from);
    let lease = prop_oneof![4 => Just(0), 2 => lease()];
    (key(), value, lease, any::<bool>(), 0..8u8).prop_map(|(key, value, lease, prev_kv, ignore)| {
        let request = pb::PutRequest {
            key,
            prev_kv,
            ..pb::PutRequest::default()
        };
        match ignore {
            0 => pb::PutRequest {
                ignore_value: true,
                ..request
            },
            1 => pb::PutRequest {
                value,
                ignore_lease: true,
                ..request
            },
            _ => pb::PutRequest {
                value,
                lease,
                ..request
            },
        }
    })
}

fn delete(end: impl Strategy<Value = Bytes>) -> impl Strategy<Value = pb::DeleteRangeRequest> {
    (key(), end, any::<bool>()).prop_map(|(key, range_end, prev_kv)| pb::DeleteRangeRequest {
        key,
        range_end,
        prev_kv,
    })
}

fn compare() -> impl Strategy<Value = pb::Compare> {
    (
        key(),
        prop_oneof![4 => Just(Bytes::new()), 1 => key()],
        0..4i32,
        0..5i32,
        0..20i64,
        prop::collection::vec(any::<u8>(), 0..2),
    )
        .prop_map(|(key, range_end, result, target, number, value)| {
            let compare = pb::Compare {
                key,
                range_end,
                result,
                target,
                ..pb::Compare::default()
            };
            match target {
                0 => pb::Compare {
                    version: number % 4,
                    ..compare
                },
                1 => pb::Compare {
                    create_revision: number,
                    ..compare
                },
                2 => pb::Compare {
                    mod_revision: number,
                    ..compare
                },
                3 => pb::Compare {
                    value: value.into(),
                    ..compare
                },
                _ => pb::Compare {
                    lease: if number < 10 { 0 } else { LEASES[0] },
                    ..compare
                },
            }
        })
}

fn op() -> impl Strategy<Value = pb::RequestOp> {
    prop_oneof![
        2 => range().prop_map(|request| pb::RequestOp {
            request_range: Some(request),
            ..pb::RequestOp::default()
        }),
        4 => put().prop_map(|request| pb::RequestOp {
            request_put: Some(request),
            ..pb::RequestOp::default()
        }),
        // etcd takes the end of an open interval for a key when it looks for keys that are
        // changed twice, and lets such a transaction pass.
        2 => delete(range_end()).prop_map(|request| pb::RequestOp {
            request_delete_range: Some(request),
            ..pb::RequestOp::default()
        }),
    ]
}

fn txn() -> impl Strategy<Value = pb::TxnRequest> {
    let level = |op: BoxedStrategy<pb::RequestOp>| {
        (
            prop::collection::vec(compare(), 0..3),
            prop::collection::vec(op.clone(), 0..4),
            prop::collection::vec(op, 0..4),
        )
            .prop_map(|(compare, success, failure)| pb::TxnRequest {
                compare,
                success,
                failure,
            })
    };
    let inner = level(op().boxed()).prop_map(|request| pb::RequestOp {
        request_txn: Some(request),
        ..pb::RequestOp::default()
    });
    level(prop_oneof![6 => op(), 1 => inner].boxed())
}

fn back() -> impl Strategy<Value = Back> {
    prop_oneof![3 => Just(None), 3 => (-1..12i64).prop_map(Some)]
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let request = prop_oneof![
        6 => put().prop_map(Request::Put),
        3 => delete(any_range_end()).prop_map(Request::Delete),
        6 => (range(), back()).prop_map(|(request, back)| Request::Range(request, back)),
        8 => (txn(), back()).prop_map(|(request, back)| Request::Txn(request, back)),
        1 => (0..10u64).prop_map(Request::Compact),
        2 => lease().prop_map(Request::Grant),
        1 => lease().prop_map(Request::Revoke),
        1 => lease().prop_map(Request::TimeToLive),
        1 => Just(Request::Leases),
    ];
    prop::collection::vec(request, 20..120)
}

/// What is compared of an answer.
type Outcome<T> = Result<T, (tonic::Code, String)>;

fn outcome<T>(answer: Result<T, Status>, normalize: impl FnOnce(&mut T)) -> Outcome<T> {
    answer
        .map(|mut answer| {
            normalize(&mut answer);
            answer
        })
        .map_err(|status| (status.code(), status.message().to_owned()))
}

/// Leaves the revision alone: the rest names the member.
fn strip(header: &mut Option<pb::ResponseHeader>) {
    if let Some(header) = header {
        *header = pb::ResponseHeader {
            revision: header.revision,
            ..pb::ResponseHeader::default()
        };
    }
}

/// Sends a request, and prints its answer in a form that does not name the server.
async fn answer(client: &Client, request: &Request, revision: i64) -> String {
    let at = |back: &Back| back.map_or(0, |back| (revision - back).max(1));
    match request.clone() {
        Request::Range(mut request, back) => {
            request.revision = at(&back);
            let answer = client.range(request).await;
            format!("{:?}", outcome(answer, |it| strip(&mut it.header)))
        }
        Request::Put(request) => {
            let answer = client.put(request).await;
            format!("{:?}", outcome(answer, |it| strip(&mut it.header)))
        }
        Request::Delete(request) => {
            let answer = client.delete_range(request).await;
            format!("{:?}", outcome(answer, |it| strip(&mut it.header)))
        }
        Request::Txn(mut request, back) => {
            let ops = request.success.iter_mut().chain(&mut request.failure);
            for range in ops.filter_map(|op| op.request_range.as_mut()) {
                range.revision = at(&back);
            }
            let answer = client.txn(request).await;
            format!("{:?}", outcome(answer, |it| strip(&mut it.header)))
        }
        Request::Compact(back) => {
            let revision = revision - i64::try_from(back).expect("small");
            if revision < 2 {
                return String::new();
            }
            let request = pb::CompactionRequest {
                revision,
                // Done when it is answered.
                physical: true,
            };
            let answer = client.compact(request).await;
            format!("{:?}", outcome(answer, |it| strip(&mut it.header)))
        }
        Request::Grant(id) => {
            let request = pb::LeaseGrantRequest { ttl: 1000, id };
            let answer = client.grant(request).await;
            format!("{:?}", outcome(answer, |it| strip(&mut it.header)))
        }
        Request::Revoke(id) => {
            let answer = client.revoke(pb::LeaseRevokeRequest { id }).await;
            format!("{:?}", outcome(answer, |it| strip(&mut it.header)))
        }
        Request::TimeToLive(id) => {
            let request = pb::LeaseTimeToLiveRequest { id, keys: true };
            let answer = client.time_to_live(request).await;
            let normalized = outcome(answer, |it| {
                strip(&mut it.header);
                it.keys.sort();
                // Seconds may pass.
                it.ttl = if it.ttl > 900 { 1000 } else { it.ttl };
            });
            format!("{normalized:?}")
        }
        Request::Leases => {
            let answer = client.leases(pb::LeaseLeasesRequest {}).await;
            let normalized = outcome(answer, |it| {
                strip(&mut it.header);
                it.leases.sort_by_key(|lease| lease.id);
            });
            format!("{normalized:?}")
        }
    }
}

/// What a watch from a revision on delivers until the last key is written, or the
/// revision before which the past is forgotten.
async fn watched(client: &Client, start_revision: i64, key: Bytes, filters: Vec<i32>) -> String {
    let request = pb::WatchRequest {
        create_request: Some(pb::WatchCreateRequest {
            key,
            range_end: Bytes::from_static(OPEN),
            start_revision,
            prev_kv: true,
            filters,
            ..pb::WatchCreateRequest::default()
        }),
        ..pb::WatchRequest::default()
    };
    let requests = stream::iter([request]).chain(stream::pending());
    let mut answers = client.watch(requests).await.expect("a stream");
    let mut events = Vec::new();
    loop {
        let next = tokio::time::timeout(std::time::Duration::from_secs(20), answers.message());
        let Ok(message) = next.await else {
            return format!("nothing more after {events:?}");
        };
        let answer = message.expect("no error").expect("no end");
        assert!(!answer.created || answer.events.is_empty());
        if answer.canceled {
            return format!("compacted {} after {events:?}", answer.compact_revision);
        }
        let is_last = |event: &pb::Event| event.kv.as_ref().is_some_and(|kv| kv.key == LAST_KEY);
        let ends = answer.events.iter().any(is_last);
        events.extend(answer.events);
        if ends {
            return format!("{events:?}");
        }
    }
}

async fn revision(client: &Client) -> i64 {
    let request = pb::RangeRequest {
        key: Bytes::from_static(KEYS[0]),
        ..pb::RangeRequest::default()
    };
    let answer = client.range(request).await.expect("an answer");
    answer.header.expect("a header").revision
}

async fn compare_histories(
    program: &std::path::Path,
    requests: Vec<Request>,
    starts: Vec<(Index, Bytes)>,
) -> Result<(), TestCaseError> {
    let etcd = Etcd::start(program);
    let theirs = etcd.connect().await;
    let server = Server::start().await;
    let ours = server.connect().await;
    for request in &requests {
        let now = revision(&theirs).await;
        let expected = answer(&theirs, request, now).await;
        prop_assert_eq!(answer(&ours, request, now).await, expected, "{:?}", request);
    }
    let last = Request::Put(pb::PutRequest {
        key: Bytes::from_static(LAST_KEY),
        ..pb::PutRequest::default()
    });
    let now = revision(&theirs).await;
    prop_assert_eq!(
        answer(&ours, &last, now).await,
        answer(&theirs, &last, now).await
    );
    for (start, key) in starts {
        let start = i64::try_from(start.index(usize::try_from(now).expect("small") + 1))
            .expect("small")
            + 1;
        let filters = if start % 3 == 0 { vec![1] } else { Vec::new() };
        let expected = watched(&theirs, start, key.clone(), filters.clone()).await;
        prop_assert_eq!(
            watched(&ours, start, key, filters).await,
            expected,
            "watch from revision {}",
            start
        );
    }
    Ok(())
}

proptest! {
    // Each case has an etcd of its own.
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_history_gets_the_answers_of_etcd(
        requests in requests(),
        starts in prop::collection::vec((any::<Index>(), key()), 6),
    ) {
        let Some(program) = find("ETCD", "etcd") else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(compare_histories(&program, requests, starts))?;
    }
}
