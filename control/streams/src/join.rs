//! Joins two streams: the bytes of an upgraded connection are passed through unread.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::CHUNK;

/// How long a closing side may take to take its last bytes.
const CLOSE: Duration = Duration::from_secs(5);

/// Copies both ways until either side ends, or `ended` does; then closes both.
///
/// At most [`CHUNK`] bytes are under way in each direction.
pub async fn join<A, B>(client: A, target: B, ended: impl Future<Output = ()>)
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut client_reads, mut client_writes) = tokio::io::split(client);
    let (mut target_reads, mut target_writes) = tokio::io::split(target);
    tokio::select! {
        () = copy(&mut client_reads, &mut target_writes) => {}
        () = copy(&mut target_reads, &mut client_writes) => {}
        () = ended => {}
    }
    let close = async {
        let _ = tokio::join!(client_writes.shutdown(), target_writes.shutdown());
    };
    let _ = tokio::time::timeout(CLOSE, close).await;
}

/// Copies to the end. Data is written before more is read.
async fn copy(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) {
    let mut buffer = vec![0; CHUNK].into_boxed_slice();
    loop {
        let read = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        let Some(bytes) = buffer.get(..read) else {
            return;
        };
        if to.write_all(bytes).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::io::duplex;

    use super::*;

    #[tokio::test]
    async fn bytes_go_both_ways_and_the_end_of_one_side_closes_the_other() {
        let (mut client, near) = duplex(8);
        let (far, mut target) = duplex(8);
        let joined = tokio::spawn(join(near, far, pending()));
        // More than fits in between at once.
        let (there, back) = (b"asked of the target", b"told to the client");
        let mut heard = (vec![0; there.len()], vec![0; back.len()]);
        let done = tokio::try_join!(client.write_all(there), target.read_exact(&mut heard.0),).and(
            tokio::try_join!(target.write_all(back), client.read_exact(&mut heard.1),),
        );
        done.expect("carried");
        assert_eq!(
            (heard.0.as_slice(), heard.1.as_slice()),
            (&there[..], &back[..])
        );
        drop(client);
        assert_eq!(target.read(&mut [0]).await.expect("read"), 0);
        joined.await.expect("no panic");
    }

    #[tokio::test]
    async fn an_end_from_outside_closes_both_sides() {
        let (mut client, near) = duplex(8);
        let (far, mut target) = duplex(8);
        join(near, far, ready(())).await;
        assert_eq!(client.read(&mut [0]).await.expect("read"), 0);
        assert_eq!(target.read(&mut [0]).await.expect("read"), 0);
    }
}
