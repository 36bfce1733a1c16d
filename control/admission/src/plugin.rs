//! The steps of admission by kube-apiserver's names, in its order, and which of them
//! are on.

/// Declares [`Plugin`]: each with its name, and whether it is on unless turned off.
macro_rules! plugins {
    ($($(#[$doc:meta])* $name:ident = $on:literal,)*) => {
        /// A step of admission, called as kube-apiserver calls it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Plugin {
            $($(#[$doc])* $name,)*
        }

        impl Plugin {
            /// All, in the order in which they run.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its name in options and files.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// Whether it is on unless it is turned off.
            #[must_use]
            pub fn is_usual(self) -> bool {
                match self {
                    $(Self::$name => $on,)*
                }
            }
        }
    };
}

plugins! {
    /// Does nothing.
    AlwaysAdmit = false,
    /// Makes the namespace of a new object.
    NamespaceAutoProvision = false,
    /// Nothing is made in namespaces that end, and those that all need stay.
    NamespaceLifecycle = true,
    /// The namespace of a new object must be there.
    NamespaceExists = false,
    /// Required anti-affinity is about nodes only.
    LimitPodHardAntiAffinityTopology = false,
    /// Pods and claims keep to the limits of their namespace.
    LimitRanger = true,
    /// Pods act as somebody.
    ServiceAccount = true,
    /// Agents write what concerns their node. Off in kube-apiserver until it is
    /// turned on, which every installation does.
    NodeRestriction = true,
    /// New nodes are not ready.
    TaintNodesByCondition = true,
    /// Every image is pulled anew.
    AlwaysPullImages = false,
    /// Another server judges images.
    ImagePolicyWebhook = false,
    /// Pods keep to the level of their namespace.
    PodSecurity = true,
    /// Pods run on the nodes of their namespace.
    PodNodeSelector = false,
    /// Pods get the number of their priority class.
    Priority = true,
    /// Pods outlive some minutes of a silent node.
    DefaultTolerationSeconds = true,
    /// Pods have the tolerations of their namespace.
    PodTolerationRestriction = false,
    /// Events are limited.
    EventRateLimit = false,
    /// Who asks for extended resources tolerates the taints of their names.
    ExtendedResourceToleration = false,
    /// Claims get the default class.
    DefaultStorageClass = true,
    /// Volumes and claims that are used stay.
    StorageObjectInUseProtection = true,
    /// Groups of pods that are used stay (alpha: there are none).
    PodGroupProtection = true,
    /// Who names owners may delete what they own.
    OwnerReferencesPermissionEnforcement = false,
    /// Claims grow if their class lets them.
    PersistentVolumeClaimResize = true,
    /// Pods get what their runtime class costs.
    RuntimeClass = true,
    /// Who approves certificates may.
    CertificateApproval = true,
    /// Who signs them may.
    CertificateSigning = true,
    /// Who vouches for a signer's bundle may (beta: bundles are not served).
    ClusterTrustBundleAttest = true,
    /// Nobody asks for a certificate of `system:masters`.
    CertificateSubjectRestriction = true,
    /// Ingresses get the default class.
    DefaultIngressClass = true,
    /// Services get no external addresses.
    DenyServiceExternalIPs = false,
    /// Pods get the place of their node.
    PodTopologyLabels = true,
    /// Groups of pods have a workload (alpha: there are none).
    PodGroupWorkloadExists = true,
    /// Pods change only as their node can bear.
    NodeDeclaredFeatureValidator = true,
    /// Jobs with a workload are right (alpha: there are none).
    JobValidation = true,
    /// Pods are resized only where that can be.
    PodResizeValidator = true,
    /// Users' policies change objects.
    MutatingAdmissionPolicy = true,
    /// Users' webhooks change objects.
    MutatingAdmissionWebhook = true,
    /// Users' policies judge objects.
    ValidatingAdmissionPolicy = true,
    /// Users' webhooks judge objects.
    ValidatingAdmissionWebhook = true,
    /// Namespaces get no more than their quota.
    ResourceQuota = true,
    /// Refuses everything.
    AlwaysDeny = false,
}

/// A set of plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plugins(u64);

/// Why plugins cannot be chosen so.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// There is none of this name.
    #[error("{option} plugin {name:?} is unknown")]
    Unknown {
        /// Where it was said.
        option: &'static str,
        /// The name.
        name: String,
    },
    /// One is turned on and off.
    #[error("[{0}] in enable-admission-plugins and disable-admission-plugins overlapped")]
    Both(String),
}

impl Plugin {
    /// The one of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name() == name)
    }

    const fn bit(self) -> u64 {
        1 << self as u64
    }
}

impl Default for Plugins {
    /// Those that Kubernetes 1.36 turns on, and `NodeRestriction`.
    fn default() -> Self {
        Self::none().with(Plugin::ALL.iter().copied().filter(|one| one.is_usual()))
    }
}

impl Plugins {
    /// No plugin.
    #[must_use]
    pub const fn none() -> Self {
        Self(0)
    }

    /// Whether a plugin is on.
    #[inline]
    #[must_use]
    pub const fn has(self, plugin: Plugin) -> bool {
        self.0 & plugin.bit() != 0
    }

    /// Those that are on, in their order.
    pub fn iter(self) -> impl Iterator<Item = Plugin> {
        let all = Plugin::ALL.iter().copied();
        all.filter(move |one| self.has(*one))
    }

    /// The usual ones, with and without others (`--enable-admission-plugins`,
    /// `--disable-admission-plugins`).
    ///
    /// # Errors
    /// [`ChoiceError`].
    pub fn choose(on: &[String], off: &[String]) -> Result<Self, ChoiceError> {
        let on = named("enable-admission-plugins", on)?;
        let off = named("disable-admission-plugins", off)?;
        let both: Vec<&str> = on
            .iter()
            .filter(|one| off.contains(one))
            .map(|one| one.name())
            .collect();
        if !both.is_empty() {
            return Err(ChoiceError::Both(both.join(" ")));
        }
        Ok(Self::default().without(off).with(on))
    }

    /// These and no others (`--admission-control`).
    ///
    /// # Errors
    /// [`ChoiceError`].
    pub fn only(names: &[String]) -> Result<Self, ChoiceError> {
        Ok(Self::none().with(named("admission-control", names)?))
    }

    fn with(self, more: impl IntoIterator<Item = Plugin>) -> Self {
        Self(more.into_iter().fold(self.0, |all, one| all | one.bit()))
    }

    fn without(self, fewer: impl IntoIterator<Item = Plugin>) -> Self {
        Self(fewer.into_iter().fold(self.0, |all, one| all & !one.bit()))
    }
}

fn named(option: &'static str, names: &[String]) -> Result<Vec<Plugin>, ChoiceError> {
    let one = |name: &String| {
        Plugin::find(name).ok_or_else(|| ChoiceError::Unknown {
            option,
            name: name.clone(),
        })
    };
    names.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_usual_ones_are_kubernetes_and_a_set_has_room_for_all() {
        assert!(Plugin::ALL.len() <= 64);
        let usual = Plugins::default();
        assert_eq!(usual.iter().count(), 28);
        assert!(usual.has(Plugin::NodeRestriction) && !usual.has(Plugin::AlwaysPullImages));
        assert!(Plugin::ALL.is_sorted());
        for one in Plugin::ALL {
            assert_eq!(Plugin::find(one.name()), Some(*one));
        }
    }

    #[test]
    fn plugins_are_turned_on_and_off_by_name() {
        let chosen = Plugins::choose(&names(&["AlwaysPullImages"]), &names(&["ServiceAccount"]));
        let chosen = chosen.expect("both are known");
        assert!(chosen.has(Plugin::AlwaysPullImages) && !chosen.has(Plugin::ServiceAccount));
        let only = Plugins::only(&names(&["AlwaysDeny"])).expect("known");
        assert_eq!(only.iter().collect::<Vec<_>>(), [Plugin::AlwaysDeny]);
        assert_eq!(
            Plugins::choose(&names(&["Nothing"]), &[])
                .expect_err("unknown")
                .to_string(),
            "enable-admission-plugins plugin \"Nothing\" is unknown"
        );
        assert_eq!(
            Plugins::choose(&names(&["Priority"]), &names(&["Priority"]))
                .expect_err("both")
                .to_string(),
            "[Priority] in enable-admission-plugins and disable-admission-plugins overlapped"
        );
    }
}
