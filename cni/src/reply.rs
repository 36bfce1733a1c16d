//! The plugin's output, and the parts of other plugins' output that it reads.

use std::net::IpAddr;

use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Error;

/// The result of ADD (CNI specification 1.1, section 5).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddResult {
    pub(crate) cni_version: String,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) ips: Vec<Ip>,
    pub(crate) routes: Vec<Route>,
    pub(crate) dns: Value,
}

#[derive(Debug, Serialize)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) mac: String,
    /// In bytes; results have it from version 1.1 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mtu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sandbox: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Ip {
    /// Written with its prefix length, as `10.0.0.2/32`.
    pub(crate) address: String,
    pub(crate) gateway: IpAddr,
    pub(crate) interface: usize,
    /// `4` or `6`: only results before version 1.0 have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Route {
    pub(crate) dst: String,
    pub(crate) gw: IpAddr,
}

impl AddResult {
    /// The result of the chain so far, with this one in it: what plugins before
    /// made is handed on (section 3, "Chained plugins").
    pub(crate) fn after(self, previous: Option<Value>) -> Result<Value, Error> {
        let own =
            serde_json::to_value(self).map_err(|error| Error::Configuration(error.to_string()))?;
        let Some(Value::Object(mut all)) = previous else {
            return Ok(own);
        };
        let before = all
            .get("interfaces")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        for key in ["interfaces", "ips", "routes"] {
            let mut list = match all.remove(key) {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            };
            for mut item in own[key].as_array().cloned().unwrap_or_default() {
                if key == "ips"
                    && let Some(index) = item["interface"].as_u64()
                {
                    item["interface"] = json!(index + before as u64);
                }
                list.push(item);
            }
            all.insert(key.to_owned(), Value::Array(list));
        }
        all.insert("cniVersion".to_owned(), own["cniVersion"].clone());
        all.entry("dns").or_insert_with(|| json!({}));
        Ok(Value::Object(all))
    }
}

/// An interface in a container, as a chain's result describes it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StatedInterface {
    pub(crate) mac: Option<String>,
    pub(crate) mtu: Option<u32>,
    pub(crate) addresses: Vec<IpAddr>,
}

/// Reads the interface `name`, which is in a sandbox; none if the result does
/// not have it.
pub(crate) fn stated(result: &Value, name: &str) -> Option<StatedInterface> {
    let interfaces = result["interfaces"].as_array()?;
    let index = interfaces.iter().position(|it| {
        it["name"] == name && it["sandbox"].as_str().is_some_and(|it| !it.is_empty())
    })?;
    let interface = &interfaces[index];
    let addresses = result["ips"].as_array().into_iter().flatten();
    Some(StatedInterface {
        mac: interface["mac"].as_str().map(str::to_lowercase),
        mtu: interface["mtu"]
            .as_u64()
            .and_then(|mtu| u32::try_from(mtu).ok()),
        addresses: addresses
            .filter(|ip| ip["interface"].as_u64() == Some(index as u64))
            .filter_map(|ip| ip["address"].as_str()?.split('/').next()?.parse().ok())
            .collect(),
    })
}

/// The hardware address as people write it.
pub(crate) fn mac(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .join(":")
}

/// The hardware address of one host that people wrote; of many or of none it is
/// no host's.
pub(crate) fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut parts = text.split([':', '-']);
    for byte in &mut bytes {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    let right = parts.next().is_none() && bytes[0] & 1 == 0 && bytes != [0; 6];
    right.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added() -> AddResult {
        AddResult {
            cni_version: "1.1.0".to_owned(),
            interfaces: ["orl1", "eth0"]
                .into_iter()
                .map(|name| Interface {
                    name: name.to_owned(),
                    mac: "02:00:00:00:00:01".to_owned(),
                    mtu: Some(1450),
                    sandbox: (name == "eth0").then(|| "/n".to_owned()),
                })
                .collect(),
            ips: vec![Ip {
                address: "10.0.0.2/32".to_owned(),
                gateway: IpAddr::from([169, 254, 1, 1]),
                interface: 1,
                version: None,
            }],
            routes: Vec::new(),
            dns: json!({}),
        }
    }

    #[test]
    fn what_plugins_before_made_is_handed_on() {
        let previous = json!({
            "cniVersion": "1.1.0",
            "interfaces": [{"name": "lo", "sandbox": "/n"}],
            "ips": [{"address": "127.0.0.1/8", "interface": 0}],
            "dns": {"nameservers": ["10.0.0.10"]},
        });
        let all = added().after(Some(previous)).expect("a result");
        let names = all["interfaces"].as_array().expect("interfaces").iter();
        let names: Vec<_> = names
            .map(|it| it["name"].as_str().expect("a name"))
            .collect();
        assert_eq!(names, ["lo", "orl1", "eth0"]);
        assert_eq!(all["ips"][0]["interface"], 0);
        assert_eq!(all["ips"][1]["interface"], 2, "the place of `eth0` now");
        assert_eq!(all["dns"]["nameservers"][0], "10.0.0.10");
        let stated = stated(&all, "eth0").expect("the interface");
        assert_eq!(stated.mtu, Some(1450));
        assert_eq!(stated.addresses, [IpAddr::from([10, 0, 0, 2])]);
        assert_eq!(super::stated(&all, "orl1"), None, "not in the sandbox");
        let alone = added().after(None).expect("a result");
        assert_eq!(alone["ips"][0]["interface"], 1);
    }

    #[test]
    fn hardware_addresses_of_one_host_are_read() {
        let read = parse_mac("0A:1b:00:00:00:ff").expect("one");
        assert_eq!(mac(&read), "0a:1b:00:00:00:ff");
        for wrong in [
            "",
            "0a:1b:00:00:00",
            "0a:1b:00:00:00:ff:00",
            "01:00:00:00:00:01",
        ] {
            assert_eq!(parse_mac(wrong), None, "{wrong}");
        }
    }
}
