//! What the CNI plugin asks before it lets a pod's interface up: are the pod's
//! rules in force? One line of JSON each way, over a socket of root's.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::services::local;

/// Bytes of a question: names and addresses.
const LONGEST: u64 = 4_096;
/// How long a question may take to arrive: the plugin writes it at once.
const QUICK: Duration = Duration::from_secs(5);
/// Questions that wait at once; more wait to be accepted.
const CROWD: usize = 64;

/// A pod's interface that is about to be let up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
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
}

/// The answer: `wait` says what is missing, and to try again.
#[derive(Debug, Serialize)]
struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<String>,
}

/// A question, and where its answer goes: what is missing, if anything.
pub struct Asked {
    pub interface: Interface,
    pub answer: oneshot::Sender<Result<(), String>>,
}

/// Where the agent of these maps listens.
pub fn socket(pin_dir: &Path) -> PathBuf {
    local::socket(pin_dir).with_extension("cni.sock")
}

/// Hands questions on until `shutdown`.
pub async fn serve(
    listener: UnixListener,
    questions: mpsc::Sender<Asked>,
    shutdown: CancellationToken,
) {
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match stream {
            Ok((stream, _)) => {
                let questions = questions.clone();
                tokio::spawn(async move {
                    if let Err(error) = answer(stream, questions).await {
                        debug!(%error, "a question of the CNI plugin was not answered");
                    }
                });
            }
            Err(error) => {
                debug!(%error, "no question of the CNI plugin accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(stream: UnixStream, questions: mpsc::Sender<Asked>) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(reader.take(LONGEST));
    timeout(QUICK, reader.read_line(&mut line)).await??;
    let wait = match serde_json::from_str(&line) {
        Ok(interface) => {
            let (sender, told) = oneshot::channel();
            let asked = Asked {
                interface,
                answer: sender,
            };
            match questions.send(asked).await {
                Ok(()) => told
                    .await
                    .unwrap_or_else(|_| Err("the agent is ending".to_owned())),
                Err(_) => Err("the agent is ending".to_owned()),
            }
        }
        Err(error) => Err(format!("the question is not understood: {error}")),
    };
    let mut text = serde_json::to_vec(&Answer { wait: wait.err() })?;
    text.push(b'\n');
    writer.write_all(&text).await
}

/// A channel for questions.
pub fn questions() -> (mpsc::Sender<Asked>, mpsc::Receiver<Asked>) {
    mpsc::channel(CROWD)
}
