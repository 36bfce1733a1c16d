//! Routes, and their changes.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

/// Routes to advertise to a peer.
pub type Routes = BTreeMap<IpNet, Attributes>;

/// Attributes of a route besides those that follow from the session.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attributes {
    /// Communities.
    pub communities: Communities,
    /// Preference within the autonomous system.
    pub local_pref: Option<u32>,
}

/// Communities of both sizes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Communities {
    /// RFC 1997.
    pub plain: BTreeSet<u32>,
    /// RFC 8092.
    pub large: BTreeSet<[u32; 3]>,
}

impl Communities {
    /// Parses `65000:1`, `65000:1:2` and well-known names; skips invalid ones, which the
    /// definition rejects already.
    #[must_use]
    pub fn parse(texts: &[impl AsRef<str>]) -> Self {
        let mut all = Self::default();
        for text in texts {
            let text = text.as_ref();
            let known = match text {
                "no-export" => Some(0xffff_ff01),
                "no-advertise" => Some(0xffff_ff02),
                "local-as" => Some(0xffff_ff03),
                "no-peer" => Some(0xffff_ff04),
                _ => None,
            };
            if let Some(known) = known {
                all.plain.insert(known);
                continue;
            }
            let parts: Option<Vec<u32>> = text.split(':').map(|part| part.parse().ok()).collect();
            match parts.as_deref() {
                Some(&[high, low]) if high <= 0xffff && low <= 0xffff => {
                    all.plain.insert((high << 16) | low);
                }
                Some(&[global, one, two]) => {
                    all.large.insert([global, one, two]);
                }
                _ => {}
            }
        }
        all
    }

    /// Adds those of another set.
    pub fn extend(&mut self, other: &Self) {
        self.plain.extend(&other.plain);
        self.large.extend(&other.large);
    }
}

/// Routes to advertise and to withdraw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Withdrawn prefixes.
    pub withdrawn: BTreeSet<IpNet>,
    /// Ways that are new or other than before, those with the same attributes together.
    pub told: BTreeMap<Attributes, BTreeSet<IpNet>>,
}

/// Returns the changes from one set of routes to the next. A route whose attributes
/// changed is not withdrawn first: there is no moment without it (RFC 4271, 9.1.4).
#[must_use]
pub fn diff(before: &Routes, after: &Routes) -> Changes {
    let mut changes = Changes::default();
    for (net, attributes) in after {
        if before.get(net) != Some(attributes) {
            changes
                .told
                .entry(attributes.clone())
                .or_default()
                .insert(*net);
        }
    }
    let gone = before.keys().filter(|net| !after.contains_key(net));
    changes.withdrawn = gone.copied().collect();
    changes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn communities_of_all_forms_are_read() {
        let all = Communities::parse(&[
            "65000:1",
            "65000:1:4294967295",
            "no-export",
            "70000:1",
            "x",
            "1",
            "1:2:3:4",
        ]);
        assert_eq!(all.plain, BTreeSet::from([0xfde8_0001, 0xffff_ff01]));
        assert_eq!(all.large, BTreeSet::from([[65000, 1, u32::MAX]]));
    }

    fn routes() -> impl Strategy<Value = Routes> {
        prop::collection::btree_map(0_u8..16, prop::option::of(0_u32..3), 0..10).prop_map(|all| {
            all.into_iter()
                .map(|(last, local_pref)| {
                    let net = IpNet::new([10, 0, 0, last].into(), 32).unwrap();
                    (
                        net,
                        Attributes {
                            local_pref,
                            ..Attributes::default()
                        },
                    )
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn changes_lead_from_one_to_the_other_and_touch_nothing_else(before in routes(), after in routes()) {
            let changes = diff(&before, &after);
            let mut table = before.clone();
            for net in &changes.withdrawn {
                prop_assert!(table.remove(net).is_some());
            }
            for (attributes, nets) in &changes.told {
                for net in nets {
                    prop_assert_ne!(table.insert(*net, attributes.clone()), Some(attributes.clone()));
                }
            }
            prop_assert_eq!(&table, &after);
            prop_assert_eq!(diff(&after, &after), Changes::default());
        }
    }
}
