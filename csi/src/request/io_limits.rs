//! IO limits of a volume: parameters of a VolumeAttributesClass.

use std::collections::BTreeMap;

use control_types::quantity::Quantity;

use crate::error::{Error, Result};

/// Parameters that can change.
pub const PARAMETERS: [&str; 4] = ["readIOPS", "writeIOPS", "readBandwidth", "writeBandwidth"];

/// Limits of one volume; none is without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoLimits {
    /// Read operations per second.
    pub read_iops: Option<u64>,
    /// Write operations per second.
    pub write_iops: Option<u64>,
    /// Bytes read per second.
    pub read_bytes: Option<u64>,
    /// Bytes written per second.
    pub write_bytes: Option<u64>,
}

impl IoLimits {
    /// Checks mutable parameters. Values are quantities (`500`, `10Mi`), or `max` for no
    /// limit.
    ///
    /// # Errors
    /// Names the unknown parameter or the one with an invalid value.
    pub fn parse(parameters: &BTreeMap<String, String>) -> Result<Self> {
        let mut limits = Self::default();
        for (key, value) in parameters {
            let field = match key.as_str() {
                "readIOPS" => &mut limits.read_iops,
                "writeIOPS" => &mut limits.write_iops,
                "readBandwidth" => &mut limits.read_bytes,
                "writeBandwidth" => &mut limits.write_bytes,
                _ => {
                    let expected = format!("known parameters are {}", PARAMETERS.join(", "));
                    return Err(Error::invalid("mutable_parameters", key, expected));
                }
            };
            *field = parse_limit(key, value)?;
        }
        Ok(limits)
    }

    /// Returns whether there is no limit at all.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the line for `io.max` of cgroup v2.
    #[must_use]
    pub fn io_max(&self, device: (u32, u32)) -> String {
        let word = |limit: Option<u64>| limit.map_or_else(|| "max".to_owned(), |it| it.to_string());
        format!(
            "{}:{} rbps={} wbps={} riops={} wiops={}",
            device.0,
            device.1,
            word(self.read_bytes),
            word(self.write_bytes),
            word(self.read_iops),
            word(self.write_iops)
        )
    }

    /// Returns files and lines for the `blkio` controller of cgroup v1, where
    /// zero takes a limit away.
    #[must_use]
    pub fn throttle(&self, device: (u32, u32)) -> [(&'static str, String); 4] {
        let line =
            |limit: Option<u64>| format!("{}:{} {}", device.0, device.1, limit.unwrap_or_default());
        [
            ("blkio.throttle.read_bps_device", line(self.read_bytes)),
            ("blkio.throttle.write_bps_device", line(self.write_bytes)),
            ("blkio.throttle.read_iops_device", line(self.read_iops)),
            ("blkio.throttle.write_iops_device", line(self.write_iops)),
        ]
    }
}

fn parse_limit(key: &str, value: &str) -> Result<Option<u64>> {
    if value == "max" {
        return Ok(None);
    }
    let quantity = Quantity::parse(value).ok().map(|it| it.value());
    match quantity.and_then(|it| u64::try_from(it).ok()) {
        Some(limit) if limit > 0 => Ok(Some(limit)),
        _ => Err(Error::invalid(
            format!("mutable_parameters[{key}]"),
            value,
            "a quantity greater than zero, or `max`",
        )),
    }
}

/// Parses a size of an inline volume.
///
/// # Errors
/// When it is no quantity of bytes.
pub fn parse_bytes(field: &str, value: &str) -> Result<u64> {
    let quantity = Quantity::parse(value).ok().map(|it| it.value());
    let bytes = quantity
        .and_then(|it| u64::try_from(it).ok())
        .filter(|it| *it > 0);
    bytes.ok_or_else(|| Error::invalid(field, value, "a quantity of bytes such as `1Gi`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(parameters: &[(&str, &str)]) -> Result<IoLimits> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        IoLimits::parse(&parameters.iter().map(owned).collect())
    }

    #[test]
    fn limits_become_lines_of_both_versions_of_control_groups() {
        let limits = parse(&[("readIOPS", "500"), ("writeBandwidth", "10Mi")]).unwrap();
        assert_eq!(
            limits.io_max((7, 3)),
            "7:3 rbps=max wbps=10485760 riops=500 wiops=max"
        );
        let lines = limits.throttle((7, 3)).map(|(_, line)| line);
        assert_eq!(lines, ["7:3 0", "7:3 10485760", "7:3 500", "7:3 0"]);
    }

    #[test]
    fn unknown_parameters_and_values_are_refused() {
        for (key, value) in [
            ("XXX", "1"),
            ("readIOPS", "0"),
            ("readIOPS", "-5"),
            ("readIOPS", "fast"),
        ] {
            let error = parse(&[(key, value)]).unwrap_err();
            assert_eq!(error.code(), tonic::Code::InvalidArgument, "{error}");
        }
        assert!(parse(&[("readIOPS", "max")]).unwrap().is_unlimited());
    }
}
