//! `/statusz` and `/flagz`: what the server is and how it was started, for people who
//! look into it (KEP-4827, KEP-4828); in JSON and YAML for who names the kind.

use control_types::status::Status;
use control_types::value;
use control_types::value::Value;
use http::header::{ACCEPT, WARNING};
use http::{HeaderMap, HeaderValue, Response};
use jiff::Timestamp;

use crate::chain::Settings;
use crate::features::Feature;
use crate::health;
use control_registry::reply::{self, Answer};
use control_request::body::Body;

/// As whom the server presents itself.
const COMPONENT: &str = "apiserver";
const GROUP: &str = "config.k8s.io";
const WARNED: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";
const AVAILABLE: &str =
    "only the following media types are accepted: application/json, application/yaml, text/plain";

/// The paths that are worth a look.
const PATHS: [&str; 7] = [
    "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version",
];

/// In which form a page is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    /// JSON or YAML, of a version.
    Structured {
        yaml: bool,
        version: &'static str,
    },
}

/// The page of a path, if there is one.
///
/// # Errors
/// 406 when the client takes it in no form that there is.
pub(crate) fn answer(
    settings: &Settings,
    started: Timestamp,
    path: &str,
    headers: &HeaderMap,
) -> Option<Answer> {
    let gates = settings.gates;
    match path {
        "/statusz" if gates.enabled(Feature::ComponentStatusz) => {
            Some(form(headers, "Statusz").map(|form| statusz(started, form)))
        }
        "/flagz" if gates.enabled(Feature::ComponentFlagz) => {
            Some(form(headers, "Flagz").map(|form| flagz(&settings.flags, form)))
        }
        _ => None,
    }
}

/// The first form of the client's list that there is.
fn form(headers: &HeaderMap, kind: &str) -> Result<Form, Status> {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let accept = accept.map(str::trim).filter(|accept| !accept.is_empty());
    let Some(accept) = accept else {
        return Ok(Form::Text);
    };
    let form = accept.split(',').find_map(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next()?;
        let (mut group, mut version, mut wanted) = ("", "", "");
        for part in parts {
            match part.split_once('=')? {
                ("g", value) => group = value,
                ("v", value) => version = value,
                ("as", value) => wanted = value,
                _ => {}
            }
        }
        let plain = group.is_empty() && version.is_empty() && wanted.is_empty();
        let yaml = match media {
            "text/plain" | "text/*" | "*/*" if plain => return Some(Form::Text),
            "application/json" | "application/*" | "*/*" => false,
            "application/yaml" => true,
            _ => return None,
        };
        let version = ["v1beta1", "v1alpha1"]
            .into_iter()
            .find(|known| *known == version)?;
        (group == GROUP && wanted == kind).then_some(Form::Structured { yaml, version })
    });
    form.ok_or_else(|| Status {
        code: 406,
        reason: "NotAcceptable".into(),
        message: AVAILABLE.to_owned(),
        details: None,
        continue_token: String::new(),
    })
}

fn statusz(started: Timestamp, form: Form) -> Response<Body> {
    let version = health::version();
    let text = |key: &str| version.str_at(&[key]).unwrap_or_default().to_owned();
    let up = Timestamp::now().duration_since(started).as_secs().max(0);
    let binary = text("gitVersion");
    let binary = binary.trim_start_matches('v');
    let emulated = format!("{}.{}", text("emulationMajor"), text("emulationMinor"));
    match form {
        Form::Text => {
            let began = started.strftime("%a %b %e %H:%M:%S UTC %Y");
            let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
            reply::text(
                200,
                format!(
                    "\n{COMPONENT} statusz\n{WARNED}\n\nStarted: {began}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\nGo version: {}\nBinary version: {binary}\nEmulation version: {emulated}\nPaths: {}\n",
                    text("goVersion"),
                    PATHS.join(" ")
                ),
            )
        }
        Form::Structured { yaml, version } => structured(
            yaml,
            version,
            "Statusz",
            &value!({
                "kind": "Statusz",
                "apiVersion": (format!("{GROUP}/{version}")),
                "metadata": {"name": COMPONENT},
                "startTime": (started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
                "uptimeSeconds": (up),
                "goVersion": (text("goVersion")),
                "binaryVersion": (binary),
                "emulationVersion": (emulated),
                "paths": (PATHS.iter().map(|path| Value::from(*path)).collect::<Vec<_>>())
            }),
        ),
    }
}

fn flagz(flags: &[(String, String)], form: Form) -> Response<Body> {
    match form {
        Form::Text => {
            let mut page = format!("\n{COMPONENT} flagz\n{WARNED}\n");
            for (name, value) in flags {
                page.push_str(&format!("{name}={value}\n"));
            }
            reply::text(200, page)
        }
        Form::Structured { yaml, version } => {
            let mut all = Value::object();
            for (name, value) in flags {
                all.insert(name, value.as_str());
            }
            let page = value!({
                "kind": "Flagz",
                "apiVersion": (format!("{GROUP}/{version}")),
                "metadata": {"name": COMPONENT},
                "flags": (all)
            });
            structured(yaml, version, "Flagz", &page)
        }
    }
}

fn structured(yaml: bool, version: &str, kind: &str, page: &Value) -> Response<Body> {
    let (media, bytes) = if yaml {
        ("application/yaml", reply::yaml(page).into_bytes())
    } else {
        ("application/json", page.to_vec_pretty())
    };
    let mut answer = reply::bytes(200, media, bytes);
    let media = format!("{media};g={GROUP};v={version};as={kind}");
    if let Ok(media) = HeaderValue::from_str(&media) {
        answer
            .headers_mut()
            .insert(http::header::CONTENT_TYPE, media);
    }
    if version == "v1alpha1" {
        let warning = format!(
            "299 - \"This version of the {} endpoint is deprecated. Please use a newer version.\"",
            kind.to_lowercase()
        );
        if let Ok(warning) = HeaderValue::from_str(&warning) {
            answer.headers_mut().insert(WARNING, warning);
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structured_page_is_for_who_names_its_kind() {
        let of = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            form(&headers, "Statusz")
        };
        assert_eq!(form(&HeaderMap::new(), "Statusz"), Ok(Form::Text));
        for text in ["text/plain", "*/*", "application/json, */*", ""] {
            assert_eq!(of(text), Ok(Form::Text), "{text}");
        }
        assert_eq!(
            of("application/yaml;v=v1beta1;g=config.k8s.io;as=Statusz"),
            Ok(Form::Structured {
                yaml: true,
                version: "v1beta1"
            })
        );
        for none in [
            "application/json",
            "application/vnd.kubernetes.protobuf",
            "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
            "application/json;v=v2;g=config.k8s.io;as=Statusz",
        ] {
            assert_eq!(of(none).map_err(|status| status.code), Err(406), "{none}");
        }
    }
}
