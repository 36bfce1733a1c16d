//! Fixtures of the tests.

use crate::{Port, Protocol};

/// Ports of all protocols that have ports: at the ends, and beside each other in
/// tables of eight or 32 to an element.
pub(crate) fn ports() -> impl Iterator<Item = (Protocol, Port)> {
    let ports = [0, 1, 7, 8, 31, 32, 80, 8_080, 30_000, 65_535];
    Protocol::ROWS
        .into_iter()
        .flat_map(move |protocol| ports.map(|port| (protocol, Port::new(port))))
}
