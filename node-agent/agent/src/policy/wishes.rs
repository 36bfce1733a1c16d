//! What network policy asks of the task that owns maps and programs.

use tokio::sync::{mpsc, oneshot};

/// Something that the owner of maps and programs alone can do.
pub enum Wish {
    /// Twice the room for a map that is full. Whoever asks writes nothing
    /// until the answer is there, and then opens the maps anew.
    Room(&'static str, oneshot::Sender<Room>),
    /// Programs that decide on the node's own traffic, or none.
    Host(bool),
}

/// What became of the wish for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is some now.
    More,
    /// The map is as large as this machine allows.
    NoMore,
    /// The programs could not be brought to other maps: all is to be written
    /// anew.
    Failed,
}

/// A channel for wishes.
pub fn wishes() -> (mpsc::Sender<Wish>, mpsc::Receiver<Wish>) {
    mpsc::channel(1)
}

/// Asks for room. Who is not answered, because the agent ends, has failed.
pub async fn room(wishes: &mpsc::Sender<Wish>, map: &'static str) -> Room {
    let (answer, told) = oneshot::channel();
    if wishes.send(Wish::Room(map, answer)).await.is_err() {
        return Room::Failed;
    }
    told.await.unwrap_or(Room::Failed)
}
