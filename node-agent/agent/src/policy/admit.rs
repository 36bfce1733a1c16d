//! What the CNI plugin asks before it lets a pod's interface up: are the pod's
//! rules in force? One line of JSON each way, over a socket of root's.

use std::{
    io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use cni_addresses::wire::Bandwidth;
use node_agent_objects::error_chain;
use serde::{Deserialize, Serialize};
use tokio::{
    net::UnixListener,
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

use super::delays::{LOOK_AGAIN, PATIENCE};
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

/// What a pod's interface waits for.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// Another agent has to be asked.
    #[error("the agent is ending")]
    Ending,
    /// The policies have not been listed.
    #[error("network policy is not known yet")]
    Unknown,
    /// The maps do not hold all policies.
    #[error("network policy is not known yet, has no room, or is written anew")]
    Unsound,
    /// The pod has not been listed.
    #[error("pod `{namespace}/{name}` is not known yet")]
    NoPod {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
    },
    /// An earlier pod of that name has been listed.
    #[error("pod `{namespace}/{name}` is known as one of another UID")]
    OtherPod {
        /// The pod's namespace.
        namespace: String,
        /// The pod's name.
        name: String,
    },
    /// The pod came a moment ago, with a change that is yet to be taken up.
    #[error("its addresses are not compiled yet")]
    Compiling,
    /// An address is not in the maps.
    #[error("the rules of {0} are not in force yet")]
    Rules(IpAddr),
    /// The interface does not exist.
    #[error("interface `{device}`")]
    NoInterface {
        /// The host's end.
        device: String,
        /// What the kernel said.
        source: nix::Error,
    },
    /// The interface has no programs.
    #[error("interface `{0}` is not guarded yet")]
    Unguarded(String),
    /// Programs that limit bandwidth are yet to come.
    #[error("its bandwidth is not limited yet")]
    Unlimited,
    /// The maps do not take its limits.
    #[error("its bandwidth cannot be limited")]
    Bandwidth(#[source] node_agent_datapath::Error),
    /// The next agent would not know of it.
    #[error("interface `{device}` cannot be kept in `/run`")]
    NotKept {
        /// The host's end.
        device: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A request to admit an interface, with the channel of its response.
#[derive(Debug)]
pub struct AdmitRequest {
    pub interface: PendingPodInterface,
    pub answer: oneshot::Sender<Result<(), AdmitError>>,
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
    pub async fn admit(&self, interface: PendingPodInterface) -> Result<(), AdmitError> {
        let (sender, told) = oneshot::channel();
        let asked = AdmitRequest {
            interface,
            answer: sender,
        };
        let answer = async {
            let ending = || Err(AdmitError::Ending);
            match self.questions.send(asked).await {
                Ok(()) => told.await.unwrap_or_else(|_| ending()),
                Err(_) => ending(),
            }
        };
        // The task itself answers before, once it has begun.
        tokio::time::timeout(PATIENCE + LOOK_AGAIN, answer)
            .await
            .unwrap_or(Err(AdmitError::Unknown))
    }
}

/// Hands questions on until `shutdown`.
pub async fn serve(listener: UnixListener, gate: InterfaceGate, shutdown: CancellationToken) {
    let answer = move |interface: Result<PendingPodInterface, lines::InvalidQuestion>, _| {
        let gate = gate.clone();
        async move {
            let wait = match interface {
                Ok(interface) => gate.admit(interface).await.err().map(|it| error_chain(&it)),
                Err(error) => Some(error_chain(&error)),
            };
            AdmitResponse { wait }
        }
    };
    lines::serve(listener, answer, shutdown).await;
}

/// Where to ask, and what was asked.
pub fn gate() -> (InterfaceGate, mpsc::Receiver<AdmitRequest>) {
    let (questions, asked) = mpsc::channel(CROWD);
    (InterfaceGate { questions }, asked)
}
