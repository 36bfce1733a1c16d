//! Endpoints as they are read: without their texts, since most objects of a
//! cluster's Services are they, and a start reads all.

use std::fmt;
use std::net::IpAddr;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::NameHash;
use crate::objects::{Conditions, Endpoint, Hints, nullable};

/// `endpoints` of an EndpointSlice, for [`SliceState::new`](super::SliceState::new).
#[derive(Debug, Default, Deserialize)]
pub struct Endpoints(#[serde(deserialize_with = "nullable")] pub(super) Vec<ReadEndpoint>);

/// One endpoint.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadEndpoint {
    #[serde(deserialize_with = "nullable")]
    addresses: ReadAddresses,
    hostname: Option<Box<str>>,
    #[serde(deserialize_with = "nullable")]
    pub(super) conditions: Conditions,
    pub(super) node_name: Option<NameHash>,
    pub(super) hints: Option<Hints>,
}

/// Its addresses. The API allows several and says that only the first counts for a
/// datapath.
#[derive(Debug, Default)]
struct ReadAddresses {
    /// The first, or what stands in its place.
    first: Option<Text>,
    others: Vec<IpAddr>,
}

#[derive(Debug)]
struct Text(Result<IpAddr, Box<str>>);

// === impl Endpoints ===

impl<'a> FromIterator<&'a Endpoint> for Endpoints {
    fn from_iter<T: IntoIterator<Item = &'a Endpoint>>(endpoints: T) -> Self {
        let read = |it: &Endpoint| ReadEndpoint {
            addresses: ReadAddresses {
                first: it.addresses.first().map(|text| Text::of(text)),
                others: Vec::new(),
            },
            hostname: None,
            conditions: it.conditions,
            node_name: it.node_name.as_deref().map(NameHash::hash),
            hints: it.hints.clone(),
        };
        Self(endpoints.into_iter().map(read).collect())
    }
}

impl Endpoints {
    /// All endpoints.
    pub fn iter(&self) -> impl Iterator<Item = &ReadEndpoint> {
        self.0.iter()
    }
}

impl ReadEndpoint {
    /// Its addresses; what is no address is left out.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let first = self.addresses.first.iter();
        let first = first.filter_map(|text| text.0.as_ref().ok());
        first.chain(&self.addresses.others).copied()
    }

    /// Its hostname, below the Service's name in DNS.
    #[must_use]
    pub fn hostname(&self) -> Option<&str> {
        self.hostname.as_deref().filter(|name| !name.is_empty())
    }

    /// Whether it is ready; unknown counts as yes.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.conditions.ready.unwrap_or(true)
    }

    /// Its first address, or the text that is none; none if there is no text.
    pub(super) fn first_address(&self) -> Option<Result<IpAddr, &str>> {
        let first = self.addresses.first.as_ref()?;
        Some(first.0.as_ref().copied().map_err(|text| &**text))
    }
}

// === impl Text ===

impl Text {
    fn of(text: &str) -> Self {
        Self(text.parse().map_err(|_| text.into()))
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(OfText(Self::of))
    }
}

impl<'de> Deserialize<'de> for ReadAddresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(OfList)
    }
}

// === impl NameHash ===

impl<'de> Deserialize<'de> for NameHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(OfText(Self::hash))
    }
}

/// Makes something of a text without keeping it.
struct OfText<T>(fn(&str) -> T);

impl<T> Visitor<'_> for OfText<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok((self.0)(text))
    }
}

/// Reads a list of addresses, of which there is one as a rule.
struct OfList;

impl<'de> Visitor<'de> for OfList {
    type Value = ReadAddresses;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of addresses")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ReadAddresses, A::Error> {
        let first = list.next_element()?;
        let mut others = Vec::new();
        while let Some(Text(address)) = list.next_element()? {
            others.extend(address);
        }
        Ok(ReadAddresses { first, others })
    }
}
