//! What the CNI plugin asks before it lets a pod's interface up: are the pod's
//! rules in force? One line of JSON each way, over a socket of root's.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use cni_addresses::wire::Bandwidth;
use serde::{Deserialize, Serialize};
use tokio::{
    net::UnixListener,
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

use super::{LOOK_AGAIN, PATIENCE};
use crate::{lines, services::local_api};

/// Questions that wait at once; more wait to be accepted.
const CROWD: usize = 64;

/// A pod's interface that is about to be set up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingPodInterface {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's UID; empty if the runtime does not say.
    #[serde(default)]
    pub uid: String,
    /// The host's end.
    pub device: String,
    /// The pod's addresses.
    pub addresses: Vec<IpAddr>,
    /// How much it may send and get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
}

/// The response: `wait` names what is missing; the caller retries.
#[derive(Debug, Serialize)]
struct AdmitResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<String>,
}

/// A request to admit an interface, with the channel of its response.
#[derive(Debug)]
pub struct AdmitRequest {
    pub interface: PendingPodInterface,
    pub answer: oneshot::Sender<Result<(), String>>,
}

/// Where the agent of these maps listens.
pub fn socket(pin_dir: &Path) -> PathBuf {
    local_api::socket(pin_dir).with_extension("cni.sock")
}

/// Holds interfaces back until policy is in force for them.
#[derive(Clone, Debug)]
pub struct InterfaceGate {
    questions: mpsc::Sender<AdmitRequest>,
}

impl InterfaceGate {
    /// Returns once the pod's rules, and its bandwidth, are in force at the interface.
    ///
    /// # Errors
    /// What is missing, after a while.
    pub async fn admit(&self, interface: PendingPodInterface) -> Result<(), String> {
        let (sender, told) = oneshot::channel();
        let asked = AdmitRequest {
            interface,
            answer: sender,
        };
        let answer = async {
            let ending = || Err("the agent is ending".to_owned());
            match self.questions.send(asked).await {
                Ok(()) => told.await.unwrap_or_else(|_| ending()),
                Err(_) => ending(),
            }
        };
        // The task itself answers before, once it has begun.
        let late = || Err("network policy is not known yet".to_owned());
        tokio::time::timeout(PATIENCE + LOOK_AGAIN, answer)
            .await
            .unwrap_or_else(|_| late())
    }
}

/// Hands questions on until `shutdown`.
pub async fn serve(listener: UnixListener, gate: InterfaceGate, shutdown: CancellationToken) {
    let answer = move |interface, _| {
        let gate = gate.clone();
        async move {
            let answer = match interface {
                Ok(interface) => gate.admit(interface).await,
                Err(wait) => Err(wait),
            };
            AdmitResponse { wait: answer.err() }
        }
    };
    lines::serve(listener, answer, shutdown).await;
}

/// Where to ask, and what was asked.
pub fn gate() -> (InterfaceGate, mpsc::Receiver<AdmitRequest>) {
    let (questions, asked) = mpsc::channel(CROWD);
    (InterfaceGate { questions }, asked)
}
