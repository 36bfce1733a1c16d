//! The part of SPDY/3.1 that a client of a kubelet needs: streams are opened, data flows
//! both ways, streams end.
//!
//! Header blocks are zlib streams that may use a shared dictionary (SPDY/3, section
//! 2.6.10.1). Outgoing ones are stored blocks: valid for every inflater, and a stream's
//! few headers are not worth compressing. Incoming ones (replies without headers) are not
//! parsed. There are no windows: kubelets and runtimes neither send nor obey
//! WINDOW_UPDATE, they rely on TCP.

use std::io;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::CHUNK;

/// The value of `Upgrade`.
pub const PROTOCOL: &str = "SPDY/3.1";

/// The header that negotiates the meaning of the streams.
pub const STREAM_PROTOCOL: &str = "x-stream-protocol-version";

/// A control frame longer than this breaks the connection, in bytes.
const LARGEST_CONTROL: u32 = 64 << 10;

/// The interval of pings to the other side.
const PING_EVERY: Duration = Duration::from_secs(5);

/// Kinds of control frames.
mod kind {
    pub const SYN_STREAM: u16 = 1;
    pub const SYN_REPLY: u16 = 2;
    pub const RST_STREAM: u16 = 3;
    pub const PING: u16 = 6;
    pub const GOAWAY: u16 = 7;
}

/// Flag of a stream's last frame.
const FIN: u8 = 1;

/// Version 3 of the protocol, in a control frame.
const CONTROL: u16 = 0x8003;

/// An outgoing frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Opens a stream with one header.
    Open {
        /// Odd for the side that connected, growing.
        stream: u32,
        /// Name in lower case, and value.
        header: (&'static str, &'static str),
    },
    /// Bytes of a stream.
    Data {
        /// The stream.
        stream: u32,
        /// Its bytes.
        bytes: Bytes,
    },
    /// The end of this side's data on a stream.
    Finish(u32),
    /// The answer to a ping.
    Pong(u32),
}

/// An incoming event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpdyEvent {
    /// A stream was accepted.
    Reply(u32),
    /// Bytes of a stream.
    Data {
        /// The stream.
        stream: u32,
        /// Its bytes.
        bytes: Bytes,
    },
    /// The other side has ended a stream.
    End(u32),
    /// A ping to be answered.
    Ping(u32),
    /// The other side will close the connection.
    Away,
}

/// Writes queued frames and periodic pings, until all senders are dropped.
///
/// # Errors
/// When the other side has disconnected.
pub async fn write(
    mut to: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Frame>,
) -> io::Result<()> {
    let mut deflater = Deflater::default();
    let mut ping = 1;
    let mut out = BytesMut::with_capacity(CHUNK + 64);
    let mut pings = tokio::time::interval(PING_EVERY);
    pings.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    pings.tick().await;
    loop {
        out.clear();
        tokio::select! {
            frame = queue.recv() => match frame {
                Some(frame) => encode(&frame, &mut deflater, &mut out),
                None => return to.shutdown().await,
            },
            _ = pings.tick() => {
                control(kind::PING, 0, 4, &mut out);
                out.put_u32(ping);
                // Ids of this side's pings are odd.
                ping = ping.wrapping_add(2);
            }
        }
        to.write_all(&out).await?;
        if queue.is_empty() {
            to.flush().await?;
        }
    }
}

fn encode(frame: &Frame, deflater: &mut Deflater, out: &mut BytesMut) {
    match frame {
        Frame::Open {
            stream,
            header: (name, value),
        } => {
            let mut block = BytesMut::new();
            block.put_u32(1);
            for text in [name, value] {
                block.put_u32(text.len() as u32);
                block.put_slice(text.as_bytes());
            }
            let packed = deflater.pack(&block);
            control(kind::SYN_STREAM, 0, 10 + packed.len(), out);
            out.put_u32(*stream);
            out.put_u32(0);
            // Priority and slot.
            out.put_u16(0);
            out.put_slice(&packed);
        }
        Frame::Data { stream, bytes } => {
            data(*stream, 0, bytes.len(), out);
            out.put_slice(bytes);
        }
        Frame::Finish(stream) => data(*stream, FIN, 0, out),
        Frame::Pong(id) => {
            control(kind::PING, 0, 4, out);
            out.put_u32(*id);
        }
    }
}

fn control(kind: u16, flags: u8, length: usize, out: &mut BytesMut) {
    out.put_u16(CONTROL);
    out.put_u16(kind);
    out.put_u8(flags);
    out.put_uint(length as u64, 3);
}

fn data(stream: u32, flags: u8, length: usize, out: &mut BytesMut) {
    out.put_u32(stream);
    out.put_u8(flags);
    out.put_uint(length as u64, 3);
}

/// A zlib stream of stored blocks.
#[derive(Debug, Default)]
struct Deflater {
    begun: bool,
}

