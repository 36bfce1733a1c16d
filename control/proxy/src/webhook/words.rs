//! What goes wrong with a webhook, in the words that clients of kube-apiserver know.

use std::error::Error as StdError;
use std::io;

use control_types::status::{Cause, Details, Status};
use rustls::CertificateError;

use crate::egress::DialError;
use crate::egress::client::explain;

/// What failed between this server and `address`.
pub fn of_client(error: &hyper_util::client::legacy::Error, address: &str) -> String {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(one) = cause {
        if let Some(error) = one.downcast_ref::<io::Error>() {
            return of_io(error, address);
        }
        if let Some(error) = one.downcast_ref::<hyper::Error>()
            && (error.is_incomplete_message() || error.is_closed() || error.is_canceled())
        {
            return "EOF".to_owned();
        }
        cause = one.source();
    }
    explain(error)
}

fn of_io(error: &io::Error, address: &str) -> String {
    let dialed = error.get_ref().and_then(|inner| inner.downcast_ref());
    if let Some(error) = dialed.map(|error: &DialError| error.to_string()) {
        return error;
    }
    let text = explain(error);
    if text.starts_with("tls: ") {
        return text;
    }
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused",
        io::ErrorKind::HostUnreachable => "connect: no route to host",
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable",
        io::ErrorKind::TimedOut => "i/o timeout",
        io::ErrorKind::ConnectionReset => return "read: connection reset by peer".to_owned(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => return "EOF".to_owned(),
        _ => return format!("dial tcp: {text}"),
    };
    format!("dial tcp {address}: {why}")
}

/// What is wrong with a server's certificate.
pub fn of_certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => "certificate signed by unknown authority".to_owned(),
        CertificateError::Expired | CertificateError::NotValidYet => {
            "certificate has expired or is not yet valid".to_owned()
        }
        CertificateError::ExpiredContext { time, not_after } => format!(
            "certificate has expired or is not yet valid: current time {} is after {}",
            at(time.as_secs()),
            at(not_after.as_secs())
        ),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "certificate has expired or is not yet valid: current time {} is before {}",
            at(time.as_secs()),
            at(not_before.as_secs())
        ),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let names: Vec<&str> = presented
                .iter()
                .map(|name| {
                    let inner = name.split_once('(').map_or(name.as_str(), |(_, rest)| rest);
                    inner.trim_end_matches(')').trim_matches('"')
                })
                .collect();
            format!(
                "certificate is valid for {}, not {}",
                names.join(", "),
                expected.to_str()
            )
        }
        other => other.to_string(),
    }
}

fn at(seconds: u64) -> String {
    let stamp = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    stamp.map_or_else(String::new, |stamp| stamp.to_string())
}

/// What an answer's code means; `text` is what it said.
pub(super) fn of_code(code: u16, text: &str) -> Status {
    let (reason, message) = match code {
        400 => (
            "BadRequest",
            "the server rejected our request for an unknown reason",
        ),
        401 => (
            "Unauthorized",
            "the server has asked for the client to provide credentials",
        ),
        403 => ("Forbidden", text),
        404 => (
            "NotFound",
            "the server could not find the requested resource",
        ),
        405 => (
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
        406 if matches!(text, "" | "unknown") => (
            "NotAcceptable",
            "the server was unable to respond with a content type that the client supports",
        ),
        406 => ("NotAcceptable", text),
        409 => ("AlreadyExists", "the server reported a conflict"),
        415 => ("UnsupportedMediaType", text),
        422 => (
            "Invalid",
            "the server rejected our request due to an error in our request",
        ),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        500.. => ("InternalError", ""),
        _ => ("", ""),
    };
    let message = match (reason, message) {
        ("InternalError", _) => format!(
            "an error on the server ({}) has prevented the request from succeeding",
            control_types::status::quote(text)
        ),
        ("", _) => format!(
            "the server responded with the status code {code} but did not return more information"
        ),
        (_, message) => message.to_owned(),
    };
    Status {
        code,
        reason: reason.into(),
        message,
        details: Some(Details {
            causes: vec![Cause {
                reason: "UnexpectedServerResponse".into(),
                message: text.to_owned(),
                field: String::new(),
            }],
            ..Details::default()
        }),
        continue_token: String::new(),
    }
}
