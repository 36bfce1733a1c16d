//! What others ask the task that owns the compiler.

use std::sync::Arc;

use ebpf_abi::FlowRecord;
use tokio::sync::{mpsc, oneshot};

use super::{
    explain::{DecisionAccount, FlowQuestion},
    state::PolicyState,
};
use crate::flows::{PolicyNames, known};

/// Questions that wait at once; more wait to be sent.
const CROWD: usize = 16;

/// A query of network policy's task, with the channel of its answer.
#[derive(Debug)]
pub enum PolicyQuery {
    /// Who and what rule each record is about.
    Names(Arc<Vec<FlowRecord>>, oneshot::Sender<Vec<PolicyNames>>),
    /// Why a flow is decided as it is.
    Why(FlowQuestion, oneshot::Sender<DecisionAccount>),
}

/// A channel for questions.
pub fn query_channel() -> (mpsc::Sender<PolicyQuery>, mpsc::Receiver<PolicyQuery>) {
    mpsc::channel(CROWD)
}

impl PolicyState {
    /// Answers; who asked may have gone.
    pub(super) fn answer(&self, ask: PolicyQuery) {
        match ask {
            PolicyQuery::Names(records, answer) => {
                let names = records.iter().map(|it| known(&self.compiler, it));
                let _ = answer.send(names.collect());
            }
            PolicyQuery::Why(question, answer) => {
                let _ = answer.send(self.account(&question));
            }
        }
    }

    fn account(&self, question: &FlowQuestion) -> DecisionAccount {
        let FlowQuestion {
            from,
            to,
            protocol,
            port,
        } = *question;
        let explained = self.compiler.explain(from, to, protocol, port);
        let root = self.writer.maps.root().unwrap_or_default();
        DecisionAccount {
            complete: self.sound,
            epoch: root.epoch,
            generation: root.generation,
            ..DecisionAccount::explain(&self.node, question, &explained, |asked| {
                Some(self.writer.maps.walk(asked))
            })
        }
    }
}
