//! `pods/log`: what a container wrote, from its node.

use std::fmt::Write as _;
use std::sync::Arc;

use control_streams::websocket;
use control_types::meta;
use control_types::status::{Cause, Details, Status, quote};
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use crate::admit::flag;
use crate::connector::Connector;
use crate::node;
use control_proxy::egress::client::explain;
use control_proxy::forward;
use control_proxy::streams::text;
use control_registry::{Context, ServedResource};
use control_request::{Answer, body, pairs, plain_error};

/// So much of a node's refusal is read at most, in bytes.
const LONGEST_REFUSAL: usize = 50_000;

/// What of a log is wanted: `v1.PodLogOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LogOptions {
    container: String,
    follow: bool,
    previous: bool,
    timestamps: bool,
    since_seconds: Option<i64>,
    since_time: Option<jiff::Timestamp>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    stream: Option<String>,
    skip_verification: bool,
}

impl Connector {
    /// Answers a container's log.
    ///
    /// # Errors
    /// 400 for options that cannot be read, for a container that the pod does not
    /// have and for one that has not started; 422 for options that make no sense;
    /// 404; what the node says.
    pub async fn log(&self, context: &Context, served: &Arc<ServedResource>) -> Answer {
        let name = &context.info.name;
        let options = LogOptions::parse(context.query())?;
        let causes = options.causes();
        if !causes.is_empty() {
            return Err(Status::invalid("", "PodLogOptions", name, causes));
        }
        let pod = node::pod(context, served).await?;
        let container = node::container(&pod, &options.container)?;
        let Some(endpoint) = node::endpoint_of_pod(context, &pod).await? else {
            // Not on a node yet: there is no log, and that is no error.
            let mut response = Response::new(body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            return Ok(response);
        };
        let target = self
            .kubelets()?
            .target(&endpoint, !options.skip_verification);
        let path = format!(
            "/containerLogs/{}/{}/{container}{}",
            meta::namespace(&pod),
            meta::name(&pod),
            options.query()
        );
        let url = format!("https://{}{path}", target.address());
        let failed = |error: &dyn std::fmt::Display| plain_error(format!("Get \"{url}\": {error}"));
        let mut request = Request::new(body::empty());
        *request.uri_mut() = path.parse().map_err(|error| failed(&error))?;
        let host = HeaderValue::from_str(&target.address()).map_err(|error| failed(&error))?;
        request.headers_mut().insert(HOST, host);
        let answer = target.send(request).await;
        let answer = answer.map_err(|error| failed(&explain(&error)))?;
        if !(200..=206).contains(&answer.status().as_u16()) {
            return Err(refusal(answer, name).await);
        }
        let log = forward::until(answer.into_body(), context.ending().clone());
        if websocket::is_asked(&context.parts.method, &context.parts.headers) {
            return text::send(context.proxied(), log);
        }
        let mut response = Response::new(log);
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        Ok(response)
    }
}

/// A node's refusal as a status.
async fn refusal(answer: Response<Incoming>, name: &str) -> Status {
    let code = answer.status().as_u16();
    let text = match Limited::new(answer.into_body(), LONGEST_REFUSAL)
        .collect()
        .await
    {
        Ok(read) => String::from_utf8_lossy(&read.to_bytes()).into_owned(),
        Err(error) => return Status::internal(error),
    };
    match code {
        500 => Status::internal(text),
        400 => Status::bad_request(text),
        _ => generic(code, &text, name),
    }
}

/// A code from a node that has no words of its own here.
fn generic(code: u16, text: &str, name: &str) -> Status {
    let (reason, message) = match code {
        401 => (
            "Unauthorized",
            "the server has asked for the client to provide credentials".to_owned(),
        ),
        403 => ("Forbidden", text.to_owned()),
        404 => (
            "NotFound",
            "the server could not find the requested resource".to_owned(),
        ),
        405 => (
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource".to_owned(),
        ),
        422 => (
            "Invalid",
            "the server rejected our request due to an error in our request".to_owned(),
        ),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later"
                .to_owned(),
        ),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request".to_owned(),
        ),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned(),
        ),
        500.. => (
            "InternalError",
            format!(
                "an error on the server ({}) has prevented the request from succeeding",
                quote(text)
            ),
        ),
        _ => (
            "",
            format!(
                "the server responded with the status code {code} but did not return more information"
            ),
        ),
    };
    Status {
        code,
        reason: reason.into(),
        message: format!("{message} ( pods/log {name})"),
        details: Some(Details {
            name: name.to_owned(),
            kind: "pods/log".to_owned(),
            ..Details::default()
        }),
        continue_token: String::new(),
    }
}

// === impl LogOptions ===

impl LogOptions {
    fn parse(query: Option<&str>) -> Result<Self, Status> {
        let mut options = Self::default();
        let mut seen: Vec<String> = Vec::new();
        for (key, value) in pairs(query.unwrap_or_default()) {
            // The first of several values holds, as with stock.
            if seen.contains(&key) {
                continue;
            }
            match key.as_str() {
                "container" => options.container.clone_from(&value),
                "follow" => options.follow = flag(&value),
                "previous" => options.previous = flag(&value),
                "timestamps" => options.timestamps = flag(&value),
                "insecureSkipTLSVerifyBackend" => {
                    options.skip_verification = flag(&value);
                }
                "sinceSeconds" => options.since_seconds = Some(number(&value)?),
                "tailLines" => options.tail_lines = Some(number(&value)?),
                "limitBytes" => options.limit_bytes = Some(number(&value)?),
                "sinceTime" if !value.is_empty() => options.since_time = Some(time(&value)?),
                "stream" => options.stream = Some(value.clone()),
                _ => continue,
            }
            seen.push(key);
        }
        Ok(options)
    }

