//! The views of kinds that only announcements follow from.

use control_client::{Meta, Resource, View};
use control_load_balancer::{
    AnnouncerStatus, BgpAdvertisementSpec, BgpPeerSpec, IpPoolSpec, L2AnnouncementSpec,
};
use node_agent_informers::SharedView;
use serde::{Deserialize, Deserializer};

macro_rules! custom {
    ($($(#[$doc:meta])* $name:ident, $spec:ty, $plural:literal, $kind:literal;)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Default, Deserialize)]
        #[serde(default)]
        pub struct $name {
            /// Its name.
            pub metadata: Meta,
            /// The spec.
            #[serde(deserialize_with = "nullable")]
            pub spec: $spec,
        }

        impl View for $name {
            const RESOURCE: Resource = Resource::cluster("orlop.dev", "v1alpha1", $plural, $kind);
            fn meta(&self) -> &Meta {
                &self.metadata
            }
        }

        impl SharedView for $name {})*
    };
}

custom! {
    /// An IPPool.
    IpPool, IpPoolSpec, "ippools", "IPPool";
    /// An L2Announcement.
    L2Announcement, L2AnnouncementSpec, "l2announcements", "L2Announcement";
    /// A BGPPeer.
    BgpPeer, BgpPeerSpec, "bgppeers", "BGPPeer";
    /// A BGPAdvertisement.
    BgpAdvertisement, BgpAdvertisementSpec, "bgpadvertisements", "BGPAdvertisement";
}

/// An Announcer, named like its node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Announcer {
    /// Its name.
    pub metadata: Meta,
    /// The status, written by its node's agent.
    #[serde(deserialize_with = "nullable")]
    pub status: AnnouncerStatus,
}

/// Announcers.
pub const ANNOUNCERS: Resource =
    Resource::cluster("orlop.dev", "v1alpha1", "announcers", "Announcer");

impl View for Announcer {
    const RESOURCE: Resource = ANNOUNCERS;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl SharedView for Announcer {}

/// `null` means the same as absence.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
