//! `orlop trace`: what would become of a connection, decision by decision.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use clap::{Args, ValueEnum};
use ebpf_abi::Protocol;
use node_agent::{Question, TraceFrom};

use crate::error::Error;
use crate::values::InvalidValue;

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop trace 198.51.100.9 192.0.2.1:30080           a client outside, to a node port
  orlop trace 10.244.1.7 10.96.0.10:53/udp           a pod of this node, to cluster DNS
  orlop trace 192.0.2.1 10.96.0.1:443 -o json        a process of this node";

/// Connection to trace.
#[derive(Args)]
pub struct Options {
    /// The client: ADDRESS, or ADDRESS:PORT where its port matters.
    #[arg(value_parser = client, value_name = "CLIENT[:PORT]")]
    client: (IpAddr, Option<u16>),
    /// Destination: ADDRESS:PORT, followed by /udp or /sctp unless it is TCP.
    #[arg(value_parser = asked, value_name = "ADDRESS:PORT[/PROTOCOL]")]
    asked: (SocketAddr, Protocol),
    /// Location of the client. By default, an address of this node is the host, one in
    /// the pod ranges is a pod of this node, and any other one is outside.
    #[arg(long, value_enum)]
    from: Option<Place>,
    /// Directory of pinned eBPF programs and maps.
    #[arg(long, default_value = node_agent::PINS)]
    pin_dir: PathBuf,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Place {
    /// In a pod of this node.
    Pod,
    /// A process in this node's own network namespace.
    Host,
    /// On another machine, in a pod there or not.
    Outside,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// One object.
    Json,
}

/// Prints the trace.
///
/// # Errors
/// When there are no maps, or they cannot be read.
pub fn run(options: &Options) -> Result<(), Error> {
    let (client, client_port) = options.client;
    let (asked, protocol) = options.asked;
    let question = Question {
        client,
        client_port,
        asked,
        protocol,
        from: options.from.map(|place| match place {
            Place::Pod => TraceFrom::Pod,
            Place::Host => TraceFrom::Host,
            Place::Outside => TraceFrom::Outside,
        }),
    };
    let trace = node_agent::trace(&options.pin_dir, &question)
        .map_err(|error| Error::NodeAgent(node_agent::Error::Datapath(error)))?;
    match options.output {
        Output::Json => println!("{}", serde_json::json!(trace)),
        Output::Text => print!("{trace}"),
    }
    Ok(())
}

fn client(text: &str) -> Result<(IpAddr, Option<u16>), InvalidValue> {
    let whole = text
        .parse::<SocketAddr>()
        .map(|it| (it.ip(), Some(it.port())));
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    whole
        .or_else(|_| bare.parse::<IpAddr>().map(|ip| (ip, None)))
        .map_err(|_| {
            let way_out = "write ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT";
            InvalidValue::new(text, "address", way_out)
        })
}

fn asked(text: &str) -> Result<(SocketAddr, Protocol), InvalidValue> {
    let (place, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = match protocol.to_ascii_lowercase().as_str() {
        "tcp" => Protocol::TCP,
        "udp" => Protocol::UDP,
        "sctp" => Protocol::SCTP,
        other => {
            return Err(InvalidValue::new(
                other,
                "protocol",
                "write tcp, udp or sctp",
            ));
        }
    };
    place.parse().map(|place| (place, protocol)).map_err(|_| {
        let way_out = "write ADDRESS:PORT or [ADDRESS]:PORT";
        InvalidValue::new(place, "address and port", way_out)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_ports_and_protocols_are_understood() {
        assert_eq!(client("10.0.0.1"), Ok(([10, 0, 0, 1].into(), None)));
        assert_eq!(client("10.0.0.1:7"), Ok(([10, 0, 0, 1].into(), Some(7))));
        assert!(client("[fd00::1]:7").is_ok_and(|(_, port)| port == Some(7)));
        assert!(client("fd00::1").is_ok_and(|(_, port)| port.is_none()));
        assert!(client("web").is_err());
        let place = |text: &str| text.parse().unwrap();
        assert_eq!(
            asked("10.0.0.1:80"),
            Ok((place("10.0.0.1:80"), Protocol::TCP))
        );
        assert_eq!(
            asked("[fd00::1]:53/UDP"),
            Ok((place("[fd00::1]:53"), Protocol::UDP))
        );
        assert_eq!(
            asked("10.0.0.1:9/sctp"),
            Ok((place("10.0.0.1:9"), Protocol::SCTP))
        );
        for text in ["10.0.0.1", "10.0.0.1:80/icmp", "web:80"] {
            assert!(asked(text).is_err(), "{text}");
        }
    }
}
