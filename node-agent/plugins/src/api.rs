//! The messages of plugin registration (`pluginregistration.Registration`).

pub use csi_api::registration::{PluginInfo, RegistrationStatus};

/// A request or an answer without fields that are read.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Empty {}
