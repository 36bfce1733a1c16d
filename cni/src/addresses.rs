//! Allocates a pod's addresses: through the node's agent, or without one from the ranges
//! of the configuration. Listing and releasing need no agent: both use one [`Store`].

use std::{fs::File, io::ErrorKind, net::IpAddr, os::fd::AsFd, path::Path, time::Duration};

use cni_addresses::{
    Holder, Pool, Store,
    wire::{self, Attach, AttachedInterface, Question},
};

use crate::{agent::Pod, config::Settings, error::Error};

/// The store of a network.
pub(crate) fn store(settings: &Settings, network: &str) -> Result<Store, Error> {
    Store::open(&settings.data_dir, network).map_err(Error::Addresses)
}

/// Addresses for an interface: those that it has, else those `wanted`, else free
/// ones.
pub(crate) fn take(
    settings: &Settings,
    network: &str,
    holder: &Holder,
    wanted: Vec<IpAddr>,
) -> Result<Vec<IpAddr>, Error> {
    let Some(socket) = &settings.addresses else {
        return store(settings, network)?
            .take(&pool(settings), &wanted, holder)
            .map_err(Error::Addresses);
    };
    let Pod {
        namespace, name, ..
    } = Pod::from_env()?;
    let question = Question::Take {
        holder: holder.clone(),
        pod: wire::Pod { namespace, name },
        wanted,
    };
    ask(socket, &question, wire::PATIENCE, Error::Later)
}

/// An interface that the agent created.
pub(crate) struct CreatedInterface {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) ends: AttachedInterface,
}

/// The reason why the agent created no interface.
pub(crate) enum InterfaceFailure {
    /// It refused, or could not be asked: nothing is left.
    Nothing(Error),
    /// It was asked, and did not answer: something may be left.
    Something(Error),
}

/// Lets the agent create an interface.
pub(crate) fn attach(
    socket: &Path,
    question: Attach,
    netns: &File,
) -> Result<CreatedInterface, InterfaceFailure> {
    let question = Question::Attach(question);
    let asked = wire::ask_with(socket, &question, Some(netns.as_fd()), wire::PATIENCE);
    let answer: wire::Answer = asked.map_err(|error| {
        let nobody = [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&error.kind());
        let error = Error::Later(format!(
            "the node agent does not answer at `{}`: {error}",
            socket.display()
        ));
        if nobody {
            InterfaceFailure::Nothing(error)
        } else {
            InterfaceFailure::Something(error)
        }
    })?;
    match (answer.refused, answer.attached) {
        (Some(refusal), _) => Err(InterfaceFailure::Nothing(Error::Refused(refusal))),
        (None, Some(ends)) => Ok(CreatedInterface {
            addresses: answer.addresses,
            ends,
        }),
        (None, None) => Err(InterfaceFailure::Something(Error::Later(
            "the node agent's answer has no interface".to_owned(),
        ))),
    }
}

/// Lets the agent remove the interface and release its addresses; returns false if it did
/// not.
pub(crate) fn release(settings: &Settings, holder: &Holder) -> bool {
    let question = Question::Release {
        holder: holder.clone(),
    };
    settings
        .addresses
        .as_ref()
        .is_some_and(|socket| ask(socket, &question, wire::SHORT, Error::Later).is_ok())
}

/// Whether a pod could get addresses now.
pub(crate) fn status(settings: &Settings, network: &str) -> Result<(), Error> {
    let Some(socket) = &settings.addresses else {
        if settings.ranges.is_empty() {
            return Err(Error::NotReady("`ranges` is empty".to_owned()));
        }
        let room = store(settings, network)?.room(&pool(settings));
        return room.map_err(|error| match error {
            cni_addresses::Error::Exhausted { .. } => Error::Refused(wire::Refusal {
                code: wire::EMPTY,
                reason: error.to_string(),
            }),
            other => Error::Addresses(other),
        });
    };
    ask(socket, &Question::Status, wire::PATIENCE, Error::NotReady).map(drop)
}

/// Asks the agent; `away` is the error if it is not there.
fn ask(
    socket: &Path,
    question: &Question,
    patience: Duration,
    away: impl FnOnce(String) -> Error,
) -> Result<Vec<IpAddr>, Error> {
    let answer: wire::Answer = wire::request(socket, question, patience).map_err(|error| {
        away(format!(
            "the node agent does not answer at `{}`: {error}",
            socket.display()
        ))
    })?;
    match answer.refused {
        Some(refusal) => Err(Error::Refused(refusal)),
        None => Ok(answer.addresses),
    }
}

fn pool(settings: &Settings) -> Pool {
    Pool {
        name: "ranges".to_owned(),
        ranges: settings.ranges.clone(),
    }
}
