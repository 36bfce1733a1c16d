//! Asks a server on this machine for one of its paths.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Why a server on this machine does not answer.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// It cannot be reached.
    #[error(transparent)]
    Connection(#[from] io::Error),
    /// The answer takes too long.
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The answer is not HTTP.
    #[error("its answer is not understood")]
    Answer,
}

/// Requests a path of a health or metrics server without TLS. Returns the status code and the first
/// `most` bytes of the answer.
///
/// # Errors
/// When there is no answer within this time.
pub async fn fetch(
    address: SocketAddr,
    path: &str,
    most: u64,
    within: Duration,
) -> Result<(u16, String), FetchError> {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(most).read_to_end(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = tokio::time::timeout(within, asked)
        .await
        .map_err(|_| FetchError::Timeout(within))??;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let code = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    let code = code.ok_or(FetchError::Answer)?;
    Ok((code, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn answers_are_read_and_nobody_is_waited_for() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut request = [0; 256];
            let read = stream.read(&mut request).await.expect("a request");
            let answer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}";
            stream.write_all(answer.as_bytes()).await.expect("sent");
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        let answer = fetch(address, "/healthz", 1024, WITHIN).await;
        assert_eq!(answer.expect("an answer"), (503, "{}".to_owned()));
        assert!(
            serving
                .await
                .expect("served")
                .starts_with("GET /healthz HTTP/1.1\r\n")
        );
        assert!(
            fetch(address, "/healthz", 1024, WITHIN).await.is_err(),
            "nobody listens"
        );
    }
}
