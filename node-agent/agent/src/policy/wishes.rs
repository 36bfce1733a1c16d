//! What network policy, and who makes pods' interfaces, ask of the task that owns maps
//! and programs, and what that one tells.

use node_agent_datapath::Device;
use tokio::sync::{mpsc, oneshot, watch};

/// Something that the owner of maps and programs alone can do.
pub enum Wish {
    /// Twice the room for a map that is full. Whoever asks writes nothing
    /// until the answer is there, and then opens the maps anew.
    Room(&'static str, oneshot::Sender<Room>),
    /// Programs that decide on the node's own traffic, or none.
    Host(bool),
    /// Programs at interfaces whose pods have a bandwidth since.
    Bandwidth,
    /// Programs at these, which were made a moment ago: the kernel's word of them comes
    /// later.
    Devices(Vec<Device>),
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

/// Network policy's end.
pub struct Wishes {
    /// What it asks for.
    pub asks: mpsc::Sender<Wish>,
    /// It changes when the programs at devices are others than before.
    pub programs: watch::Receiver<()>,
}

/// The owner's end.
pub struct Wished {
    /// What is asked for.
    pub asked: mpsc::Receiver<Wish>,
    /// To be told when the programs at devices are others than before.
    pub programs: watch::Sender<()>,
}

/// Both ends.
pub fn wishes() -> (Wishes, Wished) {
    let (asks, asked) = mpsc::channel(1);
    let (sender, programs) = watch::channel(());
    let wished = Wished {
        asked,
        programs: sender,
    };
    (Wishes { asks, programs }, wished)
}

/// Asks for room. Who is not answered, because the agent ends, has failed.
pub async fn room(wishes: &mpsc::Sender<Wish>, map: &'static str) -> Room {
    let (answer, told) = oneshot::channel();
    if wishes.send(Wish::Room(map, answer)).await.is_err() {
        return Room::Failed;
    }
    told.await.unwrap_or(Room::Failed)
}
