//! HTTP/2 by hand, so that a test may say what no client would.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::PATIENCE;

/// A frame of HTTP/2 (RFC 9113, section 4.1).
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut out = length[1..].to_vec();
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// `:status: 200` of HPACK's table.
pub const OK: u8 = 0x88;
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const GOAWAY: u8 = 7;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// `GET /readyz` in HPACK, without a table: method and scheme by number, path and
/// authority as texts.
pub fn head(path: &str) -> Vec<u8> {
    let mut out = vec![0x82, 0x87];
    for (name, text) in [(0x04, path), (0x01, "x")] {
        out.push(name);
        out.push(u8::try_from(text.len()).expect("short"));
        out.extend_from_slice(text.as_bytes());
    }
    out
}

pub async fn preface(stream: &mut (impl AsyncWrite + Unpin)) {
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .expect("sent");
    let settings = frame(SETTINGS, 0, 0, &[]);
    stream.write_all(&settings).await.expect("sent");
}

/// Reads frames until GOAWAY or the end: its error code, if it was said.
pub async fn farewell(stream: &mut (impl AsyncRead + Unpin)) -> Option<u32> {
    let reading = async {
        let mut said = None;
        loop {
            let mut head = [0; 9];
            if stream.read_exact(&mut head).await.is_err() {
                return said;
            }
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).expect("small")];
            if stream.read_exact(&mut payload).await.is_err() {
                return said;
            }
            if head[3] == GOAWAY && payload.len() >= 8 {
                said = Some(u32::from_be_bytes([
                    payload[4], payload[5], payload[6], payload[7],
                ]));
                if said != Some(0) {
                    return said;
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading)
        .await
        .expect("it says something")
}

/// What becomes of a request on HTTP/2: the first octet of its head, or the code by
/// which stream or connection was ended.
pub async fn verdict(stream: &mut (impl AsyncRead + Unpin)) -> Result<u8, u32> {
    let reading = async {
        loop {
            let mut head = [0; 9];
            if stream.read_exact(&mut head).await.is_err() {
                return Err(u32::MAX);
            }
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).expect("small")];
            if stream.read_exact(&mut payload).await.is_err() {
                return Err(u32::MAX);
            }
            let code = |at: usize| {
                u32::from_be_bytes([
                    payload[at],
                    payload[at + 1],
                    payload[at + 2],
                    payload[at + 3],
                ])
            };
            match head[3] {
                HEADERS => return Ok(payload[0]),
                RST_STREAM => return Err(code(0)),
                GOAWAY => return Err(code(4)),
                _ => {}
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, reading).await;
    answer.expect("it says something")
}
