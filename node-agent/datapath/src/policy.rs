//! The maps of network policy: the compiler's actions upon them, and the same
//! questions that programs ask, asked from here.
//!
//! They are pinned beside those of services and opened there, by whoever
//! compiles policy: what devices run is the business of
//! [`Datapath`](crate::Datapath) alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ebpf_abi::policy::{
    EndpointKey, EndpointPolicy, PeerEntry, PolicyFlow, PolicyFlowEntry, PolicyRoot, PolicyVerdict,
    PortClasses, RuleName, VerdictKey,
};
use ebpf_abi::{Address, ChecksummedValue, Plain, Prefix, Range, Tuple, maps};
use ebpf_logic::policy::PolicyMaps;
use node_agent_policy::{Action, Prefix as Known};

use crate::devices::DeviceHook;
use crate::devices::attach::is_attached;
use crate::error::Error;
use crate::grace::wait_for_programs;
use crate::pins::version_dir;
use crate::table::{Table, each, in_runs};

mod walk;

pub use ebpf_logic::policy::HookPlace;
pub use walk::{PolicyQuestion, PolicyWalk};

/// The pinned maps of network policy.
#[derive(Debug)]
pub struct Policy {
    root: Table<u32, PolicyRoot>,
    peers: Table<Prefix, PeerEntry>,
    endpoints: Table<EndpointKey, ChecksummedValue<EndpointPolicy>>,
    ports: Table<u32, PortClasses>,
    verdicts: Table<VerdictKey, ChecksummedValue<PolicyVerdict>>,
    rules: Table<u32, RuleName>,
    flows: Table<Tuple, PolicyFlowEntry>,
    directory: PathBuf,
}

/// How many entries there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyEntries {
    /// `PEERS`.
    pub peers: usize,
    /// `ENDPOINTS`.
    pub endpoints: usize,
    /// `VERDICTS`.
    pub verdicts: usize,
    /// `RULES`.
    pub rules: usize,
}

/// How many actions were written, and why the rest were not.
#[derive(Debug, thiserror::Error)]
#[error("policy is not written completely")]
pub struct PartialWrite {
    /// So many of the first actions were.
    pub done: usize,
    /// Why not more.
    #[source]
    pub source: Error,
}

impl PartialWrite {
    /// The map that is full, if that is why.
    #[must_use]
    pub const fn full(&self) -> Option<&'static str> {
        match self.source {
            Error::Full { map, .. } => Some(map),
            _ => None,
        }
    }

    /// Does everything work without what there is no room for? So it is with
    /// the names of rules.
    #[must_use]
    pub fn is_harmless(&self) -> bool {
        self.full() == Some(maps::RULES)
    }
}

impl Policy {
    /// Opens what a [`Datapath`](crate::Datapath) pinned.
    ///
    /// # Errors
    ///
    /// [`Error::NotPinned`] or [`Error::Map`].
    pub fn open(pin_dir: &Path) -> Result<Self, Error> {
        let directory = version_dir(pin_dir);
        Ok(Self {
            root: Table::open(&directory, maps::POLICY_ROOT)?,
            peers: Table::open(&directory, maps::PEERS)?,
            endpoints: Table::open(&directory, maps::ENDPOINTS)?,
            ports: Table::open(&directory, maps::PORTS)?,
            verdicts: Table::open(&directory, maps::VERDICTS)?,
            rules: Table::open(&directory, maps::RULES)?,
            flows: Table::open(&directory, maps::POLICY_FLOWS)?,
            directory,
        })
    }

