//! Paths that the kubelet does not know: what else this agent can be asked.
//!
//! Whoever may use the node's `proxy` subresource may ask
//! ([`access`](super::access)), as for all paths of no other subresource.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Response, StatusCode};
use tokio::sync::mpsc;

use super::{Body, reply, streamed};

/// A GET request to an additional endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointRequest {
    /// The path's first word.
    pub what: String,
    /// The query's pairs, decoded.
    pub query: Vec<(String, String)>,
}

/// The response of an additional endpoint.
#[derive(Debug)]
pub enum EndpointResponse {
    /// JSON.
    Json(String),
    /// Lines, as they come, until the sender is dropped.
    Lines(mpsc::Receiver<Bytes>),
    /// The question cannot be answered.
    Not(StatusCode, String),
}

/// A pending response; `None` for an unknown path.
type EndpointFuture = BoxFuture<'static, Option<EndpointResponse>>;

/// Serves endpoints besides the kubelet's.
#[derive(Clone)]
pub struct ExtraEndpoints(Arc<dyn Fn(EndpointRequest) -> EndpointFuture + Send + Sync>);

impl ExtraEndpoints {
    /// Answers by that; none: the path is unknown.
    pub fn new<F, A>(answer: F) -> Self
    where
        F: Fn(EndpointRequest) -> A + Send + Sync + 'static,
        A: Future<Output = Option<EndpointResponse>> + Send + 'static,
    {
        Self(Arc::new(move |question| Box::pin(answer(question))))
    }
}

impl fmt::Debug for ExtraEndpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Further").finish_non_exhaustive()
    }
}

/// Families of metrics in the text format that are not the kubelet's.
#[derive(Clone)]
pub struct FurtherMetrics(Arc<dyn Fn() -> String + Send + Sync>);

impl FurtherMetrics {
    /// Shows what that returns, each time that somebody asks.
    pub fn new(families: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(families))
    }

    /// Returns the families as they are now.
    pub(super) fn families(&self) -> String {
        (self.0)()
    }
}

impl fmt::Debug for FurtherMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FurtherMetrics").finish_non_exhaustive()
    }
}

/// The answer to a path, if it is one of those.
pub(super) async fn answer(
    further: Option<&ExtraEndpoints>,
    parts: &[&str],
    query: Option<&str>,
) -> Option<Response<Body>> {
    let [what] = parts else {
        return None;
    };
    let question = EndpointRequest {
        what: (*what).to_owned(),
        query: super::query(query),
    };
    let answer = (further?.0)(question).await?;
    Some(match answer {
        EndpointResponse::Json(text) => reply(StatusCode::OK, "application/json", text),
        EndpointResponse::Lines(lines) => streamed(lines),
        EndpointResponse::Not(status, why) => super::text(status, why + "\n"),
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn further_paths_are_answered_and_others_are_not_found() {
        let further = ExtraEndpoints::new(|question: EndpointRequest| async move {
            match question.what.as_str() {
                "echo" => Some(EndpointResponse::Json(format!("{:?}", question.query))),
                "no" => Some(EndpointResponse::Not(
                    StatusCode::BAD_REQUEST,
                    "why".to_owned(),
                )),
                _ => None,
            }
        });
        let asked = |parts: &'static [&'static str]| {
            let further = further.clone();
            async move {
                let answer = answer(Some(&further), parts, Some("a=%2F")).await?;
                let status = answer.status().as_u16();
                let body = answer.into_body().collect().await.expect("a body");
                let text = String::from_utf8(body.to_bytes().to_vec()).expect("text");
                Some((status, text))
            }
        };
        assert_eq!(
            asked(&["echo"]).await,
            Some((200, r#"[("a", "/")]"#.to_owned()))
        );
        assert_eq!(asked(&["no"]).await, Some((400, "why\n".to_owned())));
        assert_eq!(asked(&["other"]).await, None);
        assert_eq!(asked(&["echo", "more"]).await, None);
        assert!(answer(None, &["echo"], None).await.is_none());
    }
}
