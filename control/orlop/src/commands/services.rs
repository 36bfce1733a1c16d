//! `orlop services`: shows the programmed Services of this node, and why others are
//! missing.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use clap::{Args, ValueEnum};
use node_agent::ReportSelection;

use crate::error::Error;
use crate::values::InvalidValue;

/// Examples shown at the end of `--help`.
pub const EXAMPLES: &str = "\
Examples:
  orlop services                      everything
  orlop services shop/web             one Service: addresses, endpoints, and why one is not used
  orlop services 10.96.0.10:53        who is reached there, or answers there
  orlop services 192.0.2.1:30080      a node port at an address of this node";

/// Services to show.
#[derive(Args)]
pub struct Options {
    /// NAMESPACE/NAME of a Service or of a Pod with host ports, or ADDRESS or ADDRESS:PORT at which
    /// one is reached or answers; all unless given.
    #[arg(value_parser = selected, value_name = "NAMESPACE/NAME | ADDRESS[:PORT]")]
    selected: Option<ReportSelection>,
    /// Directory of pinned eBPF programs and maps.
    #[arg(long, default_value = node_agent::PINS)]
    pin_dir: PathBuf,
    /// How they are printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// One object.
    Json,
}

/// Prints them.
///
/// # Errors
/// When there are no maps, or they cannot be read, or nothing is found.
pub async fn run(options: Options) -> Result<(), Error> {
    let selected = options.selected.unwrap_or(ReportSelection::All);
    let report = node_agent::report(&options.pin_dir, &selected)
        .await
        .map_err(Error::NodeAgent)?;
    match options.output {
        Output::Json => println!("{}", serde_json::json!(report)),
        Output::Text => {
            if let Some(why) = &report.reasons_unknown {
                eprintln!("why something is not programmed is unknown: {why}");
            }
            print!("{report}");
        }
    }
    if report.objects.is_empty() && selected != ReportSelection::All {
        return Err(Error::Option(match selected {
            ReportSelection::Place(..) => {
                "no service is reached there on this node, and none has an endpoint there"
                    .to_owned()
            }
            _ => "no such Service is known on this node, nor a Pod with host ports".to_owned(),
        }));
    }
    Ok(())
}

fn selected(text: &str) -> Result<ReportSelection, InvalidValue> {
    if let Ok(place) = text.parse::<SocketAddr>() {
        return Ok(ReportSelection::Place(place.ip(), Some(place.port())));
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(ReportSelection::Place(address, None));
    }
    match text.split_once('/') {
        Some((namespace, name))
            if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
        {
            Ok(ReportSelection::Object(
                namespace.to_owned(),
                name.to_owned(),
            ))
        }
        _ => {
            let way_out = "write NAMESPACE/NAME, ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT";
            Err(InvalidValue::new(text, "object or address", way_out))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_places_are_told_apart() {
        let object = |namespace: &str, name: &str| {
            Ok(ReportSelection::Object(
                namespace.to_owned(),
                name.to_owned(),
            ))
        };
        let place =
            |address: &str, port| Ok(ReportSelection::Place(address.parse().unwrap(), port));
        for (text, expected) in [
            ("shop/web", object("shop", "web")),
            ("10.0.0.1", place("10.0.0.1", None)),
            ("10.0.0.1:80", place("10.0.0.1", Some(80))),
            ("fd00::1", place("fd00::1", None)),
            ("[fd00::1]:80", place("fd00::1", Some(80))),
        ] {
            assert_eq!(selected(text), expected, "{text}");
        }
        for text in ["web", "/web", "shop/", "a/b/c", "10.0.0.1:x"] {
            assert!(selected(text).is_err(), "{text}");
        }
    }
}
