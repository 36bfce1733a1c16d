//! One file a fault.

pub mod agent_gone;
pub mod all_at_once;
pub mod cable;
pub mod clock;
pub mod disk_full;
pub mod power_cut;
pub mod runtime_hung;
pub mod server_gone;
pub mod unreachable;
