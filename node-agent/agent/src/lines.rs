//! Answers lines of JSON over a socket of root's: what the CNI plugin asks. A file may
//! come with a line.

use std::{
    future::Future,
    io::{self, IoSliceMut},
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncWriteExt, Interest},
    net::{UnixListener, UnixStream},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// Bytes of a question: names and addresses.
const LONGEST: usize = cni_addresses::wire::LONGEST;
/// How long a question may take to arrive: the plugin writes it at once.
const QUICK: Duration = Duration::from_secs(5);
/// How long after a socket that could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// A line that is no question.
#[derive(Debug, thiserror::Error)]
#[error("the question is not understood")]
pub struct InvalidQuestion(#[source] serde_json::Error);

/// Hands each question, and the file that came with it, to `answer`, of several at once,
/// until `shutdown`. One that is not understood is told why.
pub async fn serve<Q, A, F>(
    listener: UnixListener,
    answer: impl Fn(Result<Q, InvalidQuestion>, Option<OwnedFd>) -> F + Clone + Send + 'static,
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
                        debug!(%error, "failed to answer the CNI plugin");
                    }
                });
            }
            Err(error) => {
                debug!(%error, "failed to accept a connection of the CNI plugin");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn one<Q, A, F>(
    mut stream: UnixStream,
    answer: impl Fn(Result<Q, InvalidQuestion>, Option<OwnedFd>) -> F + Send,
) -> io::Result<()>
where
    Q: DeserializeOwned + Send,
    A: Serialize + Send,
    F: Future<Output = A> + Send,
{
    let (line, file) = timeout(QUICK, receive(&stream)).await??;
    let question = serde_json::from_slice(&line).map_err(InvalidQuestion);
    let mut text = serde_json::to_vec(&answer(question, file).await)?;
    text.push(b'\n');
    stream.write_all(&text).await
}

/// A line, or what there is of it when it is too long or nothing follows; and the first
/// file that came.
async fn receive(stream: &UnixStream) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let (mut line, mut file) = (Vec::new(), None);
    while line.last() != Some(&b'\n') && line.len() < LONGEST {
        let mut part = [0; LONGEST];
        stream.readable().await?;
        let received = stream.try_io(Interest::READABLE, || some(stream, &mut part));
        let (count, came) = match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            received => received?,
        };
        file = file.or(came);
        if count == 0 {
            break;
        }
        line.extend(part.iter().take(count));
    }
    Ok((line, file))
}

/// What has arrived; of files the first.
fn some(stream: &UnixStream, part: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut control = nix::cmsg_space!([RawFd; 1]);
    let mut parts = [IoSliceMut::new(part)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let fd = stream.as_raw_fd();
    let message = recvmsg::<UnixAddr>(fd, &mut parts, Some(&mut control), flags)?;
    let mut files = Vec::new();
    // What of more files had no room the kernel has closed.
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(came) = control {
            // SAFETY: the kernel made these descriptors for this call, and nobody else
            // knows them.
            files.extend(
                came.into_iter()
                    .map(|it| unsafe { OwnedFd::from_raw_fd(it) }),
            );
        }
    }
    let count = message.bytes;
    Ok((count, files.into_iter().next()))
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read, os::fd::AsFd};

    use cni_addresses::wire;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_file_comes_with_its_question_and_what_is_no_question_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let (socket, said) = (folder.path().join("s"), folder.path().join("said"));
        std::fs::write(&said, "here").expect("a file");
        let listener = UnixListener::bind(&socket).expect("listens");
        let answer = |question: Result<String, InvalidQuestion>, file: Option<OwnedFd>| async move {
            let mut text = String::new();
            if let Some(file) = file {
                let read = File::from(file).read_to_string(&mut text);
                read.expect("the file that was handed over");
            }
            format!("{}/{text}", question.unwrap_or_else(|why| why.to_string()))
        };
        let end = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, answer, end.clone()));
        let patience = Duration::from_secs(9);
        let asked = tokio::task::spawn_blocking(move || {
            let file = File::open(&said).expect("the file");
            // More than the socket hands over at once.
            let long = "x".repeat(3_000);
            let with: String =
                wire::ask_with(&socket, &long, Some(file.as_fd()), patience).expect("an answer");
            assert_eq!(with, format!("{long}/here"));
            let without: String = wire::request(&socket, &"q", patience).expect("an answer");
            assert_eq!(without, "q/");
            let number: String = wire::request(&socket, &7, patience).expect("an answer");
            assert!(number.contains("not understood"), "{number}");
            let much = "x".repeat(LONGEST);
            let much: io::Result<String> = wire::request(&socket, &much, patience);
            // What was not read any more resets the connection, or the answer comes first.
            assert!(much.is_err() || much.is_ok_and(|it| it.contains("not understood")));
        });
        asked.await.expect("no panic");
        end.cancel();
        serving.await.expect("no panic");
    }
}
