//! Feature gates: what of Kubernetes 1.36 is on here, and what of it an operator may
//! turn off (`--feature-gates`).
//!
//! The one table below holds those that mean something for this server, with the
//! stage and the default of kube-apiserver. Locked ones name what is part of the
//! server and cannot be taken out of it. A gate that is not in the table is refused:
//! who turns something on must not believe that it is.

use std::fmt;

use control_metrics::{Kind, Page};
use control_types::nearest::nearest;

/// How mature Kubernetes takes a feature for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It may go again.
    Alpha,
    /// It will stay, if perhaps not as it is.
    Beta,
    /// It stays.
    Stable,
    /// A way back to how it was, for a while.
    Deprecated,
}

/// What the table says of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Kubernetes' name.
    pub name: &'static str,
    /// Kubernetes' stage.
    pub stage: Stage,
    /// Whether it is on unless told otherwise.
    pub default: bool,
    /// Whether it cannot be told otherwise.
    pub locked: bool,
}

/// Why gates cannot be set so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is none of the name.
    #[error("unrecognized feature gate: {name}{}", meant(*nearest))]
    Unknown {
        /// The name.
        name: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// It is no pair.
    #[error("missing bool value for {0}: write it like {0}=true")]
    NoValue(String),
    /// Its value is no truth.
    #[error("invalid value of {name}={value}: it must be true or false")]
    Value {
        /// The gate.
        name: String,
        /// What was given.
        value: String,
    },
    /// It is on without what it needs.
    #[error("{name} is enabled, but depends on features that are disabled: [{needs}]")]
    Dependency {
        /// The gate.
        name: &'static str,
        /// The disabled features that it depends on.
        needs: &'static str,
    },
    /// It cannot be set so.
    #[error("cannot set feature gate {name} to {wanted}, feature is locked to {}", !wanted)]
    Locked {
        /// The gate.
        name: &'static str,
        /// What was asked for.
        wanted: bool,
    },
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(", did you mean {name}?"))
}

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident: $stage:ident, $default:literal, $locked:literal;)*) => {
        /// A feature by its name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Feature {
            $($(#[$doc])* $name,)*
        }

        /// All features, in the order of [`Feature`].
        pub const ALL: &[Spec] = &[$(Spec {
            name: stringify!($name),
            stage: Stage::$stage,
            default: $default,
            locked: $locked,
        },)*];
    };
}

