//! Ports: numbers, names, protocols.

use control_types::value::Value;

use super::names;
use crate::error::{Errors, Path};
use crate::tree::Read;

/// The protocols that a port may have.
pub(crate) const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// A protocol; required.
pub(crate) fn protocol(owner: &Value, at: &Path<'_>, errors: &mut Errors) {
    let protocol = owner.text("protocol");
    if protocol.is_empty() {
        errors.required(&at.child("protocol"), "");
    } else if !PROTOCOLS.contains(&protocol) {
        errors.not_supported(&at.child("protocol"), protocol, PROTOCOLS);
    }
}

/// A port's number.
pub(crate) fn number(port: i64, at: &Path<'_>, errors: &mut Errors) {
    for message in names::port_number(port) {
        errors.invalid(at, port, message);
    }
}

/// A number or the name of a port.
pub(crate) fn number_or_name(port: &Value, at: &Path<'_>, errors: &mut Errors) {
    match port {
        Value::String(name) => errors.invalid_each(at, name, names::port_name(name)),
        other => number(other.as_i64().unwrap_or(0), at, errors),
    }
}

/// An application protocol: a qualified name.
pub(crate) fn app_protocol(owner: &Value, at: &Path<'_>, errors: &mut Errors) {
    if owner.has("appProtocol") {
        let name = owner.text("appProtocol");
        errors.invalid_each(&at.child("appProtocol"), name, names::qualified(name));
    }
}

/// A DNS label that is required when there are several of its kind.
pub(crate) fn name_among(owner: &Value, required: bool, at: &Path<'_>, errors: &mut Errors) {
    let name = owner.text("name");
    if !name.is_empty() {
        errors.invalid_each(&at.child("name"), name, names::dns_label(name));
    } else if required {
        errors.required(&at.child("name"), "");
    }
}