impl Deflater {
    fn pack(&mut self, bytes: &[u8]) -> BytesMut {
        let mut out = BytesMut::with_capacity(bytes.len() + 16);
        if !std::mem::replace(&mut self.begun, true) {
            // 32 KiB window, fastest, no dictionary (RFC 1950).
            out.put_slice(&[0x78, 0x01]);
        }
        for chunk in bytes.chunks(usize::from(u16::MAX)) {
            let length = u16::try_from(chunk.len()).unwrap_or(u16::MAX);
            out.put_u8(0);
            out.put_u16_le(length);
            out.put_u16_le(!length);
            out.put_slice(chunk);
        }
        // An empty block makes inflaters flush their output.
        out.put_slice(&[0, 0, 0, 0xff, 0xff]);
        out
    }
}

/// Reads frames. Data comes in pieces: no frame is held whole.
#[derive(Debug)]
pub struct SpdyReader<R> {
    from: R,
    /// The data frame that is being read.
    stream: u32,
    left: u32,
    finish: bool,
}

impl<R: AsyncRead + Unpin> SpdyReader<R> {
    /// Reads from `from`, which is behind the upgrade.
    pub fn new(from: R) -> Self {
        Self {
            from,
            stream: 0,
            left: 0,
            finish: false,
        }
    }

    /// Returns the next event; not cancel-safe.
    ///
    /// # Errors
    /// When the other side has disconnected or violates the protocol.
    pub async fn next(&mut self) -> io::Result<SpdyEvent> {
        loop {
            if self.left > 0 {
                return self.chunk().await;
            }
            if std::mem::take(&mut self.finish) {
                return Ok(SpdyEvent::End(self.stream));
            }
            let mut head = [0; 8];
            self.from.read_exact(&mut head).await?;
            let [a, b, c, d, flags, e, f, g] = head;
            let length = u32::from_be_bytes([0, e, f, g]);
            if a & 0x80 == 0 {
                self.stream = u32::from_be_bytes([a, b, c, d]);
                self.left = length;
                self.finish = flags & FIN != 0;
                continue;
            }
            if u16::from_be_bytes([a, b]) != CONTROL {
                return Err(broken("a frame of another version of SPDY"));
            }
            if let Some(event) = self
                .control(u16::from_be_bytes([c, d]), flags, length)
                .await?
            {
                return Ok(event);
            }
        }
    }

    async fn control(
        &mut self,
        kind: u16,
        flags: u8,
        length: u32,
    ) -> io::Result<Option<SpdyEvent>> {
        if length > LARGEST_CONTROL {
            return Err(broken("a control frame is too long"));
        }
        let mut payload = (&mut self.from).take(u64::from(length));
        let event = match kind {
            kind::SYN_REPLY | kind::RST_STREAM | kind::PING => {
                let id = payload.read_u32().await?;
                let stream = id & 0x7fff_ffff;
                Some(match kind {
                    kind::SYN_REPLY => {
                        if flags & FIN != 0 {
                            self.stream = stream;
                            self.finish = true;
                        }
                        SpdyEvent::Reply(stream)
                    }
                    kind::RST_STREAM => SpdyEvent::End(stream),
                    _ => SpdyEvent::Ping(id),
                })
            }
            kind::GOAWAY => Some(SpdyEvent::Away),
            // Streams of the other side, settings, headers, windows: nothing
            // that a client of streams needs.
            _ => None,
        };
        tokio::io::copy(&mut payload, &mut tokio::io::sink()).await?;
        if payload.limit() > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(event)
    }

    async fn chunk(&mut self) -> io::Result<SpdyEvent> {
        let most = (self.left as usize).min(CHUNK);
        let mut bytes = BytesMut::with_capacity(most);
        let read = (&mut self.from)
            .take(most as u64)
            .read_buf(&mut bytes)
            .await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u32;
        Ok(SpdyEvent::Data {
            stream: self.stream,
            bytes: bytes.freeze(),
        })
    }
}

