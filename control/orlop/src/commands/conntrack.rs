//! `orlop conntrack`: connections to services that this node's packet programs
//! translate.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use clap::{Args, ValueEnum};
use node_agent::{Connection, Flows};
use serde_json::json;

use crate::error::Error;
use crate::values::InvalidValue;

/// Connections, and what to do with them.
#[derive(Args)]
pub struct Options {
    /// Only those to this service: ADDRESS or ADDRESS:PORT, as the client asked.
    #[arg(long, value_parser = place, value_name = "ADDRESS[:PORT]")]
    service: Option<(IpAddr, Option<u16>)>,
    /// Only connections of this client: ADDRESS or ADDRESS:PORT.
    #[arg(long, value_parser = place, value_name = "ADDRESS[:PORT]")]
    client: Option<(IpAddr, Option<u16>)>,
    /// Forget them: their next packets begin new connections, or are refused. Needs --service or
    /// --client.
    #[arg(long)]
    flush: bool,
    /// Directory of pinned eBPF programs and maps.
    #[arg(long, default_value = node_agent::PINS)]
    pin_dir: PathBuf,
    /// How they are printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// A line each.
    Text,
    /// A list of objects.
    Json,
}

/// Prints or deletes them.
///
/// # Errors
/// When there are no maps, or they cannot be read or written.
pub fn run(options: &Options) -> Result<(), Error> {
    if options.flush && options.service.is_none() && options.client.is_none() {
        return Err(Error::Option(
            "to forget all connections would break them: name some by --service or --client"
                .to_owned(),
        ));
    }
    let failed = |error| Error::NodeAgent(node_agent::Error::Datapath(error));
    let flows = Flows::open(&options.pin_dir).map_err(failed)?;
    let mut chosen = flows.list().map_err(failed)?;
    chosen.retain(|it| {
        let is = |wanted: Option<(IpAddr, Option<u16>)>, place: SocketAddr| {
            wanted.is_none_or(|(ip, port)| {
                ip == place.ip() && port.is_none_or(|port| port == place.port())
            })
        };
        is(options.service, it.service) && is(options.client, it.client)
    });
    if options.flush {
        for connection in &chosen {
            flows.forget(connection).map_err(failed)?;
        }
    }
    match options.output {
        Output::Json => {
            let all: Vec<_> = chosen.iter().map(as_json).collect();
            println!("{}", json!(all));
        }
        Output::Text => {
            for connection in &chosen {
                println!("{connection}");
            }
            let verb = if options.flush { "forgotten" } else { "there" };
            println!("{} connections {verb}", chosen.len());
        }
    }
    Ok(())
}

fn as_json(it: &Connection) -> serde_json::Value {
    json!({
        "protocol": it.protocol.to_string(),
        "client": it.client.to_string(),
        "service": it.service.to_string(),
        "shownAs": it.shown_as.to_string(),
        "backend": it.backend.to_string(),
        "local": it.local,
        "direct": it.direct,
        "kernel": it.kernel,
        "state": it.state,
        "idleSeconds": it.idle,
    })
}

fn place(text: &str) -> Result<(IpAddr, Option<u16>), InvalidValue> {
    let whole = text
        .parse::<SocketAddr>()
        .map(|it| (it.ip(), Some(it.port())));
    whole
        .or_else(|_| text.parse::<IpAddr>().map(|ip| (ip, None)))
        .map_err(|_| {
            let way_out = "write ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT";
            InvalidValue::new(text, "address", way_out)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_understood_with_and_without_a_port() {
        assert_eq!(place("10.0.0.1"), Ok(([10, 0, 0, 1].into(), None)));
        assert_eq!(place("10.0.0.1:80"), Ok(([10, 0, 0, 1].into(), Some(80))));
        assert!(place("[fd00::1]:80").is_ok_and(|(_, port)| port == Some(80)));
        assert!(place("web").is_err());
    }
}