    /// The root, of whoever wrote it last: the compiler goes on from there.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn root(&self) -> Result<PolicyRoot, Error> {
        Ok(self.root.get(&0)?.unwrap_or_default())
    }

    /// Writes actions in order, and waits for programs before [some](Action::waits). After an error the maps hold a prefix of them,
    /// which is sound: the rest may be applied when there is room, or be
    /// [closed](Self::close).
    ///
    /// # Errors
    ///
    /// [`PartialWrite`], because of [`Error::Full`] or [`Error::Map`].
    pub fn apply(&self, actions: &[Action]) -> Result<(), PartialWrite> {
        let mut done = 0;
        in_runs(actions, |run| {
            self.apply_run(run)?;
            done += run.len();
            Ok(())
        })
        .map_err(|source| PartialWrite { done, source })
    }

    /// Closes what actions, for which there is no room, are about: pods whose
    /// rulesets they complete or point to. Nobody keeps an older, wider word.
    /// What stands under other epochs than the one in force goes. Returns how
    /// many sides of addresses were closed.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn close(&self, unwritten: &[Action]) -> Result<usize, Error> {
        let root = self.root()?;
        let mut rulesets = BTreeSet::new();
        let mut sides = BTreeSet::new();
        for action in unwritten {
            match action {
                Action::PutVerdict(key, _) => {
                    rulesets.insert((key.epoch, key.ruleset));
                }
                Action::PutEndpoint(key, _) => {
                    sides.insert(*key);
                }
                _ => {}
            }
        }
        let closed: Vec<EndpointKey> = self
            .endpoints
            .entries()?
            .into_iter()
            .filter(|(key, policy)| {
                let said = policy.open(key).map(|it| (key.epoch, it.ruleset));
                sides.contains(key) || said.is_none_or(|it| rulesets.contains(&it))
            })
            .map(|(key, _)| key)
            .collect();
        self.endpoints.delete(&closed)?;
        let next = PolicyRoot {
            generation: root.generation.wrapping_add(1),
            ..root
        };
        self.root.write(&[(0, next)])?;
        wait_for_programs()?;
        self.retain(|of| of == root.epoch)?;
        Ok(closed.len())
    }

    /// Says that there is no policy: guarded pods are open. Nothing is left.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn clear(&self) -> Result<(), Error> {
        let PolicyRoot { epoch, generation } = self.root()?;
        if epoch != 0 {
            let open = PolicyRoot {
                epoch: 0,
                generation: generation.wrapping_add(1),
            };
            self.root.write(&[(0, open)])?;
        }
        wait_for_programs()?;
        self.retain(|_| false)?;
        self.clear_ports(0)?;
        self.clear_ports(1)?;
        self.clear_rules()
    }

    fn apply_run(&self, run: &[Action]) -> Result<(), Error> {
        if run.first().is_some_and(Action::waits) {
            wait_for_programs()?;
        }
        match run.first() {
            None => Ok(()),
            Some(Action::Clear(_)) => {
                for action in run {
                    if let Action::Clear(epoch) = action {
                        self.retain(|of| of != *epoch)?;
                        self.clear_ports(epoch & 1)?;
                    }
                }
                self.clear_rules()
            }
            Some(Action::PutRule(..)) => self.rules.write(
                each!(run, Action::PutRule(cookie, name) => (*cookie, RuleName::new(name))),
            ),
            Some(Action::PutVerdict(..)) => self
                .verdicts
                .write(each!(run, Action::PutVerdict(key, it) => (*key, ChecksummedValue::new(key, *it)))),
            Some(Action::PutPorts(..)) => self
                .ports
                .write(each!(run, Action::PutPorts(element, classes) => (*element, *classes))),
            Some(Action::PutPeer(..)) => self.peers.write(
                each!(run, Action::PutPeer(epoch, prefix, entry) => (prefix_of(*epoch, *prefix), *entry)),
            ),
            Some(Action::PutEndpoint(..)) => self
                .endpoints
                .write(each!(run, Action::PutEndpoint(key, it) => (*key, ChecksummedValue::new(key, *it)))),
            Some(Action::PutRoot(_)) => self.root.write(each!(run, Action::PutRoot(root) => (0, *root))),
            Some(Action::DeleteEndpoint(_)) => self
                .endpoints
                .delete(each!(run, Action::DeleteEndpoint(key) => *key)),
            Some(Action::DeletePeer(..)) => self.peers.delete(
                each!(run, Action::DeletePeer(epoch, prefix) => prefix_of(*epoch, *prefix)),
            ),
            Some(Action::DeleteVerdict(_)) => self
                .verdicts
                .delete(each!(run, Action::DeleteVerdict(key) => *key)),
            Some(Action::DeleteRule(_)) => {
                self.rules.delete(each!(run, Action::DeleteRule(cookie) => *cookie))
            }
            Some(Action::Prune(_)) => {
                for action in run {
                    if let Action::Prune(epoch) = action {
                        self.retain(|of| of == *epoch)?;
                        self.clear_ports(!epoch & 1)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Removes what is under epochs that are not to stay.
    fn retain(&self, stays: impl Fn(u32) -> bool) -> Result<(), Error> {
        retain(&self.endpoints, |key| stays(key.epoch))?;
        retain(&self.verdicts, |key| stays(key.epoch))?;
        retain(&self.peers, |key| stays(key.range.number))
    }

    /// Says of ports that they are in no class, under epochs that share a half
    /// of the map.
    fn clear_ports(&self, half: u32) -> Result<(), Error> {
        let known = self.ports.entries()?.into_iter();
        let gone: Vec<_> = known
            .filter(|(element, classes)| {
                element / PortClasses::HALF == half && *classes != PortClasses::default()
            })
            .map(|(element, _)| (element, PortClasses::default()))
            .collect();
        self.ports.write(&gone)
    }

    fn clear_rules(&self) -> Result<(), Error> {
        retain(&self.rules, |_| false)
    }

    /// Does a program decide on all packets of this device, in both directions?
    #[must_use]
    pub fn is_guarded(&self, device: u32) -> bool {
        let hooks = [DeviceHook::GuardEgress, DeviceHook::GuardIngress];
        is_attached(&self.directory, device, &hooks)
    }

    /// Is an address's ruleset in the maps, for both directions?
    #[must_use]
    pub fn is_ready(&self, address: Address) -> bool {
        use ebpf_abi::policy::Direction;
        let epoch = self.policy_root().epoch;
        [Direction::INGRESS, Direction::EGRESS]
            .into_iter()
            .all(|direction| {
                let key = EndpointKey {
                    epoch,
                    direction,
                    address,
                };
                self.endpoint(&key)
                    .is_some_and(|sealed| sealed.open(&key).is_some())
            })
    }

    /// A rule's name.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn rule(&self, cookie: u32) -> Result<Option<String>, Error> {
        let name = self.rules.get(&cookie)?;
        Ok(name.map(|name| name.as_str().to_owned()))
    }

    /// Connections of guarded pods: what the pod sees, the pod first, and what
    /// was decided.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn flows(&self) -> Result<Vec<(Tuple, PolicyFlow)>, Error> {
        let entries = self.flows.entries()?.into_iter();
        Ok(entries
            .filter_map(|(key, entry)| Some((key, entry.flow.open(&key)?)))
            .collect())
    }

    /// How many entries there are, of all epochs.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn entries(&self) -> Result<PolicyEntries, Error> {
        Ok(PolicyEntries {
            peers: self.peers.entries()?.len(),
            endpoints: self.endpoints.entries()?.len(),
            verdicts: self.verdicts.entries()?.len(),
            rules: self.rules.entries()?.len(),
        })
    }
}

/// The maps as programs see them; what cannot be read is missing.
impl PolicyMaps for Policy {
    fn policy_root(&self) -> PolicyRoot {
        self.root().unwrap_or_default()
    }

    fn peer(&self, range: &Range) -> Option<PeerEntry> {
        let whole = Prefix {
            bits: Range::WHOLE,
            range: *range,
        };
        self.peers.get(&whole).ok().flatten()
    }

    fn endpoint(&self, key: &EndpointKey) -> Option<ChecksummedValue<EndpointPolicy>> {
        self.endpoints.get(key).ok().flatten()
    }

    fn ports(&self, element: u32) -> Option<PortClasses> {
        self.ports.get(&element).ok().flatten()
    }

    fn verdict(&self, key: &VerdictKey) -> Option<ChecksummedValue<PolicyVerdict>> {
        self.verdicts.get(key).ok().flatten()
    }
}

fn prefix_of(epoch: u32, prefix: Known) -> Prefix {
    Prefix {
        bits: 32 + u32::from(prefix.bits()),
        range: Range::new(epoch, prefix.address()),
    }
}

fn retain<K: Plain, V: Plain>(
    table: &Table<K, V>,
    stays: impl Fn(&K) -> bool,
) -> Result<(), Error> {
    let gone: Vec<K> = table
        .entries()?
        .into_iter()
        .map(|(key, _)| key)
        .filter(|key| !stays(key))
        .collect();
    table.delete(&gone)
}
