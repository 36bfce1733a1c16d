//! The agent's socket for commands of this machine: who may open it is root.
//!
//! ```text
//! /services              accounts of the first Services, and after which there are more
//! /services/after/NS/NAME   of the following ones
//! /services/of/NS/NAME      of one
//! ```
//!
//! A list comes in portions, so that neither the agent's memory nor the task that
//! writes the maps notices who asks.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use control_client::{Cache, Object};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use node_agent_informers::Service;
use node_agent_plan::{Account, Planner, SliceState, explain};
use serde::{Deserialize, Serialize};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot},
};

use super::{http::HttpAnswer, metrics::MetricsSnapshot};
use crate::Error;

/// Where sockets are; root's alone.
const FOLDER: &str = "/run/orlop";
/// Services of one portion.
const PORTION: usize = 256;
/// How long the agent may take to answer a command.
const PATIENCE: Duration = Duration::from_secs(10);

/// A query of the task that owns the plan.
pub enum PlanQuery {
    /// What Prometheus reads.
    Metrics(oneshot::Sender<MetricsSnapshot>),
    /// What became of these Services' addresses; with what is no Service too.
    Accounts(Vec<(String, String)>, bool, oneshot::Sender<PlanAccount>),
}

/// The plan's part of the accounts.
pub struct PlanAccount {
    /// Until all is listed, the plan only collects, and knows no reasons.
    complete: bool,
    zone: Option<String>,
    services: Vec<WithSlices>,
    others: Vec<Account>,
}

/// What became of a Service's addresses, and the slices that its endpoints are in.
type WithSlices = (Account, Vec<Arc<SliceState>>);

/// One part of a response on the socket.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResponseBatch {
    accounts: Vec<Account>,
    /// The last Service of this portion, after which there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<(String, String)>,
}

/// Answers queries on the agent's local socket.
#[derive(Clone)]
pub struct LocalApi {
    pub node: String,
    pub services: Cache<Service>,
    pub asks: mpsc::Sender<PlanQuery>,
}

/// The socket of the agent whose maps are pinned there.
pub fn socket(pin_dir: &Path) -> PathBuf {
    let name = pin_dir.to_string_lossy();
    let name = name.trim_matches('/').replace('/', "-");
    Path::new(FOLDER).join(format!("{name}.sock"))
}

/// Listens, in the place of a former agent that has ended: the maps' lock tells
/// that there is no other.
///
/// # Errors
/// What the system says.
pub fn listen(pin_dir: &Path) -> io::Result<UnixListener> {
    listen_at(&socket(pin_dir))
}

