//! What network policy, and who makes pods' interfaces, ask of the task that owns maps
//! and programs, and what that one tells.

use node_agent_datapath::Device;
use tokio::sync::{mpsc, oneshot, watch};

/// A request to the owner of maps and programs.
pub enum DatapathRequest {
    /// Twice the room for a map that is full. Whoever asks writes nothing
    /// until the answer is there, and then opens the maps anew.
    Room(&'static str, oneshot::Sender<GrowthOutcome>),
    /// Programs that decide on the node's own traffic, or none.
    Host(bool),
    /// Programs at interfaces whose pods have a bandwidth since.
    Bandwidth,
    /// Programs at these, which were made a moment ago: the kernel's word of them comes
    /// later.
    Devices(Vec<Device>),
}

/// The result of a request for a larger map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowthOutcome {
    /// There is some now.
    More,
    /// The map is as large as this machine allows.
    NoMore,
    /// The programs could not be brought to other maps: all is to be written
    /// anew.
    Failed,
}

/// The end of network policy.
pub struct DatapathRequestSender {
    /// What it asks for.
    pub asks: mpsc::Sender<DatapathRequest>,
    /// It changes when the programs at devices are others than before.
    pub programs: watch::Receiver<()>,
}

/// The end of the owner of maps and programs.
pub struct DatapathRequestReceiver {
    /// What is asked for.
    pub asked: mpsc::Receiver<DatapathRequest>,
    /// To be told when the programs at devices are others than before.
    pub programs: watch::Sender<()>,
}

/// Both ends.
pub fn wishes() -> (DatapathRequestSender, DatapathRequestReceiver) {
    let (asks, asked) = mpsc::channel(1);
    let (sender, programs) = watch::channel(());
    let wished = DatapathRequestReceiver {
        asked,
        programs: sender,
    };
    (DatapathRequestSender { asks, programs }, wished)
}

/// Asks for room. Who is not answered, because the agent ends, has failed.
pub async fn room(wishes: &mpsc::Sender<DatapathRequest>, map: &'static str) -> GrowthOutcome {
    let (answer, told) = oneshot::channel();
    if wishes
        .send(DatapathRequest::Room(map, answer))
        .await
        .is_err()
    {
        return GrowthOutcome::Failed;
    }
    told.await.unwrap_or(GrowthOutcome::Failed)
}
