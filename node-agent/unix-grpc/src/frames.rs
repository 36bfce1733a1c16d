//! Frames of HTTP/2 (RFC 9113, section 4), of which those with headers are rewritten.

use crate::headers::with_local_authority;

/// Length of what a client sends before its first frame.
const PREFACE: usize = 24;
/// Length of a frame's header.
const FRAME_HEADER: usize = 9;
/// Longest frame with headers that is rewritten; servers accept 16 KiB unless they say more.
const LONGEST: usize = 64 << 10;

const HEADERS: u8 = 1;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// What the next bytes are.
#[derive(Debug)]
enum Part {
    /// So many bytes that are passed on as they are.
    Opaque(usize),
    /// The header of a frame, as far as it is there.
    FrameHeader(Vec<u8>),
    /// A frame with headers, as far as it is there, and its length.
    Headers(Vec<u8>, usize),
}

/// Rewrites what a client sends, in pieces of any size.
#[derive(Debug)]
pub(crate) struct FrameRewriter {
    part: Part,
}

impl Default for FrameRewriter {
    fn default() -> Self {
        Self {
            part: Part::Opaque(PREFACE),
        }
    }
}

impl FrameRewriter {
    /// Takes bytes, and appends to `rewritten` what can be passed on.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], rewritten: &mut Vec<u8>) {
        while !bytes.is_empty() {
            self.part = match &mut self.part {
                Part::Opaque(left) => {
                    let taken = take(&mut bytes, *left);
                    rewritten.extend_from_slice(taken);
                    match *left - taken.len() {
                        0 => Part::FrameHeader(Vec::with_capacity(FRAME_HEADER)),
                        left => Part::Opaque(left),
                    }
                }
                Part::FrameHeader(header) => {
                    header.extend_from_slice(take(&mut bytes, FRAME_HEADER - header.len()));
                    let &[a, b, c, kind, ..] = header.as_slice() else {
                        continue;
                    };
                    if header.len() < FRAME_HEADER {
                        continue;
                    }
                    let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                    if kind == HEADERS && (1..=LONGEST).contains(&length) {
                        Part::Headers(std::mem::take(header), FRAME_HEADER + length)
                    } else {
                        rewritten.append(header);
                        match length {
                            0 => Part::FrameHeader(Vec::with_capacity(FRAME_HEADER)),
                            length => Part::Opaque(length),
                        }
                    }
                }
                Part::Headers(frame, length) => {
                    frame.extend_from_slice(take(&mut bytes, *length - frame.len()));
                    if frame.len() < *length {
                        continue;
                    }
                    match rewrite(frame) {
                        Some(changed) => rewritten.extend_from_slice(&changed),
                        None => rewritten.append(frame),
                    }
                    Part::FrameHeader(Vec::with_capacity(FRAME_HEADER))
                }
            };
        }
    }
}

/// Takes at most `count` bytes from the beginning.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count.min(bytes.len()));
    *bytes = rest;
    taken
}

/// Returns a frame with headers anew, without padding; nothing if it stays as it is.
fn rewrite(frame: &[u8]) -> Option<Vec<u8>> {
    let (header, payload) = frame.split_at_checked(FRAME_HEADER)?;
    let &[_, _, _, kind, flags, ref stream @ ..] = header else {
        return None;
    };
    let mut payload = payload;
    if flags & PADDED != 0 {
        let (padding, rest) = payload.split_first()?;
        payload = rest.get(..rest.len().checked_sub(usize::from(*padding))?)?;
    }
    let priority = if flags & PRIORITY != 0 { 5 } else { 0 };
    let (priority, block) = payload.split_at_checked(priority)?;
    let block = with_local_authority(block)?;
    let length = u32::try_from(priority.len() + block.len()).ok()?;
    let mut changed = length.to_be_bytes().get(1..)?.to_vec();
    changed.extend([kind, flags & !PADDED]);
    changed.extend_from_slice(stream);
    changed.extend_from_slice(priority);
    changed.extend(block);
    Some(changed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0, 0, u8::try_from(payload.len()).unwrap(), kind, flags];
        frame.extend([0, 0, 0, 1]);
        frame.extend(payload);
        frame
    }

    /// `:method: GET` and an authority of four letters.
    const BLOCK: [u8; 7] = [0x82, 0x41, 4, b'%', b'2', b'F', b'a'];

    fn connection() -> (Vec<u8>, Vec<u8>) {
        let local = [&[0x82, 0x41, 9], b"localhost".as_slice()].concat();
        let preface = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let padded = [&[2], BLOCK.as_slice(), &[0, 0]].concat();
        let with_priority = [&[0, 0, 0, 0, 7], BLOCK.as_slice()].concat();
        let sent = [
            preface.to_vec(),
            frame(4, 0, &[]),
            frame(HEADERS, 4, &BLOCK),
            frame(0, 1, b"data that has 0x41 in it: A"),
            frame(HEADERS, 4 | PADDED, &padded),
            frame(HEADERS, 4 | PRIORITY, &with_priority),
            frame(HEADERS, 4, &[0x82, 0xc1]),
        ];
        let wanted = [
            preface.to_vec(),
            frame(4, 0, &[]),
            frame(HEADERS, 4, &local),
            frame(0, 1, b"data that has 0x41 in it: A"),
            frame(HEADERS, 4, &local),
            frame(
                HEADERS,
                4 | PRIORITY,
                &[&[0, 0, 0, 0, 7], local.as_slice()].concat(),
            ),
            frame(HEADERS, 4, &[0x82, 0xc1]),
        ];
        (sent.concat(), wanted.concat())
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_give_the_same(sizes in prop::collection::vec(1_usize..40, 1..200)) {
            let (sent, wanted) = connection();
            let mut rewriter = FrameRewriter::default();
            let mut rewritten = Vec::new();
            let mut rest = sent.as_slice();
            for size in sizes.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let piece = take(&mut rest, size);
                rewriter.feed(piece, &mut rewritten);
            }
            prop_assert_eq!(rewritten, wanted);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (mut sent, _) = connection();
            sent.extend(bytes);
            FrameRewriter::default().feed(&sent, &mut Vec::new());
        }
    }
}