pub(crate) fn listen_at(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    remove_at(path)?;
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Removes the socket, if there is one.
///
/// # Errors
/// What the system says.
pub fn remove(pin_dir: &Path) -> io::Result<()> {
    remove_at(&socket(pin_dir))
}

pub(crate) fn remove_at(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Accounts of one Service, or of all objects.
///
/// # Errors
/// [`Error::Asked`] when there is no agent, or it does not say.
pub async fn accounts(pin_dir: &Path, one: Option<(&str, &str)>) -> Result<Vec<Account>, Error> {
    accounts_at(&socket(pin_dir), one).await
}

async fn accounts_at(socket: &Path, one: Option<(&str, &str)>) -> Result<Vec<Account>, Error> {
    let mut path = one.map_or_else(
        || "/services".to_owned(),
        |(namespace, name)| format!("/services/of/{namespace}/{name}"),
    );
    let mut all = Vec::new();
    loop {
        let text = ask(socket, &path).await?;
        let portion: ResponseBatch =
            serde_json::from_str(&text).map_err(|source| failed(socket, source))?;
        all.extend(portion.accounts);
        let Some((namespace, name)) = portion.next else {
            return Ok(all);
        };
        path = format!("/services/after/{namespace}/{name}");
    }
}

fn failed(socket: &Path, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Asked {
        socket: socket.to_owned(),
        source: Box::new(source),
    }
}

/// Asks for a path.
async fn ask(socket: &Path, path: &str) -> Result<String, Error> {
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|source| failed(socket, source))?;
    let exchange = async {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::get(path)
            .header("host", "orlop")
            .body(Empty::<Bytes>::new());
        // The path is made of names that the API allows, or refused there.
        let request = request.unwrap_or_default();
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        Ok::<_, hyper::Error>((status, body))
    };
    let (status, body) = tokio::time::timeout(PATIENCE, exchange)
        .await
        .map_err(|late| failed(socket, late))?
        .map_err(|source| failed(socket, source))?;
    let body = String::from_utf8_lossy(&body).into_owned();
    if status == StatusCode::OK {
        Ok(body)
    } else {
        Err(failed(socket, io::Error::other(body.trim().to_owned())))
    }
}

// === impl Placed ===

impl PlanAccount {
    /// What the plan says, once it is `complete`.
    pub fn collect(
        planner: &Planner,
        wanted: &[(String, String)],
        others: bool,
        complete: bool,
    ) -> Self {
        Self {
            complete,
            zone: planner.zone().map(str::to_owned),
            services: wanted
                .iter()
                .map(|(namespace, name)| {
                    let slices = planner.service_slices(namespace, name);
                    let account = planner.service_account(namespace, name);
                    (account, slices.cloned().collect())
                })
                .collect(),
            others: if others {
                planner.other_accounts()
            } else {
                Vec::new()
            },
        }
    }
}

// === impl Clerk ===

impl LocalApi {
    /// Answers a path.
    pub async fn answer(self, path: String) -> HttpAnswer {
        let mut words = path.trim_start_matches('/').splitn(4, '/');
        if words.next() != Some("services") {
            return HttpAnswer::not_found();
        }
        let place = match (words.next(), words.next(), words.next()) {
            (None, ..) => None,
            (Some(word @ ("of" | "after")), Some(namespace), Some(name)) => {
                Some((word == "of", (namespace.to_owned(), name.to_owned())))
            }
            _ => return HttpAnswer::not_found(),
        };
        let (services, next) = self.portion(place.as_ref());
        let names: Vec<_> = services
            .iter()
            .map(|it| (it.namespace().to_owned(), it.name().to_owned()))
            .collect();
        let (ask, told) = oneshot::channel();
        // Without the task there is nothing to be told.
        let _ = self
            .asks
            .send(PlanQuery::Accounts(names, next.is_none(), ask))
            .await;
        let Ok(placed) = told.await else {
            return HttpAnswer::text(StatusCode::SERVICE_UNAVAILABLE, "the agent is ending\n");
        };
        if !placed.complete {
            return HttpAnswer::text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the agent has not been told of all objects yet; is its API server reachable?\n",
            );
        }
        let mut accounts = self.explained(&services, placed.services, placed.zone.as_deref());
        accounts.extend(placed.others);
        let portion = ResponseBatch { accounts, next };
        match serde_json::to_string(&portion) {
            Ok(text) => HttpAnswer::json(StatusCode::OK, text),
            Err(error) => HttpAnswer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }

    /// The Services that are asked for, and the last one if there are more.
    fn portion(
        &self,
        place: Option<&(bool, (String, String))>,
    ) -> (Vec<Arc<Service>>, Option<(String, String)>) {
        let snapshot = self.services.snapshot();
        if let Some((true, (namespace, name))) = place {
            let one = snapshot.get(namespace, name).cloned();
            return (one.into_iter().collect(), None);
        }
        let key = |it: &Service| (it.namespace().to_owned(), it.name().to_owned());
        let mut rest = snapshot
            .iter()
            .filter(|it| place.is_none_or(|(_, after)| key(it) > *after));
        let portion: Vec<_> = rest.by_ref().take(PORTION).cloned().collect();
        let more = rest.next().is_some();
        let next = portion.last().filter(|_| more).map(|it| key(it));
        (portion, next)
    }

    /// Adds what is to be said of endpoints.
    fn explained(
        &self,
        services: &[Arc<Service>],
        accounts: Vec<WithSlices>,
        zone: Option<&str>,
    ) -> Vec<Account> {
        let with = |(service, (account, slices)): (&Arc<Service>, WithSlices)| {
            let its: Vec<_> = slices.iter().map(|it| &**it).collect();
            let state = service.state();
            account.with(state, &explain(&self.node, zone, state, &its))
        };
        services.iter().zip(accounts).map(with).collect()
    }
}

#[cfg(test)]
mod tests {
    use node_agent_informers::EndpointSlice;
    use node_agent_plan::{Config, Current, EndpointStanding};
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::services::http;

    const SERVICES: usize = 2 * PORTION + 7;

    fn name(number: usize) -> String {
        format!("s{number:04}")
    }

    fn clerk(asks: mpsc::Sender<PlanQuery>) -> LocalApi {
        let service = |number: usize| -> Service {
            serde_json::from_value(json!({
                "metadata": {"namespace": "ns", "name": name(number)},
                "spec": {
                    "clusterIPs": [format!("10.96.{}.{}", number / 250, number % 250 + 1)],
                    "ports": [{"port": 80}],
                },
            }))
            .expect("a Service")
        };
        LocalApi {
            node: "node-1".to_owned(),
            services: Cache::fixed((0..SERVICES).map(service)),
            asks,
        }
    }

    fn slice() -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "x", "labels": {"kubernetes.io/service-name": name(3)}},
            "addressType": "IPv4",
            "ports": [{"port": 80}],
            "endpoints": [{"addresses": ["10.244.0.1"], "conditions": {"ready": false}}],
        }))
        .expect("a slice")
    }

    /// The task that owns the plan, in small.
    fn owner(clerk: &LocalApi, mut asked: mpsc::Receiver<PlanQuery>, complete: bool) {
        let mut planner = Planner::new(Config::default());
        for it in clerk.services.snapshot().iter() {
            let state = Arc::clone(it.state());
            planner.service_changed(it.namespace(), it.name(), Some(state));
        }
        planner.slice_changed("ns", "x", Some(Arc::clone(slice().state())));
        planner.resync(&Current::default());
        tokio::spawn(async move {
            while let Some(ask) = asked.recv().await {
                if let PlanQuery::Accounts(wanted, others, to) = ask {
                    assert!(wanted.len() <= PORTION, "the task is not kept for long");
                    let _ = to.send(PlanAccount::collect(&planner, &wanted, others, complete));
                }
            }
        });
    }

    async fn served(complete: bool) -> (tempfile::TempDir, PathBuf, CancellationToken) {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("run").join("agent.sock");
        let (asks, asked) = mpsc::channel(4);
        let clerk = clerk(asks);
        owner(&clerk, asked, complete);
        // A socket that a killed agent left is no hindrance.
        drop(listen_at(&socket).expect("listen"));
        let listener = listen_at(&socket).expect("listen again");
        let shutdown = CancellationToken::new();
        let answer = move |path| clerk.clone().answer(path);
        tokio::spawn(http::serve(Arc::new(listener), answer, shutdown.clone()));
        (folder, socket, shutdown)
    }

    #[tokio::test]
    async fn all_services_are_told_in_portions_and_one_by_itself() {
        let (_folder, socket, _shutdown) = served(true).await;
        let all = accounts_at(&socket, None).await.expect("accounts");
        let names: Vec<_> = all.iter().map(|it| it.name.clone()).collect();
        assert_eq!(names, (0..SERVICES).map(name).collect::<Vec<_>>());
        assert!(all.iter().all(|it| it.fronts.len() == 1));
        let one = accounts_at(&socket, Some(("ns", &name(3)))).await;
        let one = one.expect("an account");
        assert_eq!(one.len(), 1);
        let standing = one[0].endpoints.first().map(|it| it.cluster.clone());
        assert_eq!(
            standing,
            Some(EndpointStanding::Not("not ready".to_owned()))
        );
        let none = accounts_at(&socket, Some(("ns", "unknown"))).await;
        assert_eq!(none.expect("accounts"), []);
    }

    #[tokio::test]
    async fn only_root_may_ask() {
        let (_folder, socket, _shutdown) = served(true).await;
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&socket), 0o600);
        assert_eq!(mode(socket.parent().expect("a folder")), 0o700);
    }

    #[tokio::test]
    async fn an_agent_that_does_not_know_all_says_so_and_so_does_none() {
        let (_folder, socket, _shutdown) = served(false).await;
        let error = accounts_at(&socket, None).await.expect_err("incomplete");
        let cause = std::error::Error::source(&error).expect("a cause");
        assert!(
            cause.to_string().contains("not been told of all"),
            "{cause}"
        );
        let nobody = socket.with_file_name("other.sock");
        let error = accounts_at(&nobody, None).await.expect_err("nobody");
        assert!(error.to_string().contains("cannot be asked"), "{error}");
    }

    #[test]
    fn sockets_are_named_after_the_pins() {
        assert_eq!(
            socket(Path::new("/sys/fs/bpf/orlop")),
            Path::new("/run/orlop/sys-fs-bpf-orlop.sock")
        );
    }
}
