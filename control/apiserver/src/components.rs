//! `componentstatuses`: whether the other parts of the control plane are well.
//!
//! The store is read. A part that runs in this process is well while it runs, for it
//! ends the process when it fails; others are asked where their stock counterparts
//! listen on the same host, as kube-apiserver does.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use control_types::status::{Status, quote};
use control_types::value::Value;
use control_types::{error_chain, value};
use http::Request;
use http_body_util::{BodyExt as _, Limited};

use control_proxy::egress::Dialer;
use control_proxy::egress::client::HttpClient;
use control_proxy::egress::trust::{Trust, tls};
use control_proxy::webhook::words;
use control_registry::reply::{self, Answer};
use control_registry::{Context, ServedResource, Storage};
use control_request::body;
use control_request::negotiate::{Format, Shape};
use control_request::options::ListOptions;
use control_strategy::table;

use crate::health;

/// The resource.
pub(crate) const PLURAL: &str = "componentstatuses";

/// How long a part may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How much of its answer is read, in bytes.
const ANSWER: usize = 10 * 1024;

/// The parts, and where each answers that is not in this process.
const PARTS: [(&str, Option<&str>); 3] = [
    ("controller-manager", Some("127.0.0.1:10257")),
    ("scheduler", Some("127.0.0.1:10259")),
    ("etcd-0", None),
];

/// Which parts run in this process.
#[derive(Debug, Default)]
pub struct Components {
    here: Mutex<BTreeSet<&'static str>>,
}

/// A part that runs in this process, until this is dropped.
#[derive(Debug)]
pub struct LocalComponent<'a> {
    components: &'a Components,
    name: &'static str,
}

impl Components {
    /// Notes that a part (`scheduler`, `controller-manager`) runs in this process.
    #[must_use]
    pub fn here(&self, name: &'static str) -> LocalComponent<'_> {
        let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        here.insert(name);
        drop(here);
        LocalComponent {
            components: self,
            name,
        }
    }

    fn has(&self, name: &str) -> bool {
        let here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
        here.contains(name)
    }

    /// Checks the health of a component: returns its message, or the reason why it is unhealthy.
    async fn look(
        &self,
        storage: &Storage,
        name: &str,
        address: Option<&str>,
    ) -> Result<String, Ill> {
        match address {
            None => health::check_store(storage)
                .await
                .map(|()| "ok".to_owned())
                .map_err(|error| Ill::Error(error_chain(&error))),
            Some(_) if self.has(name) => Ok("ok".to_owned()),
            Some(address) => ask(address)
                .await
                .map_err(|error| Ill::Message(error.to_string())),
        }
    }
}

impl Drop for LocalComponent<'_> {
    fn drop(&mut self) {
        let mut here = self
            .components
            .here
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        here.remove(self.name);
    }
}

/// Answers a GET of one status, or of all.
///
/// # Errors
/// 404 for other names; 400 for malformed options.
pub(crate) async fn answer(
    context: &Context,
    components: &Components,
    served: &ServedResource,
) -> Answer {
    let format = Format::negotiate(&context.parts.headers, context.query())?;
    let info = &context.info;
    if info.name_in_path {
        let Some((name, address)) = PARTS.iter().find(|(name, _)| *name == info.name) else {
            return Err(Status::not_found("", "componentstatus", &info.name));
        };
        let object = status(
            name,
            &components.look(&context.registry, name, *address).await,
        );
        let shaped = reply::shaped(object, &served.kind, format);
        return Ok(reply::value(200, &shaped, format));
    }
    let options = ListOptions::parse(context.query())?;
    options.validate(false)?;
    let bad = |error: &dyn std::fmt::Display| Status::bad_request(error.to_string());
    let labels = control_types::labels::Selector::parse(&options.label_selector)
        .map_err(|error| bad(&error))?;
    let fields = control_types::fields::FieldSelector::parse(&options.field_selector)
        .map_err(|error| bad(&error))?;
    let looks = PARTS.iter().map(|(name, address)| async move {
        let found = components.look(&context.registry, name, *address).await;
        (*name, status(name, &found))
    });
    let items: Vec<Value> = futures::future::join_all(looks)
        .await
        .into_iter()
        .filter(|(name, _)| {
            labels.matches_with(|_| None)
                && fields.matches(|field| (field == "metadata.name").then_some(*name))
        })
        .map(|(_, object)| object)
        .collect();
    let shown = match format.shape {
        Shape::Table => {
            let rows = items
                .into_iter()
                .map(|object| table::row(&served.kind, object, format));
            table::table(&served.kind, rows.collect(), Value::object(), true, format)
        }
        Shape::Plain => {
            let items: Value = items
                .into_iter()
                .map(|mut object| {
                    object.remove("kind");
                    object.remove("apiVersion");
                    object
                })
                .collect();
            value!({
                "kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": (items)
            })
        }
        Shape::Metadata => {
            let items: Value = items
                .into_iter()
                .map(|object| table::partial(object, &served.kind, format))
                .collect();
            let version = format!("meta.k8s.io/{}", format.shape_version);
            value!({
                "kind": "PartialObjectMetadataList", "apiVersion": (version),
                "metadata": {}, "items": (items)
            })
        }
    };
    Ok(reply::value(200, &shown, format))
}

