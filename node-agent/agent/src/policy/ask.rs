//! What others ask the task that owns the compiler.

use std::sync::Arc;

use ebpf_abi::FlowRecord;
use tokio::sync::{mpsc, oneshot};

use super::{
    state::State,
    why::{Account, Question},
};
use crate::flows::{Known, known};

/// Questions that wait at once; more wait to be sent.
const CROWD: usize = 16;

/// A question, and where its answer goes.
#[derive(Debug)]
pub enum Ask {
    /// Who and what rule each record is about.
    Names(Arc<Vec<FlowRecord>>, oneshot::Sender<Vec<Known>>),
    /// Why a flow is decided as it is.
    Why(Question, oneshot::Sender<Account>),
}

/// A channel for questions.
pub fn asks() -> (mpsc::Sender<Ask>, mpsc::Receiver<Ask>) {
    mpsc::channel(CROWD)
}

impl State {
    /// Answers; who asked may have gone.
    pub(super) fn answer(&self, ask: Ask) {
        match ask {
            Ask::Names(records, answer) => {
                let names = records.iter().map(|it| known(&self.compiler, it));
                let _ = answer.send(names.collect());
            }
            Ask::Why(question, answer) => {
                let _ = answer.send(self.account(&question));
            }
        }
    }

    fn account(&self, question: &Question) -> Account {
        let Question {
            from,
            to,
            protocol,
            port,
        } = *question;
        let explained = self.compiler.explain(from, to, protocol, port);
        let root = self.writer.maps.root().unwrap_or_default();
        Account {
            complete: self.sound,
            epoch: root.epoch,
            generation: root.generation,
            ..Account::of(&self.node, question, &explained, |asked| {
                Some(self.writer.maps.walk(asked))
            })
        }
    }
}
