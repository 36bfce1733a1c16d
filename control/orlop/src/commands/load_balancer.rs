//! `orlop load-balancer`: installs the definitions that a cluster needs to assign and
//! announce load balancer addresses.

use clap::{Args, Subcommand};
use control_client::{Client, Discard, Error as ClientError, Resource};
use control_load_balancer::{DEFINITIONS, RIGHTS};
use serde_json::Value;

/// Subcommand and options.
#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

/// Subcommand.
#[derive(Subcommand)]
enum Command {
    /// Print the definitions of IPPool, L2Announcement, BGPPeer and BGPAdvertisement, for
    /// `kubectl apply -f -` on a cluster of another control plane.
    Manifests {
        /// Without the rights of controller and agents: a cluster of Orlop's control plane
        /// has them.
        #[arg(long)]
        only_definitions: bool,
    },
}

/// Prints the manifests.
pub fn run(options: &Options) {
    let Command::Manifests { only_definitions } = options.command;
    print!("{DEFINITIONS}");
    if !only_definitions {
        print!("{RIGHTS}");
    }
}

const KINDS: &[(&str, Resource)] = &[
    (
        "CustomResourceDefinition",
        Resource::cluster(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
        ),
    ),
    (
        "ValidatingAdmissionPolicy",
        Resource::cluster(
            "admissionregistration.k8s.io",
            "v1",
            "validatingadmissionpolicies",
            "ValidatingAdmissionPolicy",
        ),
    ),
    (
        "ValidatingAdmissionPolicyBinding",
        Resource::cluster(
            "admissionregistration.k8s.io",
            "v1",
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
        ),
    ),
];

/// Under which name the definitions are applied.
const MANAGER: &str = "orlop-server";

/// Installs the definitions of this version in a cluster.
///
/// # Errors
/// The API server's error.
pub async fn define(client: &Client) -> Result<(), ClientError> {
    for object in documents(DEFINITIONS) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let resource = KINDS.iter().find(|(kind, _)| text("/kind") == Some(kind));
        let Some(((_, resource), name)) = resource.zip(text("/metadata/name")) else {
            continue;
        };
        let apply = control_client::Patch::Apply {
            body: &object,
            manager: MANAGER,
            force: true,
        };
        client
            .patch::<Discard>(resource, "", name, "", apply)
            .await?;
    }
    Ok(())
}

fn documents(text: &str) -> Vec<Value> {
    let all: Result<Vec<Value>, _> = serde_saphyr::from_multiple(text);
    all.map(|all| all.into_iter().filter(Value::is_object).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_definitions_are_understood_and_have_a_place() {
        let all = documents(DEFINITIONS);
        assert_eq!(all.len(), 7, "each document is one object");
        for object in &all {
            let kind = object["kind"].as_str();
            assert!(
                KINDS.iter().any(|(known, _)| kind == Some(known)),
                "{kind:?}"
            );
        }
        assert!(documents(RIGHTS).len() >= 8);
    }
}