/// Why a part is not well.
enum Ill {
    /// What it answered, or that it did not.
    Message(String),
    /// What came of trying.
    Error(String),
}

/// Error of a part that does not say that it is well.
#[derive(Debug, thiserror::Error)]
enum ProbeError {
    #[error("Get {}: {why}", quote(url))]
    NoAnswer { url: String, why: String },
    #[error("HTTP probe failed with statuscode: {0}")]
    Status(u16),
}

/// Asks a part at its usual place. Its certificate is nobody's that is known.
async fn ask(address: &str) -> Result<String, ProbeError> {
    let url = format!("https://{address}/healthz");
    let failed = |why: String| ProbeError::NoAnswer {
        url: url.clone(),
        why,
    };
    let config = tls(Trust::Anybody, None).map_err(|error| failed(error.to_string()))?;
    let client = HttpClient::over_tls(Dialer::default(), config, "localhost")
        .map_err(|error| failed(error.to_string()))?;
    let request = Request::get(&url)
        .body(body::empty())
        .map_err(|error| failed(error.to_string()))?;
    let asked = async {
        let response = client
            .request(request)
            .await
            .map_err(|error| failed(words::of_client(&error, address)))?;
        let code = response.status().as_u16();
        if code >= 400 {
            return Err(ProbeError::Status(code));
        }
        let body = Limited::new(response.into_body(), ANSWER).collect().await;
        let body = body.map_err(|error| failed(error.to_string()))?;
        Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
    };
    tokio::time::timeout(PATIENCE, asked)
        .await
        .unwrap_or_else(|_| Err(failed("context deadline exceeded".to_owned())))
}

fn status(name: &str, found: &Result<String, Ill>) -> Value {
    let mut condition = value!({"type": "Healthy"});
    condition.insert("status", if found.is_ok() { "True" } else { "False" });
    let (field, text) = match found {
        Ok(text) | Err(Ill::Message(text)) => ("message", text),
        Err(Ill::Error(text)) => ("error", text),
    };
    condition.insert(field, text.as_str());
    value!({
        "kind": "ComponentStatus", "apiVersion": "v1",
        "metadata": {"name": (name)}, "conditions": [(condition)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_here_as_long_as_it_runs() {
        let components = Components::default();
        let here = components.here("scheduler");
        assert!(components.has("scheduler") && !components.has("controller-manager"));
        drop(here);
        assert!(!components.has("scheduler"));
    }

    #[tokio::test]
    async fn a_part_that_does_not_listen_is_told_in_stocks_words() {
        // Bound and never listened on: nobody else gets it meanwhile.
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket
            .bind("127.0.0.1:0".parse().expect("address"))
            .expect("bound");
        let address = socket.local_addr().expect("address").to_string();
        let error = ask(&address).await.expect_err("nobody is there");
        let why = error.to_string();
        assert_eq!(
            why,
            format!(
                "Get \"https://{address}/healthz\": dial tcp {address}: connect: connection refused"
            )
        );
        let object = status("scheduler", &Err(Ill::Message(why.clone())));
        assert_eq!(
            object.get("conditions"),
            Some(&value!([{"type": "Healthy", "status": "False", "message": (why)}]))
        );
    }
}
