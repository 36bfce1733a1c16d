//! A program that stops during its decision while maps change.

use std::cell::{Cell, RefCell};

use ebpf_abi::policy::{
    EndpointKey, EndpointPolicy, PeerEntry, PolicyRoot, PolicyVerdict, PortClasses, VerdictKey,
};
use ebpf_abi::{ChecksummedValue, Range};
use ebpf_logic::policy::PolicyMaps;
use ebpf_logic::policy::model::PolicyModel;
use node_agent_policy::Action;

/// The most looks at maps that a decision takes.
pub const LOOKS: usize = 8;

/// Maps that change after some looks at them.
pub struct Halted<'a> {
    model: RefCell<PolicyModel>,
    looks: Cell<usize>,
    meanwhile: Cell<&'a [Action]>,
}

impl<'a> Halted<'a> {
    pub fn after(looks: usize, model: PolicyModel, meanwhile: &'a [Action]) -> Self {
        Self {
            model: RefCell::new(model),
            looks: Cell::new(looks),
            meanwhile: Cell::new(meanwhile),
        }
    }

    fn look(&self) -> std::cell::Ref<'_, PolicyModel> {
        match self.looks.get() {
            0 => {
                for action in self.meanwhile.take() {
                    action.apply(&mut self.model.borrow_mut());
                }
            }
            left => self.looks.set(left - 1),
        }
        self.model.borrow()
    }
}

impl PolicyMaps for Halted<'_> {
    fn policy_root(&self) -> PolicyRoot {
        self.look().policy_root()
    }

    fn peer(&self, range: &Range) -> Option<PeerEntry> {
        self.look().peer(range)
    }

    fn endpoint(&self, key: &EndpointKey) -> Option<ChecksummedValue<EndpointPolicy>> {
        self.look().endpoint(key)
    }

    fn ports(&self, element: u32) -> Option<PortClasses> {
        self.look().ports(element)
    }

    fn verdict(&self, key: &VerdictKey) -> Option<ChecksummedValue<PolicyVerdict>> {
        self.look().verdict(key)
    }
}