    fn causes(&self) -> Vec<Cause> {
        let mut causes = Vec::new();
        let mut invalid = |field: &str, value: i64, why: &str| {
            causes.push(Cause {
                reason: "FieldValueInvalid".into(),
                message: format!("Invalid value: {value}: {why}"),
                field: field.into(),
            });
        };
        if let Some(lines) = self.tail_lines.filter(|lines| *lines < 0) {
            invalid("tailLines", lines, "must be greater than or equal to 0");
        }
        if let Some(bytes) = self.limit_bytes.filter(|bytes| *bytes < 1) {
            invalid("limitBytes", bytes, "must be greater than 0");
        }
        if self.since_time.is_none()
            && let Some(seconds) = self.since_seconds.filter(|seconds| *seconds < 1)
        {
            invalid("sinceSeconds", seconds, "must be greater than 0");
        }
        let mut forbidden = |why: &str| {
            causes.push(Cause {
                reason: "FieldValueForbidden".into(),
                message: format!("Forbidden: {why}"),
                // Go's path of no field at all.
                field: "[]".into(),
            });
        };
        if self.since_seconds.is_some() && self.since_time.is_some() {
            forbidden("at most one of `sinceTime` or `sinceSeconds` may be specified");
        }
        if self.stream.is_some() {
            // Alpha in 1.36 (KEP-3288), and off.
            causes.push(Cause {
                reason: "FieldValueForbidden".into(),
                message: "Forbidden: may not be specified".into(),
                field: "stream".into(),
            });
        }
        causes
    }

    /// The query for the node: only values of known form.
    fn query(&self) -> String {
        let mut query = String::new();
        let mut add = |key: &str, value: &dyn std::fmt::Display| {
            let mark = if query.is_empty() { '?' } else { '&' };
            let _ = write!(query, "{mark}{key}={value}");
        };
        for (key, set) in [
            ("follow", self.follow),
            ("previous", self.previous),
            ("timestamps", self.timestamps),
        ] {
            if set {
                add(key, &true);
            }
        }
        for (key, value) in [
            ("sinceSeconds", self.since_seconds),
            ("tailLines", self.tail_lines),
            ("limitBytes", self.limit_bytes),
        ] {
            if let Some(value) = value {
                add(key, &value);
            }
        }
        if let Some(time) = self.since_time {
            add("sinceTime", &time.strftime("%Y-%m-%dT%H:%M:%SZ"));
        }
        query
    }
}

fn number(text: &str) -> Result<i64, Status> {
    text.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        Status::bad_request(format!("strconv.ParseInt: parsing {}: {why}", quote(text)))
    })
}

fn time(text: &str) -> Result<jiff::Timestamp, Status> {
    text.parse().map_err(|_| {
        let text = quote(text);
        Status::bad_request(format!(
            "parsing time {text} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text} as \"2006\""
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(query: &str) -> LogOptions {
        LogOptions::parse(Some(query)).expect("can be read")
    }

    #[test]
    fn every_parameter_reaches_the_node() {
        let options = options(
            "container=c&follow=true&previous=1&timestamps=&sinceSeconds=5&tailLines=10&limitBytes=99&pretty=1&follow=false",
        );
        assert_eq!(options.container, "c");
        assert!(options.causes().is_empty());
        assert_eq!(
            options.query(),
            "?follow=true&previous=true&timestamps=true&sinceSeconds=5&tailLines=10&limitBytes=99"
        );
        assert_eq!(LogOptions::default().query(), "");
    }

    #[test]
    fn a_time_is_passed_on_in_utc_and_whole_seconds() {
        let options = options("sinceTime=2026-11-21T15:00:00.5%2B01:00&follow=false");
        assert_eq!(options.query(), "?sinceTime=2026-11-21T14:00:00Z");
    }

    #[test]
    fn values_that_cannot_be_read_are_bad_requests() {
        for (query, message) in [
            (
                "tailLines=x",
                "strconv.ParseInt: parsing \"x\": invalid syntax",
            ),
            (
                "limitBytes=99999999999999999999",
                "strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
            ),
            (
                "sinceTime=today",
                "parsing time \"today\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"today\" as \"2006\"",
            ),
        ] {
            let status = LogOptions::parse(Some(query)).expect_err("refused");
            assert_eq!((status.code, status.message.as_str()), (400, message));
        }
    }

    #[test]
    fn values_that_make_no_sense_are_named() {
        for (query, field) in [
            ("tailLines=-1", "tailLines"),
            ("limitBytes=0", "limitBytes"),
            ("sinceSeconds=0", "sinceSeconds"),
            ("sinceSeconds=1&sinceTime=2026-11-21T15:00:00Z", "[]"),
            ("stream=Stdout&tailLines=1", "stream"),
        ] {
            let causes = options(query).causes();
            let fields: Vec<_> = causes.iter().map(|cause| cause.field.as_str()).collect();
            assert_eq!(fields, [field], "{query}");
        }
    }

    #[test]
    fn a_node_s_words_are_kept_where_stock_keeps_them() {
        assert_eq!(
            generic(404, "pod \"a\" does not exist", "a").message,
            "the server could not find the requested resource ( pods/log a)"
        );
        assert_eq!(
            generic(502, "no", "a").message,
            "an error on the server (\"no\") has prevented the request from succeeding ( pods/log a)"
        );
    }
}
