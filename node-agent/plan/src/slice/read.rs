//! Endpoints as they are read: without their texts, since most objects of a
//! cluster's Services are they, and a start reads all.

use std::fmt;
use std::net::IpAddr;

use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::Name;
use crate::objects::{Conditions, Endpoint, Hints, nullable};

/// `endpoints` of an EndpointSlice, for [`SliceState::new`](super::SliceState::new).
#[derive(Debug, Default, Deserialize)]
pub struct Endpoints(#[serde(deserialize_with = "nullable")] pub(super) Vec<ReadEndpoint>);

/// One endpoint.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReadEndpoint {
    #[serde(deserialize_with = "nullable")]
    addresses: FirstAddress,
    #[serde(deserialize_with = "nullable")]
    pub(super) conditions: Conditions,
    pub(super) node_name: Option<Name>,
    pub(super) hints: Option<Hints>,
}

/// The first of its addresses, or what is in its place.
#[derive(Debug, Default)]
struct FirstAddress(Option<Text>);

#[derive(Debug)]
struct Text(Result<IpAddr, Box<str>>);

// === impl Endpoints ===

impl<'a> FromIterator<&'a Endpoint> for Endpoints {
    fn from_iter<T: IntoIterator<Item = &'a Endpoint>>(endpoints: T) -> Self {
        let read = |it: &Endpoint| ReadEndpoint {
            addresses: FirstAddress(it.addresses.first().map(|text| Text::of(text))),
            conditions: it.conditions,
            node_name: it.node_name.as_deref().map(Name::hash),
            hints: it.hints.clone(),
        };
        Self(endpoints.into_iter().map(read).collect())
    }
}

impl ReadEndpoint {
    /// Returns its address, or the invalid text; `None` if there is no text.
    pub(super) fn take_address(&mut self) -> Option<Result<IpAddr, Box<str>>> {
        self.addresses.0.take().map(|text| text.0)
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

impl<'de> Deserialize<'de> for FirstAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(OfList)
    }
}

// === impl Name ===

impl<'de> Deserialize<'de> for Name {
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

/// Reads the first of a list and passes over the others.
struct OfList;

impl<'de> Visitor<'de> for OfList {
    type Value = FirstAddress;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of addresses")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FirstAddress, A::Error> {
        let first = list.next_element()?;
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(FirstAddress(first))
    }
}
