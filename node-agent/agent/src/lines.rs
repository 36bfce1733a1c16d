//! Answers lines of JSON over a socket of root's: what the CNI plugin asks.

use std::{future::Future, io, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// Bytes of a question: names and addresses.
const LONGEST: u64 = cni_addresses::wire::LONGEST;
/// How long a question may take to arrive: the plugin writes it at once.
const QUICK: Duration = Duration::from_secs(5);
/// How long after a socket that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Hands each question to `answer`, of several at once, until `shutdown`. One
/// that is not understood is told why.
pub async fn serve<Q, A, F>(
    listener: UnixListener,
    answer: impl Fn(Result<Q, String>) -> F + Clone + Send + 'static,
    shutdown: CancellationToken,
) where
    Q: DeserializeOwned + Send,
    A: Serialize + Send,
    F: Future<Output = A> + Send,
{
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match stream {
            Ok((stream, _)) => {
                let answer = answer.clone();
                tokio::spawn(async move {
                    if let Err(error) = one(stream, answer).await {
                        debug!(%error, "a question of the CNI plugin was not answered");
                    }
                });
            }
            Err(error) => {
                debug!(%error, "no question of the CNI plugin accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn one<Q, A, F>(
    stream: UnixStream,
    answer: impl Fn(Result<Q, String>) -> F + Send,
) -> io::Result<()>
where
    Q: DeserializeOwned + Send,
    A: Serialize + Send,
    F: Future<Output = A> + Send,
{
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(reader.take(LONGEST));
    timeout(QUICK, reader.read_line(&mut line)).await??;
    let question = serde_json::from_str(&line)
        .map_err(|error| format!("the question is not understood: {error}"));
    let mut text = serde_json::to_vec(&answer(question).await)?;
    text.push(b'\n');
    writer.write_all(&text).await
}
