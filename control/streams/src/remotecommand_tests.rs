//! Tests the protocol with a client and a node made of pipes. Only a cluster can show that real
//! kubelets and runtimes understand the frames.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::*;
use crate::spdy::tests::{bytes, reply};
use crate::websocket::tests::frame;

const ALL: StreamSelection = StreamSelection {
    stdin: true,
    stdout: true,
    stderr: true,
    tty: false,
};

/// A client and a node with a session between them.
struct Stage {
    client: DuplexStream,
    node: DuplexStream,
    serving: JoinHandle<()>,
}

fn stage(wanted: StreamSelection) -> Stage {
    let (client, server) = duplex(1 << 10);
    let (node, inner) = duplex(1 << 10);
    let (reads, writes) = tokio::io::split(server);
    let serving = tokio::spawn(async move {
        serve(reads, writes, wanted, async { Ok(inner) }).await;
    });
    Stage {
        client,
        node,
        serving,
    }
}

impl Stage {
    /// The next message to the client: its channel and its bytes.
    async fn message(&mut self) -> (u8, Vec<u8>) {
        let [_, length] = array(&mut self.client).await;
        let length = match length {
            126 => usize::from(u16::from_be_bytes(array(&mut self.client).await)),
            127 => panic!("no message here is that long"),
            short => usize::from(short),
        };
        let mut message = vec![0; length];
        self.client
            .read_exact(&mut message)
            .await
            .expect("a message");
        (message[0], message.split_off(1))
    }

    /// The next frame to the node that is no ping: the first word, flags, bytes.
    async fn frame(&mut self) -> (u32, u8, Vec<u8>) {
        loop {
            let [a, b, c, d, flags, e, f, g] = array(&mut self.node).await;
            let mut payload = vec![0; u32::from_be_bytes([0, e, f, g]) as usize];
            self.node.read_exact(&mut payload).await.expect("a frame");
            let word = u32::from_be_bytes([a, b, c, d]);
            if word != 0x8003_0006 {
                return (word, flags, payload);
            }
        }
    }

    /// Accepts this many streams.
    async fn accept(&mut self, streams: u32) {
        for at in 0..streams {
            let (word, _, payload) = self.frame().await;
            assert_eq!(word, 0x8003_0001);
            let stream = 2 * at + 1;
            assert_eq!(payload[..4], stream.to_be_bytes());
            self.node.write_all(&reply(stream)).await.expect("replied");
        }
    }

    async fn ends(mut self) {
        let mut rest = Vec::new();
        self.client.read_to_end(&mut rest).await.expect("closed");
        assert_eq!(rest, [0x88, 2, 3, 232], "a normal end");
        self.serving.await.expect("ended");
    }
}

async fn array<const N: usize>(from: &mut DuplexStream) -> [u8; N] {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).await.expect("bytes");
    bytes
}

#[tokio::test]
async fn input_outputs_and_outcome_pass() {
    let mut stage = stage(ALL);
    assert_eq!(stage.message().await, (1, vec![]));
    // Sent before the node has accepted anything.
    let mut input = frame(false, 2, b"\0hel");
    input.extend(frame(true, 0, b"lo"));
    input.extend(frame(true, 2, &[255, 0]));
    stage.client.write_all(&input).await.expect("sent");
    stage.accept(4).await;
    assert_eq!(stage.frame().await, (3, 0, b"hel".to_vec()));
    assert_eq!(stage.frame().await, (3, 0, b"lo".to_vec()));
    assert_eq!(stage.frame().await, (3, 1, vec![]));
    let outcome = br#"{"metadata":{},"status":"Failure","reason":"NonZeroExitCode"}"#;
    let mut output = bytes(5, 0, b"out");
    output.extend(bytes(7, 1, b"err"));
    output.extend(bytes(5, 1, b""));
    output.extend(bytes(1, 0, &outcome[..10]));
    output.extend(bytes(1, 1, &outcome[10..]));
    stage.node.write_all(&output).await.expect("sent");
    assert_eq!(stage.message().await, (1, b"out".to_vec()));
    assert_eq!(stage.message().await, (2, b"err".to_vec()));
    assert_eq!(stage.message().await, (3, outcome.to_vec()));
    stage.ends().await;
}

#[tokio::test]
async fn a_terminal_has_sizes_and_one_output() {
    let mut stage = stage(StreamSelection { tty: true, ..ALL });
    stage.message().await;
    stage.accept(4).await;
    let size = br#"{"Width":80,"Height":24}"#;
    let mut message = vec![4];
    message.extend(size);
    stage
        .client
        .write_all(&frame(true, 2, &message))
        .await
        .expect("sent");
    assert_eq!(stage.frame().await, (7, 0, size.to_vec()));
    stage
        .node
        .write_all(&[bytes(5, 1, b"$ "), bytes(1, 1, b"")].concat())
        .await
        .expect("sent");
    assert_eq!(stage.message().await, (1, b"$ ".to_vec()));
    let (channel, outcome) = stage.message().await;
    let outcome: serde_json::Value = serde_json::from_slice(&outcome).expect("a status");
    assert_eq!((channel, outcome["status"].as_str()), (3, Some("Success")));
    stage.ends().await;
}

#[tokio::test]
async fn more_than_the_buffers_hold_passes_without_loss() {
    let mut stage = stage(ALL);
    stage.message().await;
    stage.accept(4).await;
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let mut output = bytes(5, 1, &sent);
    output.extend(bytes(7, 1, b""));
    output.extend(bytes(1, 1, b""));
    let mut got = Vec::new();
    let (node, client) = (&mut stage.node, &mut stage.client);
    let read = async {
        while got.len() < sent.len() {
            let [_, length] = array(client).await;
            let length = match length {
                126 => usize::from(u16::from_be_bytes(array(client).await)),
                short => usize::from(short),
            };
            let mut message = vec![0; length];
            client.read_exact(&mut message).await.expect("a message");
            assert_eq!(message[0], 1);
            got.extend_from_slice(&message[1..]);
        }
    };
    let (wrote, ()) = tokio::join!(node.write_all(&output), read);
    wrote.expect("sent");
    assert!(got == sent);
    assert_eq!(stage.message().await.0, 3);
    stage.ends().await;
}

#[tokio::test]
async fn a_node_that_breaks_off_is_told() {
    let mut stage = stage(ALL);
    stage.message().await;
    stage.accept(4).await;
    stage.node.shutdown().await.expect("closed");
    let (channel, outcome) = stage.message().await;
    let outcome: serde_json::Value = serde_json::from_slice(&outcome).expect("a status");
    assert_eq!(channel, 3);
    assert_eq!(outcome["status"], "Failure");
    stage.ends().await;
}

#[tokio::test]
async fn a_node_that_cannot_be_asked_is_told() {
    let (mut client, server) = duplex(1 << 10);
    let (reads, writes) = tokio::io::split(server);
    let refuse = async { Err::<DuplexStream, _>(failure("no route")) };
    serve(reads, writes, ALL, refuse).await;
    let mut told = Vec::new();
    client.read_to_end(&mut told).await.expect("closed");
    let text = String::from_utf8_lossy(&told);
    assert!(text.contains("Internal error occurred: no route"), "{text}");
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_command_s_streams() {
    let mut stage = stage(ALL);
    stage.message().await;
    stage.accept(4).await;
    drop(stage.client);
    let mut rest = Vec::new();
    stage.node.read_to_end(&mut rest).await.expect("closed");
    stage.serving.await.expect("ended");
}
