//! Client of key managers: `v2.KeyManagementService` of Kubernetes (KEP-3299,
//! `k8s.io/kms/apis/v2`) over a unix socket.
//!
//! [`Client`] can be called synchronously: a separate thread waits for the future.
//! [`fake`] is a manager for tests.

pub mod fake;
mod messages;

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc;
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::transport::{Channel, Endpoint, Uri};

use messages::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse,
};

/// How long beyond the manager's own time limit an answer is waited for.
const GRACE: Duration = Duration::from_secs(1);

/// Reason why a request to a manager failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It refused.
    #[error("rpc error: code = {code:?} desc = {message}")]
    Refused {
        /// gRPC code.
        code: tonic::Code,
        /// The manager's message.
        message: String,
    },
    /// It cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// It did not answer in time.
    #[error("context deadline exceeded")]
    Timeout,
    /// The client's thread has ended.
    #[error("its thread has ended")]
    Ended,
}

/// A manager's report about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Version of the protocol, `v2`.
    pub version: String,
    /// `ok`, or the problem.
    pub healthz: String,
    /// The key that it encrypts with.
    pub key_id: String,
}

/// Encrypted bytes, with everything that is needed to decrypt them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncryptedData {
    /// The encrypted bytes.
    pub ciphertext: Vec<u8>,
    /// The key that encrypted them.
    pub key_id: String,
    /// Further annotations that the manager requires.
    pub annotations: BTreeMap<String, Vec<u8>>,
}

type Answer<T> = mpsc::SyncSender<Result<T, Error>>;

enum Call {
    Status(Answer<StatusResponse>),
    Encrypt(EncryptRequest, Answer<EncryptResponse>),
    Decrypt(DecryptRequest, Answer<DecryptResponse>),
}

/// A manager's client. Its thread ends with it.
#[derive(Debug)]
pub struct Client {
    calls: UnboundedSender<Call>,
    timeout: Duration,
}

impl Client {
    /// Starts the thread, whose name contains `name`; it connects to the socket when it is
    /// first used, and again after the connection broke.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(name: &str, socket: &str, timeout: Duration) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (calls, queue) = unbounded_channel();
        let socket = socket.to_owned();
        std::thread::Builder::new()
            .name(format!("kms-{name}-calls"))
            .spawn(move || runtime.block_on(serve(socket, timeout, queue)))?;
        Ok(Self { calls, timeout })
    }

    /// Asks the manager how it is.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn status(&self) -> Result<Status, Error> {
        let answer = self.ask(Call::Status)?;
        Ok(Status {
            version: answer.version,
            healthz: answer.healthz,
            key_id: answer.key_id,
        })
    }

    /// Encrypts bytes, a key or a seed of keys.
    ///
    /// # Errors
    /// When the manager refuses or does not answer.
    pub fn encrypt(&self, plaintext: Vec<u8>) -> Result<EncryptedData, Error> {
        let uid = uuid::Uuid::new_v4().to_string();
        let answer = self.ask(|answer| Call::Encrypt(EncryptRequest { plaintext, uid }, answer))?;
        Ok(EncryptedData {
            ciphertext: answer.ciphertext,
            key_id: answer.key_id,
            annotations: answer.annotations,
        })
    }

    /// Decrypts bytes.
    ///
    /// # Errors
    /// When the manager refuses or does not answer.
    pub fn decrypt(&self, encrypted: EncryptedData) -> Result<Vec<u8>, Error> {
        let request = DecryptRequest {
            ciphertext: encrypted.ciphertext,
            uid: uuid::Uuid::new_v4().to_string(),
            key_id: encrypted.key_id,
            annotations: encrypted.annotations,
        };
        self.ask(|answer| Call::Decrypt(request, answer))
            .map(|answer| answer.plaintext)
    }

    fn ask<T>(&self, call: impl FnOnce(Answer<T>) -> Call) -> Result<T, Error> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.calls.send(call(answer)).map_err(|_| Error::Ended)?;
        answered
            .recv_timeout(self.timeout + GRACE)
            .unwrap_or(Err(Error::Timeout))
    }
}

async fn serve(socket: String, timeout: Duration, mut queue: UnboundedReceiver<Call>) {
    let channel = Endpoint::from_static("http://kms.invalid")
        .connect_timeout(timeout)
        .connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move {
                let stream = tokio::net::UnixStream::connect(socket).await?;
                Ok::<_, io::Error>(hyper_util::rt::TokioIo::new(stream))
            }
        }));
    while let Some(call) = queue.recv().await {
        let channel = channel.clone();
        tokio::spawn(async move {
            // The caller may have given up: then the answer is dropped.
            match call {
                Call::Status(answer) => {
                    let _ = answer.send(unary(channel, "Status", StatusRequest {}, timeout).await);
                }
                Call::Encrypt(request, answer) => {
                    let _ = answer.send(unary(channel, "Encrypt", request, timeout).await);
                }
                Call::Decrypt(request, answer) => {
                    let _ = answer.send(unary(channel, "Decrypt", request, timeout).await);
                }
            }
        });
    }
}

async fn unary<Q, A>(
    channel: Channel,
    method: &'static str,
    request: Q,
    timeout: Duration,
) -> Result<A, Error>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let call = async {
        let path = format!("/v2.KeyManagementService/{method}");
        let path =
            PathAndQuery::try_from(path).map_err(|error| Error::Unreachable(error.to_string()))?;
        let mut grpc = tonic::client::Grpc::new(channel);
        grpc.ready()
            .await
            .map_err(|error| Error::Unreachable(error.to_string()))?;
        let codec = tonic_prost::ProstCodec::<Q, A>::default();
        grpc.unary(tonic::Request::new(request), path, codec)
            .await
            .map(tonic::Response::into_inner)
            .map_err(|status| Error::Refused {
                code: status.code(),
                message: status.message().to_owned(),
            })
    };
    tokio::time::timeout(timeout, call)
        .await
        .unwrap_or(Err(Error::Timeout))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fake::FakeManager;

    #[test]
    fn what_a_manager_encrypts_it_decrypts_after_its_key_has_changed() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("kms.sock");
        let manager = Arc::new(FakeManager::default());
        manager.use_key(1);
        manager.serve(&socket).expect("a socket");
        let socket = socket.to_str().expect("text");
        let client = Client::start("k", socket, Duration::from_secs(3)).expect("a thread");
        let encrypted = client.encrypt(b"secret".to_vec()).expect("encrypted");
        assert_ne!(encrypted.ciphertext, b"secret");
        assert_eq!(client.status().expect("well").key_id, encrypted.key_id);
        manager.use_key(2);
        assert_ne!(client.status().expect("well").key_id, encrypted.key_id);
        let decrypted = client.decrypt(encrypted).expect("decrypted");
        assert_eq!(decrypted, b"secret");
    }

    #[test]
    fn a_manager_that_is_not_there_is_an_error_in_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("none.sock");
        let socket = socket.to_str().expect("text");
        let client = Client::start("k", socket, Duration::from_millis(200)).expect("a thread");
        assert!(client.status().is_err());
        assert!(client.encrypt(b"secret".to_vec()).is_err());
    }
}
