//! The nodes that filters reject, with their reasons.

use std::borrow::Cow;

use crate::bits::Bits;

/// Rejected nodes by reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RejectedNodes {
    pub(crate) rejections: Vec<Rejection>,
}

/// Nodes that one plugin rejected for one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// Index of the plugin in the profile.
    pub(crate) plugin: usize,
    /// As people read it.
    pub(crate) reason: Cow<'static, str>,
    /// The rejected nodes.
    pub(crate) nodes: Bits,
    /// Whether evicting pods could help.
    pub(crate) resolvable: bool,
}

impl RejectedNodes {
    /// `nodes` are rejected for `reason`. With `resolvable`, evicting other
    /// pods could help.
    pub fn add(&mut self, nodes: &Bits, reason: impl Into<Cow<'static, str>>, resolvable: bool) {
        self.add_for(usize::MAX, nodes, reason.into(), resolvable);
    }

    pub(crate) fn add_for(
        &mut self,
        plugin: usize,
        nodes: &Bits,
        reason: Cow<'static, str>,
        resolvable: bool,
    ) {
        if nodes.is_empty() {
            return;
        }
        let known = self.rejections.iter_mut().find(|known| {
            known.plugin == plugin && known.resolvable == resolvable && known.reason == reason
        });
        match known {
            Some(known) => known.nodes.union(nodes),
            None => {
                self.rejections.push(Rejection {
                    plugin,
                    reason,
                    nodes: nodes.clone(),
                    resolvable,
                });
            }
        }
    }

    /// Takes over what `plugin` told.
    pub(crate) fn absorb(&mut self, plugin: usize, told: Self) {
        for rejection in told.rejections {
            self.add_for(
                plugin,
                &rejection.nodes,
                rejection.reason,
                rejection.resolvable,
            );
        }
    }

    /// Takes over what all plugins told.
    pub(crate) fn absorb_all(&mut self, told: Self) {
        for rejection in told.rejections {
            let Rejection {
                plugin,
                reason,
                nodes,
                resolvable,
            } = rejection;
            self.add_for(plugin, &nodes, reason, resolvable);
        }
    }

    /// Forgets the reasons of `nodes`.
    pub(crate) fn forget(&mut self, nodes: &Bits) {
        for rejection in &mut self.rejections {
            rejection.nodes.subtract(nodes);
        }
        self.rejections
            .retain(|rejection| !rejection.nodes.is_empty());
    }
}