features! {
    /// Large lists are compressed for who takes them so.
    APIResponseCompression: Beta, true, false;
    /// Each server shows itself in a Lease (KEP-1965).
    APIServerIdentity: Beta, true, false;
    /// Spans of requests are sent to a collector, if one is configured (KEP-647).
    APIServerTracing: Stable, true, true;
    /// Alpha features together.
    AllAlpha: Alpha, false, false;
    /// Beta features together.
    AllBeta: Beta, false, false;
    /// Certificates may say the uid of their user.
    AllowParsingUserUIDFromCertAuth: Beta, true, true;
    /// Anonymous requests may be confined to paths (KEP-4633).
    AnonymousAuthConfigurableEndpoints: Stable, true, true;
    /// Nodes are allowed to read what their selectors confine to them (KEP-4601).
    AuthorizeNodeWithSelectors: Stable, true, true;
    /// Authorizers see selectors (KEP-4601).
    AuthorizeWithSelectors: Stable, true, true;
    /// Definitions may have rules that old values need not meet (KEP-4008).
    CRDValidationRatcheting: Stable, true, true;
    /// `/flagz` (KEP-4828).
    ComponentFlagz: Beta, true, false;
    /// `/statusz` (KEP-4827).
    ComponentStatusz: Beta, true, false;
    /// Lists that must be current come out of the cache (KEP-2340).
    ConsistentListFromCache: Stable, true, true;
    /// Users may impersonate for some actions only (KEP-5284).
    ConstrainedImpersonation: Beta, true, true;
    /// Custom resources have field selectors (KEP-4358).
    CustomResourceFieldSelectors: Stable, true, true;
    /// The scheduler schedules enough pods of a gang at once, or none (KEP-4671).
    GangScheduling: Alpha, false, false;
    /// The scheduler decides about all pods of a PodGroup together (KEP-4671), where the API
    /// server serves PodGroups; this one does not.
    GenericWorkload: Alpha, false, false;
    /// `--logging-format=json`.
    LoggingBetaOptions: Beta, true, true;
    /// Ranges of Service addresses are objects (KEP-1880).
    MultiCIDRServiceAllocator: Stable, true, true;
    /// Policies that change objects (KEP-3962).
    MutatingAdmissionPolicy: Stable, true, true;
    /// OpenAPI says which values there are.
    OpenAPIEnums: Beta, true, true;
    /// A namespace's pods go before what they use (KEP-5080).
    OrderedNamespaceDeletion: Stable, true, true;
    /// Ports are forwarded over WebSockets (KEP-4006).
    PortForwardWebsockets: Beta, true, true;
    /// Proxies may say the uid of a user.
    RemoteRequestHeaderUID: Beta, true, false;
    /// A made-up name that is taken is made up again (KEP-4420).
    RetryGenerateName: Stable, true, true;
    /// Agents ask for serving certificates.
    RotateKubeletServerCertificate: Beta, true, true;
    /// Nodes ask for tokens only for audiences that their pods use (KEP-4412).
    ServiceAccountNodeAudienceRestriction: Beta, true, true;
    /// Tokens have names (KEP-4193).
    ServiceAccountTokenJTI: Stable, true, true;
    /// Tokens may be bound to nodes (KEP-4193).
    ServiceAccountTokenNodeBinding: Stable, true, true;
    /// Tokens die with the nodes that they are bound to (KEP-4193).
    ServiceAccountTokenNodeBindingValidation: Stable, true, true;
    /// Tokens of pods say their node (KEP-4193).
    ServiceAccountTokenPodNodeInfo: Stable, true, true;
    /// Lists cost seats by their size (KEP-1040).
    SizeBasedListCostEstimate: Beta, true, true;
    /// Discovery tells in which form objects are stored.
    StorageVersionHash: Beta, true, true;
    /// Lists are sent while they are written (KEP-5116).
    StreamingCollectionEncodingToJSON: Stable, true, true;
    /// Likewise in protobuf.
    StreamingCollectionEncodingToProtobuf: Stable, true, true;
    /// `--authentication-config` (KEP-3331).
    StructuredAuthenticationConfiguration: Stable, true, true;
    /// Streams to containers over WebSockets are translated (KEP-4006).
    TranslateStreamCloseWebsocketRequests: Beta, true, true;
    /// Connections of nobody end early.
    UnauthenticatedHTTP2DOSMitigation: Beta, true, true;
    /// Watches may begin with all objects (KEP-3157).
    WatchList: Beta, true, false;
}

/// Features, and what each needs.
const DEPENDENCIES: [(Feature, Feature); 1] = [(Feature::GangScheduling, Feature::GenericWorkload)];

/// Which features are on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Gates(u64);

const _: () = assert!(ALL.len() <= 64, "they are bits of one number");

// === impl Gates ===

impl Default for Gates {
    fn default() -> Self {
        let on = ALL.iter().enumerate().filter(|(_, spec)| spec.default);
        Self(on.fold(0, |bits, (at, _)| bits | 1 << at))
    }
}

impl fmt::Debug for Gates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = ALL.iter().enumerate().filter(|(at, _)| self.is_on(*at));
        formatter
            .debug_set()
            .entries(on.map(|(_, spec)| spec.name))
            .finish()
    }
}

impl Gates {
    /// Whether a feature is on.
    #[must_use]
    pub fn enabled(self, feature: Feature) -> bool {
        self.is_on(feature as usize)
    }

