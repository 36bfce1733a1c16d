//! `pods/exec`, `pods/attach` and `pods/portforward`: streams between the
//! client and the node's agent.

use std::fmt::Write as _;
use std::sync::Arc;

use control_types::meta;
use control_types::status::Status;

use crate::admit::{admit, flag};
use crate::connector::Connector;
use crate::node;
use control_proxy::streams::remotecommand::StreamSelection;
use control_proxy::streams::{remotecommand, tunnel};
use control_proxy::{headers, upgrade};
use control_registry::authorizer::{Verdict, attributes, decide};
use control_registry::{Context, ServedResource};
use control_request::{Answer, pairs};

impl Connector {
    /// Connects the client's streams with a pod's.
    ///
    /// # Errors
    /// What admission refuses; 403 without the right to create the subresource; 400 when no upgrade is
    /// asked for, for a container that the pod does not have and for a pod without
    /// a node; 404; 500 when the node does not answer.
    pub async fn stream(&self, context: &Context, served: &Arc<ServedResource>) -> Answer {
        admit(context, served).await?;
        may_create(context).await?;
        let options = Options::parse(context.query());
        let pod = node::pod(context, served).await?;
        let name = meta::name(&pod);
        let namespace = meta::namespace(&pod);
        let path = match context.info.subresource.as_str() {
            "portforward" => format!("/portForward/{namespace}/{name}"),
            verb => {
                let container = node::container(&pod, &options.container)?;
                format!("/{verb}/{namespace}/{name}/{container}")
            }
        };
        let endpoint = node::endpoint_of_pod(context, &pod).await?.ok_or_else(|| {
            Status::bad_request(format!("pod {name} does not have a host assigned"))
        })?;
        let target = self.kubelets()?.target(&endpoint, true);
        let path = path + &options.query(&context.info.subresource);
        if !headers::wants_upgrade(&context.parts.headers) {
            return Err(upgrade::required());
        }
        if endpoint.websockets {
            return upgrade::pass(context.proxied(), &target, &path).await;
        }
        let (method, asked) = (&context.parts.method, &context.parts.headers);
        match context.info.subresource.as_str() {
            "portforward" if tunnel::is_asked(method, asked) => {
                tunnel::tunnel(context.proxied(), &target, &path).await
            }
            "exec" | "attach" if remotecommand::is_asked(method, asked) => {
                remotecommand::translate(context.proxied(), target, path, options.wanted)
            }
            _ => upgrade::pass(context.proxied(), &target, &path).await,
        }
    }
}

/// A WebSocket begins with GET, which counts as `get`; what it does here is
/// the same as with POST, and takes the same right.
async fn may_create(context: &Context) -> Result<(), Status> {
    let info = &context.info;
    if info.verb == "create" {
        return Ok(());
    }
    let mut attributes = attributes(info, &context.user);
    "create".clone_into(&mut attributes.verb);
    match decide(&*context.registry.authorizer, &attributes).await? {
        Verdict::Allow => Ok(()),
        Verdict::Deny(reason) => Err(Status::forbidden(
            &info.group,
            &info.resource,
            &info.name,
            &reason,
        )),
    }
}

/// `v1.PodExecOptions`, `v1.PodAttachOptions` and `v1.PodPortForwardOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The container, or empty.
    pub container: String,
    /// The streams.
    pub wanted: StreamSelection,
    command: Vec<String>,
    ports: Vec<u16>,
}

// === impl Options ===

impl Options {
    fn parse(query: Option<&str>) -> Self {
        let mut options = Self::default();
        let mut seen: Vec<String> = Vec::new();
        for (key, value) in pairs(query.unwrap_or_default()) {
            let first = !seen.contains(&key);
            match key.as_str() {
                "command" => options.command.push(value),
                "ports" => options
                    .ports
                    .extend(value.split(',').filter_map(|port| port.parse::<u16>().ok())),
                "container" if first => options.container = value,
                "stdin" if first => options.wanted.stdin = flag(&value),
                "stdout" if first => options.wanted.stdout = flag(&value),
                "stderr" if first => options.wanted.stderr = flag(&value),
                "tty" if first => options.wanted.tty = flag(&value),
                _ => continue,
            }
            seen.push(key);
        }
        options
    }

    /// The query for the node, in the kubelet's names.
    fn query(&self, subresource: &str) -> String {
        let mut pairs: Vec<(&str, String)> = Vec::new();
        if subresource == "portforward" {
            let ports: Vec<_> = self.ports.iter().map(u16::to_string).collect();
            if !ports.is_empty() {
                pairs.push(("port", ports.join(",")));
            }
        } else {
            for (key, set) in [
                ("input", self.wanted.stdin),
                ("output", self.wanted.stdout),
                ("error", self.wanted.stderr),
                ("tty", self.wanted.tty),
            ] {
                if set {
                    pairs.push((key, "1".to_owned()));
                }
            }
            if subresource == "exec" {
                pairs.extend(self.command.iter().map(|word| ("command", word.clone())));
            }
        }
        let mut query = String::new();
        for (key, value) in pairs {
            query.push(if query.is_empty() { '?' } else { '&' });
            query.push_str(key);
            query.push('=');
            encode(&value, &mut query);
        }
        query
    }
}

/// Percent-encodes a value of a query.
fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_gets_the_options_under_the_kubelet_s_names() {
        let options = Options::parse(Some(
            "command=sh&command=-c&command=echo+%26%20%C3%A9&container=c&stdin=true&stdout=1&stderr=false&tty=&ports=80,81&ports=90",
        ));
        assert_eq!(options.container, "c");
        assert_eq!(
            options.query("exec"),
            "?input=1&output=1&tty=1&command=sh&command=-c&command=echo%20%26%20%C3%A9"
        );
        assert_eq!(options.query("attach"), "?input=1&output=1&tty=1");
        assert_eq!(options.query("portforward"), "?port=80%2C81%2C90");
        assert_eq!(Options::parse(None).query("portforward"), "");
    }

    #[test]
    fn the_first_of_several_values_holds() {
        let options = Options::parse(Some("container=a&container=b&tty=0&tty=1"));
        assert_eq!(
            (options.container.as_str(), options.wanted.tty),
            ("a", false)
        );
    }
}