fn broken(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;

    use super::*;

    /// The frames that a server sends, for tests.
    pub fn reply(stream: u32) -> Vec<u8> {
        let mut out = BytesMut::new();
        control(kind::SYN_REPLY, 0, 4, &mut out);
        out.put_u32(stream);
        out.to_vec()
    }

    pub fn bytes(stream: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        data(stream, flags, bytes.len(), &mut out);
        out.put_slice(bytes);
        out.to_vec()
    }

    fn word(kind: u16, words: &[u32]) -> Vec<u8> {
        let mut out = BytesMut::new();
        control(kind, 0, words.len() * 4, &mut out);
        words.iter().for_each(|word| out.put_u32(*word));
        out.to_vec()
    }

    #[test]
    fn header_blocks_are_one_zlib_stream() {
        let mut deflater = Deflater::default();
        let mut wire = deflater.pack(b"first");
        wire.extend_from_slice(&deflater.pack(&[5; 70_000]));
        let mut inflated = vec![0; 5 + 70_000];
        flate2::read::ZlibDecoder::new(&wire[..])
            .read_exact(&mut inflated)
            .expect("inflated");
        assert_eq!(&inflated[..5], b"first");
        assert!(inflated[5..].iter().all(|byte| *byte == 5));
    }

    #[test]
    fn frames_are_those_of_the_protocol() {
        let mut out = BytesMut::new();
        let mut deflater = Deflater::default();
        let open = Frame::Open {
            stream: 3,
            header: ("streamtype", "stdin"),
        };
        encode(&open, &mut deflater, &mut out);
        let (head, block) = out.split_at(18);
        let length = u8::try_from(10 + block.len()).expect("short");
        assert_eq!(
            head,
            [0x80, 3, 0, 1, 0, 0, 0, length, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0]
        );
        let mut inflated = vec![0; 4 + 4 + 10 + 4 + 5];
        flate2::read::ZlibDecoder::new(block)
            .read_exact(&mut inflated)
            .expect("inflated");
        assert_eq!(inflated, b"\0\0\0\x01\0\0\0\x0astreamtype\0\0\0\x05stdin");
        out.clear();
        let data = Frame::Data {
            stream: 5,
            bytes: Bytes::from_static(b"abc"),
        };
        encode(&data, &mut deflater, &mut out);
        encode(&Frame::Finish(5), &mut deflater, &mut out);
        encode(&Frame::Pong(2), &mut deflater, &mut out);
        assert_eq!(
            &out[..],
            b"\0\0\0\x05\0\0\0\x03abc\0\0\0\x05\x01\0\0\0\x80\x03\0\x06\0\0\0\x04\0\0\0\x02"
        );
    }

    #[tokio::test]
    async fn what_a_server_sends_is_read_and_the_rest_skipped() {
        let long = vec![9; 2 * CHUNK + 5];
        let mut wire = Vec::new();
        wire.extend(reply(1));
        wire.extend(word(4, &[0, 0]));
        wire.extend(bytes(1, 0, b"ab"));
        wire.extend(word(kind::PING, &[2]));
        wire.extend(bytes(1, FIN, b"cd"));
        wire.extend(bytes(3, FIN, b""));
        wire.extend(word(kind::RST_STREAM, &[5, 5]));
        wire.extend(bytes(7, 0, &long));
        wire.extend(word(kind::GOAWAY, &[7, 0]));
        let mut reader = SpdyReader::new(wire.as_slice());
        let data = |stream, bytes: &'static [u8]| SpdyEvent::Data {
            stream,
            bytes: Bytes::from_static(bytes),
        };
        for expected in [
            SpdyEvent::Reply(1),
            data(1, b"ab"),
            SpdyEvent::Ping(2),
            data(1, b"cd"),
            SpdyEvent::End(1),
            SpdyEvent::End(3),
            SpdyEvent::End(5),
        ] {
            assert_eq!(reader.next().await.expect("an event"), expected);
        }
        let mut read = 0;
        while read < long.len() {
            let SpdyEvent::Data { stream: 7, bytes } = reader.next().await.expect("data") else {
                panic!("no data of stream 7");
            };
            assert!(bytes.len() <= CHUNK);
            read += bytes.len();
        }
        assert_eq!(reader.next().await.expect("an event"), SpdyEvent::Away);
        assert!(reader.next().await.is_err());
    }

    #[tokio::test]
    async fn broken_frames_are_errors() {
        for wire in [
            vec![0x80, 2, 0, 1, 0, 0, 0, 0],
            vec![0x80, 3, 0, 4, 0, 0xff, 0xff, 0xff],
            vec![0x80, 3, 0, 6, 0, 0, 0, 4, 0],
            vec![0x80, 3, 0, 4, 0, 0, 0, 4, 0],
            vec![0x80, 3, 0, 3, 0, 0, 0, 0],
            vec![0, 0, 0, 1, 0, 0, 0, 5, b'a'],
            vec![0, 0],
        ] {
            let mut reader = SpdyReader::new(wire.as_slice());
            let mut last = reader.next().await;
            while last.is_ok() {
                last = reader.next().await;
            }
            let kind = last.expect_err("broken").kind();
            assert!(
                matches!(
                    kind,
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData
                ),
                "{wire:?}: {kind}"
            );
        }
    }

    const BEGINNINGS: [[u8; 4]; 4] = [
        [0x80, 3, 0, 2],
        [0x80, 3, 0, 6],
        [0, 0, 0, 1],
        [0x80, 3, 0, 9],
    ];

    #[tokio::test]
    async fn no_bytes_make_the_reader_panic_or_go_on_forever() {
        use rand::prelude::*;

        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..5000 {
            let length = random.random_range(0..200);
            let mut wire: Vec<u8> = (0..length).map(|_| random.random()).collect();
            // Else nearly all end at the first byte.
            if let [first, second, third, fourth, ..] = wire.as_mut_slice() {
                [*first, *second, *third, *fourth] = *BEGINNINGS.choose(&mut random).expect("some");
            }
            let mut reader = SpdyReader::new(wire.as_slice());
            let mut events = 0;
            while reader.next().await.is_ok() {
                events += 1;
                assert!(events <= 200, "{wire:?}");
            }
        }
    }
}