    /// The defaults, but for the given `NAME=true` and `NAME=false`. `AllAlpha` and
    /// `AllBeta` set those of their stage that are not named themselves.
    ///
    /// # Errors
    /// [`Error`].
    pub fn parse<'a>(given: impl IntoIterator<Item = &'a str>) -> Result<Self, Error> {
        let mut set: Vec<(usize, bool)> = Vec::new();
        for pair in given
            .into_iter()
            .map(str::trim)
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| Error::NoValue(pair.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            let at = ALL.iter().position(|spec| spec.name == name);
            let at = at.ok_or_else(|| Error::Unknown {
                name: name.to_owned(),
                nearest: nearest(name, ALL.iter().map(|spec| spec.name)),
            })?;
            // What Go's strconv takes for a truth.
            let wanted = match value {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
                "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
                _ => {
                    return Err(Error::Value {
                        name: name.to_owned(),
                        value: value.to_owned(),
                    });
                }
            };
            if ALL[at].locked && wanted != ALL[at].default {
                return Err(Error::Locked {
                    name: ALL[at].name,
                    wanted,
                });
            }
            set.push((at, wanted));
        }
        let mut gates = Self::default();
        for (all, stage) in [
            (Feature::AllAlpha, Stage::Alpha),
            (Feature::AllBeta, Stage::Beta),
        ] {
            let Some((_, wanted)) = set.iter().rev().find(|(at, _)| *at == all as usize) else {
                continue;
            };
            for (at, spec) in ALL.iter().enumerate() {
                if spec.stage == stage && !spec.locked {
                    gates.set(at, *wanted);
                }
            }
        }
        for (at, wanted) in set {
            gates.set(at, wanted);
        }
        for (feature, needed) in DEPENDENCIES {
            if gates.enabled(feature) && !gates.enabled(needed) {
                return Err(Error::Dependency {
                    name: ALL[feature as usize].name,
                    needs: ALL[needed as usize].name,
                });
            }
        }
        Ok(gates)
    }

    /// Tells Prometheus of all of them.
    pub(crate) fn write(self, page: &mut Page) {
        let name = "kubernetes_feature_enabled";
        page.family(
            name,
            Kind::Gauge,
            "This metric records the data about the stage and enablement of a k8s feature.",
        );
        for (at, spec) in ALL.iter().enumerate() {
            let stage = match spec.stage {
                Stage::Alpha => "ALPHA",
                Stage::Beta => "BETA",
                Stage::Stable => "",
                Stage::Deprecated => "DEPRECATED",
            };
            let value = if self.is_on(at) { 1.0 } else { 0.0 };
            page.sample(name, &[("name", spec.name), ("stage", stage)], value);
        }
    }

    fn is_on(self, at: usize) -> bool {
        self.0 >> at & 1 == 1
    }

    fn set(&mut self, at: usize, on: bool) {
        self.0 = self.0 & !(1 << at) | u64::from(on) << at;
    }
}

#[cfg(test)]
mod tests {
    use control_metrics::Format;

    use super::*;

    #[test]
    fn gates_are_set_by_name_and_by_stage() {
        let usual = Gates::default();
        assert!(usual.enabled(Feature::WatchList) && !usual.enabled(Feature::AllBeta));
        let gates = Gates::parse(["WatchList=false", " ComponentFlagz = T "]).expect("right");
        assert!(!gates.enabled(Feature::WatchList) && gates.enabled(Feature::ComponentFlagz));
        let gates = Gates::parse(["ComponentStatusz=true", "AllBeta=false"]).expect("right");
        assert!(!gates.enabled(Feature::WatchList) && gates.enabled(Feature::ComponentStatusz));
        // What is part of the server stays.
        assert!(gates.enabled(Feature::OpenAPIEnums));
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_was_meant() {
        for (given, told) in [
            (
                "Watchlist=true",
                "unrecognized feature gate: Watchlist, did you mean WatchList?",
            ),
            ("Qqqqqqqqqqq=true", "unrecognized feature gate: Qqqqqqqqqqq"),
            (
                "WatchList",
                "missing bool value for WatchList: write it like WatchList=true",
            ),
            (
                "WatchList=yes",
                "invalid value of WatchList=yes: it must be true or false",
            ),
            (
                "MutatingAdmissionPolicy=false",
                "cannot set feature gate MutatingAdmissionPolicy to false, feature is locked to true",
            ),
            (
                "GangScheduling=true",
                "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
            ),
        ] {
            assert_eq!(Gates::parse([given]).expect_err(told).to_string(), told);
        }
        assert!(Gates::parse(["MutatingAdmissionPolicy=true", ""]).is_ok());
        assert!(Gates::parse(["GangScheduling=true", "GenericWorkload=true"]).is_ok());
    }

    #[test]
    fn the_table_is_sorted_as_people_look_for_names() {
        let names: Vec<_> = ALL.iter().map(|spec| spec.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(ALL[Feature::WatchList as usize].name, "WatchList");
    }

    #[test]
    fn prometheus_learns_of_stage_and_state() {
        let mut page = Page::new(Format::Text);
        Gates::parse(["WatchList=false"])
            .expect("right")
            .write(&mut page);
        let page = page.finish();
        for line in [
            "kubernetes_feature_enabled{name=\"WatchList\",stage=\"BETA\"} 0\n",
            "kubernetes_feature_enabled{name=\"RetryGenerateName\",stage=\"\"} 1\n",
        ] {
            assert!(page.contains(line), "{line} in {page}");
        }
    }
}
