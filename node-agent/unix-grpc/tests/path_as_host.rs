//! A request whose authority is the path of a socket, as gRPC for Go sends it, against hyper.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use node_agent_unix_grpc::UnixGrpcStream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;

/// `POST /a HTTP/2` with the authority `%2Frun%2Fd.sock`.
fn request() -> Vec<u8> {
    let authority = b"%2Frun%2Fd.sock";
    let mut block = vec![0x83, 0x86, 0x44, 2, b'/', b'a', 0x41];
    block.push(u8::try_from(authority.len()).unwrap());
    block.extend(authority);
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    // END_HEADERS and END_STREAM.
    bytes.extend([0, 0, u8::try_from(block.len()).unwrap(), HEADERS, 5]);
    bytes.extend([0, 0, 0, 1]);
    bytes.extend(block);
    bytes
}

/// Serves a connection, and returns the kind of the first frame that answers the request.
async fn first_answer<S>(wrap: impl FnOnce(UnixStream) -> S) -> u8
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut client, server) = UnixStream::pair().unwrap();
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
        assert_eq!(request.uri().authority().unwrap(), "localhost");
        Ok::<_, Infallible>(http::Response::new(Empty::<Bytes>::new()))
    });
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(wrap(server)), service);
    let serving = tokio::spawn(connection);
    client.write_all(&request()).await.unwrap();
    let kind = loop {
        let mut header = [0; 9];
        client.read_exact(&mut header).await.unwrap();
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; length as usize];
        client.read_exact(&mut payload).await.unwrap();
        if [HEADERS, RST_STREAM].contains(&header[3]) {
            break header[3];
        }
    };
    serving.abort();
    kind
}

#[tokio::test]
async fn a_path_as_host_is_answered() {
    assert_eq!(first_answer(UnixGrpcStream::new).await, HEADERS);
}

/// The reason for this crate: when this fails, hyper takes such requests by itself.
#[tokio::test]
async fn hyper_alone_resets_such_a_request() {
    assert_eq!(first_answer(|stream| stream).await, RST_STREAM);
}
