//! What mutating admission remembers from one round to the next.

use control_types::value::Value;
use rustc_hash::FxHashSet;

/// The memory of a request's mutating admission.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    again: bool,
    second: bool,
    pub(super) managers: Option<Value>,
    pub(super) policies: PolicyMemory,
    pub(super) webhooks: WebhookMemory,
}

/// A policy, a binding and a parameter, by their names.
pub(super) type InvocationKey = (String, String, String);

/// What policies remember.
#[derive(Debug, Default)]
pub(super) struct PolicyMemory {
    /// Asked, and to be asked again when others change the object behind them.
    pub invoked: Vec<InvocationKey>,
    /// To be asked again.
    pub again: Vec<InvocationKey>,
    /// What policies left, to tell whether others changed it since.
    pub left: Option<Value>,
}

/// State that webhooks keep between the rounds of one request.
#[derive(Debug, Default)]
pub(super) struct WebhookMemory {
    /// The object as the last webhook left it.
    pub left: Option<Value>,
    /// Webhooks that want to see later changes, asked since the last change.
    pub asked: FxHashSet<String>,
    /// Those of `asked` that are called again, since the object changed after their call.
    pub due: FxHashSet<String>,
}

impl Rounds {
    /// Whether all steps are asked for the second time.
    pub(super) fn is_reinvocation(&self) -> bool {
        self.second
    }

    /// Whether somebody asked for a second round.
    pub(super) fn is_to_be_repeated(&self) -> bool {
        self.again
    }

    /// Asks for a second round: somebody changed the object whose change others may
    /// want to see. There is no third.
    pub(super) fn ask_again(&mut self) {
        self.again = true;
    }

    /// Begins the next round, if there is to be one.
    pub(super) fn next(&mut self) -> bool {
        let next = self.again && !self.second;
        self.second |= next;
        next
    }
}

impl PolicyMemory {
    /// Somebody changed the object: who was asked before is to be asked again.
    pub fn repeat(&mut self) {
        let invoked = std::mem::take(&mut self.invoked);
        for key in invoked {
            if !self.again.contains(&key) {
                self.again.push(key);
            }
        }
    }
}

impl WebhookMemory {
    /// Somebody changed the object: who was asked before is due once more.
    pub fn repeat(&mut self) {
        self.due.extend(self.asked.drain());
    }
}
