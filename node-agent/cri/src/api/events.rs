//! What happens to containers, as it happens.

use super::sandbox::PodSandboxStatus;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerEventType {
    Created = 0,
    Started = 1,
    Stopped = 2,
    Deleted = 3,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct ContainerEventResponse {
    #[prost(string, tag = "1")]
    pub container_id: String,
    #[prost(enumeration = "ContainerEventType", tag = "2")]
    pub container_event_type: i32,
    #[prost(message, optional, tag = "4")]
    pub pod_sandbox_status: Option<PodSandboxStatus>,
}

empty!(GetEventsRequest,);
