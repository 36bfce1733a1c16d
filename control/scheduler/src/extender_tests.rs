//! Tests requests to extenders, and the interpretation of their responses.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http_body_util::BodyExt;
use tower::service_fn;

use super::*;

/// An extender with scripted responses that records its requests.
fn extender(config: Value, answer: Value) -> (Extender, Arc<Mutex<Vec<(String, Value)>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let service = service_fn(move |request: http::Request<control_client::RequestBody>| {
        let (seen, answer) = (Arc::clone(&seen), answer.clone());
        async move {
            let path = request.uri().path().to_owned();
            let body = request
                .into_body()
                .collect()
                .await
                .expect("a body")
                .to_bytes();
            let body = serde_json::from_slice(&body).expect("arguments");
            seen.lock().unwrap().push((path, body));
            let body = http_body_util::Full::new(bytes::Bytes::from(answer.to_string()));
            Ok::<_, Infallible>(http::Response::new(body))
        }
    });
    let extender = Extender {
        config: serde_json::from_value(config).expect("a configuration"),
        client: Client::in_process(service, ()),
        timeout: TIMEOUT,
    };
    (extender, asked)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn a_filter_is_asked_with_names_or_whole_nodes() {
    let pod = json!({"metadata": {"name": "p"}});
    let answer = json!({"nodeNames": ["a"], "FailedNodes": {"b": "full", "c": "both"},
        "failedAndUnresolvableNodes": {"c": "never"}, "Error": ""});
    let config = json!({"filterVerb": "filter", "nodeCacheCapable": true});
    let (by_name, asked) = extender(config, answer);
    let filtered = by_name
        .filter(&pod, names(&["a", "b", "c"]), |_| Vec::new())
        .await
        .unwrap();
    assert_eq!(filtered.left, ["a"]);
    assert_eq!(
        filtered.failed,
        [("b".to_owned(), "full".to_owned())].into()
    );
    assert_eq!(
        filtered.unresolvable,
        [("c".to_owned(), "never".to_owned())].into()
    );
    let (path, args) = asked.lock().unwrap()[0].clone();
    assert_eq!(path, "/filter");
    assert_eq!(
        args,
        json!({"Pod": pod, "Nodes": null, "NodeNames": ["a", "b", "c"]})
    );

    let answer = json!({"nodes": {"items": [{"metadata": {"name": "b"}}]}});
    let (whole, asked) = extender(json!({"filterVerb": "filter"}), answer);
    let nodes = |names: &[String]| {
        names
            .iter()
            .map(|it| json!({"metadata": {"name": it}}))
            .collect()
    };
    let filtered = whole.filter(&pod, names(&["a", "b"]), nodes).await.unwrap();
    assert_eq!(filtered.left, ["b"]);
    let args = asked.lock().unwrap()[0].1.clone();
    assert_eq!(args["Nodes"]["items"][1]["metadata"]["name"], "b");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let pod = json!({});
    for (answer, message) in [
        (json!({"error": "down"}), "down"),
        (
            json!({"nodenames": ["z"]}),
            "extender \"http://x\" claims a filtered node \"z\" which is not found in the input node list",
        ),
    ] {
        let config = json!({"urlPrefix": "http://x", "filterVerb": "f", "nodeCacheCapable": true});
        let (extender, _) = extender(config, answer);
        let refused = extender.filter(&pod, names(&["a"]), |_| Vec::new()).await;
        assert_eq!(refused.unwrap_err().to_string(), message);
    }
}

#[tokio::test]
async fn scores_are_scaled_and_weighted() {
    let answer = json!([{"Host": "a", "Score": 3}, {"host": "b", "score": 0}]);
    let config = json!({"prioritizeVerb": "score", "weight": 2, "nodeCacheCapable": true});
    let (extender, _) = extender(config, answer);
    let scores = extender
        .prioritize(&json!({}), &names(&["a", "b"]), |_| Vec::new())
        .await;
    assert_eq!(scores.unwrap(), [("a".to_owned(), 60), ("b".to_owned(), 0)]);
}

#[tokio::test]
async fn victims_are_judged_and_pods_are_bound() {
    let answer = json!({"NodeNameToMetaVictims": {
        "a": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}});
    let (judge, asked) = extender(json!({"preemptVerb": "preempt"}), answer);
    let victims = VictimsByNode::from([
        ("a".to_owned(), (names(&["u", "v"]), 0)),
        ("b".to_owned(), (names(&["w"]), 0)),
    ]);
    let agreed = judge.preempt(&json!({}), &victims).await.unwrap();
    assert_eq!(agreed, [("a".to_owned(), (names(&["u"]), 1))].into());
    let args = asked.lock().unwrap()[0].1.clone();
    assert_eq!(
        args["NodeNameToMetaVictims"]["b"]["Pods"],
        json!([{"UID": "w"}])
    );

    let pod: Pod = serde_json::from_value(json!({"metadata": {
        "name": "p", "namespace": "n", "uid": "u"}}))
    .unwrap();
    let (binder, asked) = extender(json!({"bindVerb": "bind"}), json!({"Error": ""}));
    binder.bind(&pod, "a").await.unwrap();
    let (path, args) = asked.lock().unwrap()[0].clone();
    assert_eq!(path, "/bind");
    assert_eq!(
        args,
        json!({"PodName": "p", "PodNamespace": "n", "PodUID": "u", "Node": "a"})
    );
}

#[tokio::test]
async fn only_pods_with_a_managed_resource_are_of_interest() {
    let config = json!({"managedResources": [{"name": "example.com/gpu"}]});
    let (extender, _) = extender(config, json!({}));
    let asking = |name: &str| -> Pod {
        let spec = json!({"containers": [{"resources": {"requests": {name: 1}}}]});
        serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()
    };
    assert!(extender.is_interested(&asking("example.com/gpu")));
    assert!(!extender.is_interested(&asking("cpu")));
}

#[tokio::test]
async fn an_extender_is_reached_over_http_below_its_prefix() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        // the arguments end with the last brace
        while !request.ends_with(b"}") {
            let mut part = [0; 4096];
            let length = stream.read(&mut part).await.unwrap();
            assert_ne!(length, 0, "the request is cut off");
            request.extend_from_slice(&part[..length]);
        }
        let answer = json!({"NodeNames": ["a"]}).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            answer.len()
        );
        stream.write_all((head + &answer).as_bytes()).await.unwrap();
        String::from_utf8(request).unwrap()
    });
    let config = json!({
        "urlPrefix": format!("http://{address}/scheduler/"), "filterVerb": "filter",
        "nodeCacheCapable": true, "httpTimeout": "30s",
    });
    let extender = Extender::connect(serde_json::from_value(config).unwrap())
        .await
        .unwrap();
    assert_eq!(extender.timeout, Duration::from_secs(30));
    let pod = json!({});
    let filtered = extender
        .filter(&pod, names(&["a", "b"]), |_| Vec::new())
        .await
        .unwrap();
    assert_eq!(filtered.left, ["a"]);
    let request = server.await.unwrap();
    assert!(
        request.starts_with("POST /scheduler/filter HTTP/1.1\r\n"),
        "{request}"
    );
}
