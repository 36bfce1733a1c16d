//! `v2.KeyManagementService` over a unix socket, asked from where nothing can
//! wait for a future: a thread of its own does.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::transport::{Channel, Endpoint, Uri};

use crate::error::Error;

/// How long beyond the manager's own time limit an answer is waited for.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StatusResponse {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(string, tag = "2")]
    pub healthz: String,
    #[prost(string, tag = "3")]
    pub key_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub key_id: String,
    #[prost(map = "string, bytes", tag = "4")]
    pub annotations: HashMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub uid: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub key_id: String,
    #[prost(map = "string, bytes", tag = "3")]
    pub annotations: HashMap<String, Vec<u8>>,
}

/// What is to be decrypted.
pub(super) struct Asked {
    pub ciphertext: Vec<u8>,
    pub key_id: String,
    pub annotations: BTreeMap<String, Vec<u8>>,
}

type Answer<T> = mpsc::SyncSender<Result<T, String>>;

enum Call {
    Status(Answer<StatusResponse>),
    Encrypt(EncryptRequest, Answer<EncryptResponse>),
    Decrypt(DecryptRequest, Answer<DecryptResponse>),
}

/// A manager's client. Its thread ends with it.
pub(super) struct Client {
    calls: UnboundedSender<Call>,
    timeout: Duration,
}

impl Client {
    /// Starts the thread; it connects when first used.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(name: &str, socket: &str, timeout: Duration) -> Result<Self, Error> {
        let failed = |detail: String| Error::Kms {
            name: name.to_owned(),
            detail,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let (calls, queue) = unbounded_channel();
        let socket = socket.to_owned();
        std::thread::Builder::new()
            .name(format!("kms-{name}-calls"))
            .spawn(move || runtime.block_on(serve(socket, timeout, queue)))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { calls, timeout })
    }

    pub fn status(&self) -> Result<StatusResponse, String> {
        self.ask(Call::Status)
    }

    pub fn encrypt(&self, plaintext: Vec<u8>) -> Result<EncryptResponse, String> {
        let uid = uuid::Uuid::new_v4().to_string();
        self.ask(|answer| Call::Encrypt(EncryptRequest { plaintext, uid }, answer))
    }

    pub fn decrypt(&self, asked: Asked) -> Result<Vec<u8>, String> {
        let request = DecryptRequest {
            ciphertext: asked.ciphertext,
            uid: uuid::Uuid::new_v4().to_string(),
            key_id: asked.key_id,
            annotations: asked.annotations.into_iter().collect(),
        };
        self.ask(|answer| Call::Decrypt(request, answer))
            .map(|answer| answer.plaintext)
    }

    fn ask<T>(&self, call: impl FnOnce(Answer<T>) -> Call) -> Result<T, String> {
        let (answer, answered) = mpsc::sync_channel(1);
        let gone = || "its thread has ended".to_owned();
        self.calls.send(call(answer)).map_err(|_| gone())?;
        answered
            .recv_timeout(self.timeout + GRACE)
            .unwrap_or_else(|_| Err("it does not answer in time".to_owned()))
    }
}

async fn serve(socket: String, timeout: Duration, mut queue: UnboundedReceiver<Call>) {
    let channel = Endpoint::from_static("http://kms.invalid")
        .connect_timeout(timeout)
        .connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move {
                let stream = tokio::net::UnixStream::connect(socket).await?;
                Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
            }
        }));
    while let Some(call) = queue.recv().await {
        let channel = channel.clone();
        tokio::spawn(async move {
            // Who asked may have given up: then nobody wants the answer.
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
) -> Result<A, String>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let call = async {
        let path = format!("/v2.KeyManagementService/{method}");
        let path = PathAndQuery::try_from(path).map_err(|error| error.to_string())?;
        let mut grpc = tonic::client::Grpc::new(channel);
        grpc.ready().await.map_err(|error| error.to_string())?;
        let codec = tonic_prost::ProstCodec::<Q, A>::default();
        grpc.unary(tonic::Request::new(request), path, codec)
            .await
            .map(tonic::Response::into_inner)
            .map_err(|status| {
                format!(
                    "rpc error: code = {:?} desc = {}",
                    status.code(),
                    status.message()
                )
            })
    };
    tokio::time::timeout(timeout, call)
        .await
        .unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
}
