//! Asks the node's agent whether a pod's interface may be set up: whether network policy
//! is in force there.
//!
//! One line of JSON each way. If the agent is missing or not ready, the runtime tries
//! again later (CNI specification 1.1, error code 11): a pod is never open.

use std::{net::IpAddr, os::unix::net::UnixStream, path::Path};

use cni_addresses::wire::{self, Bandwidth};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The pod of the interface, according to the runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

#[derive(Serialize)]
struct Question<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    device: &'a str,
    addresses: &'a [IpAddr],
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth: Option<Bandwidth>,
}

#[derive(Deserialize)]
struct Answer {
    wait: Option<String>,
}

impl Pod {
    /// Reads `CNI_ARGS`: pairs `KEY=VALUE`, separated by semicolons.
    pub(crate) fn from_env() -> Result<Self, Error> {
        Self::parse(&std::env::var("CNI_ARGS").unwrap_or_default())
    }

    fn parse(arguments: &str) -> Result<Self, Error> {
        let mut pod = Self::default();
        for pair in arguments.split(';') {
            match pair.split_once('=') {
                Some(("K8S_POD_NAMESPACE", value)) => value.clone_into(&mut pod.namespace),
                Some(("K8S_POD_NAME", value)) => value.clone_into(&mut pod.name),
                Some(("K8S_POD_UID", value)) => value.clone_into(&mut pod.uid),
                _ => {}
            }
        }
        if pod.namespace.is_empty() || pod.name.is_empty() {
            return Err(Error::Environment("CNI_ARGS"));
        }
        Ok(pod)
    }
}

/// Returns once the pod's rules, and its bandwidth, are in force at the interface.
pub(crate) fn admit(
    socket: &Path,
    pod: &Pod,
    device: &str,
    addresses: &[IpAddr],
    bandwidth: Option<Bandwidth>,
) -> Result<(), Error> {
    let question = Question {
        namespace: &pod.namespace,
        name: &pod.name,
        uid: &pod.uid,
        device,
        addresses,
        bandwidth,
    };
    match wire::request(socket, &question, wire::PATIENCE) {
        Ok(Answer { wait: None }) => Ok(()),
        Ok(Answer { wait: Some(why) }) => Err(Error::Later(why)),
        Err(error) => Err(Error::Later(format!(
            "the node agent does not answer at `{}`: {error}",
            socket.display()
        ))),
    }
}

/// Checks that the agent is reachable.
pub(crate) fn is_there(socket: &Path) -> Result<(), Error> {
    UnixStream::connect(socket).map(drop).map_err(|error| {
        Error::NotReady(format!(
            "the node agent does not answer at `{}`: {error}",
            socket.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_is_read_from_the_arguments_or_missed() {
        let text = "IgnoreUnknown=1;K8S_POD_NAMESPACE=x;K8S_POD_NAME=a;K8S_POD_UID=u;K8S_POD_INFRA_CONTAINER_ID=i";
        let pod = Pod::parse(text).expect("a pod");
        assert_eq!((&*pod.namespace, &*pod.name, &*pod.uid), ("x", "a", "u"));
        assert!(Pod::parse("").is_err());
        assert!(Pod::parse("K8S_POD_NAME=a").is_err());
    }
}
