//! Reads a log to its end, and on as it grows.
//!
//! Files are read by threads of the pool for what blocks, a piece at a time. Who follows
//! a log holds none of them while it waits for more: the pool is shared by all, and there
//! may be more followers than threads.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{LogFilter, LogOptions};

/// How often a log that is followed is looked at.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);

/// How much of a file is read at a time: more for who takes it as fast as it comes, so
/// that a crowd of slow readers is not to hold much.
const LEAST: usize = 32 << 10;
const MOST: usize = 256 << 10;

/// Longest line that is read: runtimes write lines of 16 KiB and split longer ones.
const LINE_MOST: usize = 1 << 20;

/// Sends what is wanted of a log, to its end or for as long as it grows.
///
/// # Errors
/// When the file cannot be read.
pub(super) async fn copy(
    path: PathBuf,
    wanted: LogOptions,
    running: impl Fn() -> bool,
    out: &mpsc::Sender<Bytes>,
) -> io::Result<()> {
    let follow = wanted.follow;
    let mut log = blocking(move || OpenLog::open(path, wanted)).await?;
    loop {
        let ran = running();
        loop {
            let to = out.clone();
            let (back, came) = blocking(move || log.fill(&to)).await?;
            log = back;
            match came {
                CopyProgress::ToTheEnd => break,
                CopyProgress::Enough => return Ok(()),
                // not woken for each piece that goes
                CopyProgress::TooFar => {
                    match out.reserve_many(out.max_capacity().div_ceil(2)).await {
                        Ok(_) => {}
                        Err(_) => return Ok(()),
                    }
                }
            }
        }
        if !follow || !ran {
            return Ok(());
        }
        loop {
            tokio::select! {
                () = out.closed() => return Ok(()),
                () = tokio::time::sleep(FOLLOW_EVERY) => {}
            }
            if log.has_more() || !running() {
                break;
            }
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

/// Where a copy of a log stopped.
enum CopyProgress {
    /// There is no more yet.
    ToTheEnd,
    /// The reader has all that it wants, or is gone.
    Enough,
    /// The reader has to take what is waiting first.
    TooFar,
}

/// A log file that is being read.
struct OpenLog {
    path: PathBuf,
    file: File,
    inode: u64,
    /// How far it was read.
    at: u64,
    filter: LogFilter,
    buffer: Vec<u8>,
    /// How much of the buffer is a line whose end was not there yet.
    open: usize,
    /// Whether that line is longer than any that a runtime writes, and is left out.
    skips: bool,
    /// How much is read at a time.
    piece: usize,
}

impl OpenLog {
    fn open(path: PathBuf, wanted: LogOptions) -> io::Result<Self> {
        let mut file = File::open(&path)?;
        let mut at = 0;
        if let Some(lines) = wanted.tail {
            at = tail_offset(&mut file, lines)?;
            file.seek(SeekFrom::Start(at))?;
        }
        Ok(Self {
            inode: file.metadata()?.ino(),
            filter: LogFilter::new(wanted),
            buffer: Vec::new(),
            open: 0,
            skips: false,
            piece: LEAST,
            path,
            file,
            at,
        })
    }

    /// Reads for as long as there is room for it with the reader, who has no other writer.
    fn fill(mut self, out: &mpsc::Sender<Bytes>) -> io::Result<(Self, CopyProgress)> {
        if out.capacity() == out.max_capacity() {
            self.piece = (self.piece * 2).min(MOST);
        }
        while out.capacity() > 0 {
            let Some(piece) = self.piece()? else {
                return Ok((self, CopyProgress::ToTheEnd));
            };
            let gone = !piece.is_empty() && out.try_send(piece.into()).is_err();
            if gone || self.filter.is_done() {
                return Ok((self, CopyProgress::Enough));
            }
        }
        Ok((self, CopyProgress::TooFar))
    }

    /// What is wanted of the next piece; none at the end of all that there is.
    fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.buffer.resize(self.open + self.piece, 0);
        let mut read = self.read()?;
        if read == 0 && self.is_rotated() {
            // what was still written to the old file
            read = self.read()?;
            if read == 0 {
                self.file = File::open(&self.path)?;
                self.inode = self.file.metadata()?.ino();
                (self.at, self.open, self.skips) = (0, 0, false);
                return Ok(Some(Vec::new()));
            }
        }
        if read == 0 {
            // a crowd that waits is not to hold as many buffers
            self.buffer.truncate(self.open);
            self.buffer.shrink_to_fit();
            self.piece = LEAST;
            return Ok(None);
        }
        self.at += read as u64;
        let filled = self.open + read;
        let mut out = Vec::with_capacity(read);
        let (mut from, mut look) = (0, self.open);
        while let Some(bytes) = self.buffer.get(look..filled)
            && let Some(end) = memchr::memchr(b'\n', bytes)
        {
            look += end + 1;
            let whole = !std::mem::take(&mut self.skips);
            if let Some(line) = self.buffer.get(from..look).filter(|_| whole) {
                self.filter.take(line, &mut out);
            }
            from = look;
            if self.filter.is_done() {
                break;
            }
        }
        self.buffer.copy_within(from..filled, 0);
        self.open = filled - from;
        if self.open > LINE_MOST {
            (self.open, self.skips) = (0, true);
        }
        Ok(Some(out))
    }

    fn read(&mut self) -> io::Result<usize> {
        let room = self.buffer.get_mut(self.open..).unwrap_or_default();
        self.file.read(room)
    }

    /// Whether there is something to read. Cheap enough to ask without a thread.
    fn has_more(&self) -> bool {
        self.file.metadata().is_ok_and(|it| it.len() > self.at) || self.is_rotated()
    }

    /// Whether the log goes on in another file.
    fn is_rotated(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|it| it.ino() != self.inode)
    }
}

/// Where the last `lines` lines of a file begin.
fn tail_offset(file: &mut File, lines: u64) -> io::Result<u64> {
    const STEP: u64 = 16 << 10;
    let end = file.metadata()?.len();
    if lines == 0 {
        return Ok(end);
    }
    let mut at = end;
    let mut found = 0;
    let mut buffer = Vec::new();
    while at > 0 {
        let from = at.saturating_sub(STEP);
        file.seek(SeekFrom::Start(from))?;
        buffer.clear();
        file.by_ref().take(at - from).read_to_end(&mut buffer)?;
        for (index, byte) in buffer.iter().enumerate().rev() {
            let position = from + index as u64;
            // the end of the last line begins no line
            if *byte == b'\n' && position + 1 != end {
                found += 1;
                if found == lines {
                    return Ok(position + 1);
                }
            }
        }
        at = from;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn tail_begins_after_enough_ends_of_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let long = "x".repeat(20_000);
        let text = format!("{long}\n{long}\nlast\n");
        fs::write(&path, &text).unwrap();
        let mut file = File::open(&path).unwrap();
        let total = text.len() as u64;
        for (lines, left) in [(0, 0), (1, 5), (2, 20_006), (3, total), (9, total)] {
            assert_eq!(
                tail_offset(&mut file, lines).unwrap(),
                total - left,
                "{lines}"
            );
        }
    }

    /// What copying a log gives, and what lets the container run on.
    fn following(path: &Path) -> (mpsc::Receiver<Bytes>, Arc<AtomicBool>) {
        let (sender, receiver) = mpsc::channel(16);
        let alive = Arc::new(AtomicBool::new(true));
        let (path, runs) = (path.to_owned(), alive.clone());
        let wanted = LogOptions {
            follow: true,
            ..LogOptions::default()
        };
        tokio::spawn(async move {
            let running = || runs.load(Ordering::Relaxed);
            copy(path, wanted, running, &sender).await.unwrap();
        });
        (receiver, alive)
    }

    #[tokio::test]
    async fn a_log_is_read_across_its_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        fs::write(&path, "2026-01-01T00:00:00Z stdout F a\n").unwrap();
        let (mut receiver, alive) = following(&path);
        assert_eq!(receiver.recv().await.unwrap(), "a\n");
        fs::rename(&path, dir.path().join("0.log.old")).unwrap();
        fs::write(&path, "2026-01-01T00:00:01Z stdout F b\n").unwrap();
        assert_eq!(receiver.recv().await.unwrap(), "b\n");
        alive.store(false, Ordering::Relaxed);
        assert!(receiver.recv().await.is_none());
    }

    #[test]
    fn followers_hold_no_threads() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let line = "2026-01-01T00:00:00Z stdout F a\n";
        fs::write(&path, line).unwrap();
        runtime.block_on(async {
            let mut all: Vec<_> = (0..20).map(|_| following(&path)).collect();
            for (receiver, _) in &mut all {
                assert_eq!(receiver.recv().await.unwrap(), "a\n");
            }
            let mut file = File::options().append(true).open(&path).unwrap();
            file.write_all(line.as_bytes()).unwrap();
            for (receiver, _) in &mut all {
                assert_eq!(receiver.recv().await.unwrap(), "a\n");
            }
        });
    }

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_sent_little_and_gets_all_later() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let line = format!("2026-01-01T00:00:00Z stdout F {}\n", "x".repeat(99));
        fs::write(&path, line.repeat(40_000)).unwrap();
        let (sender, mut receiver) = mpsc::channel(4);
        let copied = tokio::spawn(async move {
            let running = || false;
            copy(path, LogOptions::default(), running, &sender).await
        });
        while receiver.len() < 4 {
            tokio::task::yield_now().await;
        }
        let mut pieces = Vec::new();
        while let Some(piece) = receiver.recv().await {
            pieces.push(piece.len());
        }
        copied.await.unwrap().unwrap();
        let first: usize = pieces.iter().take(4).sum();
        assert!(first <= 4 * 2 * LEAST, "{first}");
        assert_eq!(pieces.iter().sum::<usize>(), 100 * 40_000);
    }

    #[test]
    fn a_line_without_end_takes_no_more_memory_than_a_long_one_and_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let file = File::create(&path).unwrap();
        // zeros that take no room on disk
        file.set_len(64 << 20).unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"\n2026-01-01T00:00:00Z stdout F b\n")
            .unwrap();
        let mut log = OpenLog::open(path, LogOptions::default()).unwrap();
        let mut found = Vec::new();
        while let Some(piece) = log.piece().unwrap() {
            found.extend(piece);
            assert!(log.buffer.capacity() <= 4 * LINE_MOST);
        }
        assert_eq!(found, b"b\n");
    }

    #[test]
    fn pieces_need_not_end_with_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let (mut text, mut expected) = (String::new(), String::new());
        for number in 0..20_000 {
            let word = "x".repeat(number % 97);
            text += &format!("2026-01-01T00:00:00Z stdout F {number}{word}\n");
            expected += &format!("{number}{word}\n");
        }
        fs::write(&path, &text).unwrap();
        assert!(text.len() > 3 * MOST);
        let mut log = OpenLog::open(path.clone(), LogOptions::default()).unwrap();
        let mut found = Vec::new();
        while let Some(piece) = log.piece().unwrap() {
            found.extend(piece);
        }
        assert!(found == expected.as_bytes());
        // a line that is not ended yet is none, until it is
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"2026-01-01T00:00:00Z stdout F en").unwrap();
        assert!(log.has_more());
        assert_eq!(log.piece().unwrap().unwrap(), b"");
        assert!(!log.has_more());
        assert_eq!(log.piece().unwrap(), None);
        file.write_all(b"d\n").unwrap();
        assert_eq!(log.piece().unwrap().unwrap(), b"end\n");
    }
}
