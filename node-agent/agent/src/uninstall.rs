//! Removes the datapath from a machine: programs, maps, and what the agent
//! changed for them. `orlop reset` does so, too, with all else that a node has.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use node_agent_datapath::{InstalledPins, KernelNat, Retirement};
use tracing::info;

use crate::{
    Error, addresses,
    host_changes::{HostChanges, RecordedChanges},
    policy,
    services::{local_api, ports},
};

/// How often connections that are waited for are counted.
const COUNT_AGAIN: Duration = Duration::from_millis(250);

/// The datapath to remove, and how long to wait for its connections.
#[derive(Clone, Debug)]
pub struct Uninstall {
    /// Where programs and maps are pinned.
    pub pin_dir: PathBuf,
    /// The ports of translated clients, for an agent that recorded no changes.
    pub client_ports: (u16, u16),
    /// How long the programs go on serving the connections that they know, and only
    /// those.
    pub drain: Duration,
}

/// The result of an uninstall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UninstallReport {
    /// Whether there were programs or maps.
    pub found: bool,
    /// Connections that had not ended when the wait was over, and that are not
    /// translated any more.
    pub cut: usize,
}

/// Takes the datapath of an agent that has ended out of force and removes all that it
/// left on this machine. `waiting` gets the number of connections that are waited for.
/// It is fine if there is nothing.
///
/// # Errors
/// Before anything is changed: [`Error::NotRoot`], [`Error::WholeAgent`],
/// [`Error::Datapath`] while an agent runs. Afterwards [`Error::Left`].
pub fn uninstall_datapath(
    options: &Uninstall,
    mut waiting: impl FnMut(usize),
) -> Result<UninstallReport, Error> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let pins = &options.pin_dir;
    refuse_whole_agent(pins)?;
    let mut done = UninstallReport::default();
    let mut left = Vec::new();
    if let Some(retirement) = Retirement::begin(pins).map_err(Error::Datapath)? {
        done.found = true;
        done.cut = drain(&retirement, options.drain, &mut waiting).map_err(Error::Datapath)?;
        if let Err(error) = retirement.finish() {
            left.push(format!("the datapath ({error})"));
        }
    }
    // Where there was no datapath, what is reserved is not ours.
    let unrecorded = done.found.then_some(options.client_ports);
    remove_traces(pins, unrecorded, &mut left);
    if left.is_empty() {
        Ok(done)
    } else {
        Err(Error::Left(left.join(", ")))
    }
}

/// Describes what [`uninstall_datapath`] would remove. Changes nothing.
///
/// # Errors
/// [`Error::WholeAgent`], [`Error::Datapath`], [`Error::File`].
pub fn installed_datapath(options: &Uninstall) -> Result<Vec<String>, Error> {
    let pins = &options.pin_dir;
    refuse_whole_agent(pins)?;
    let mut lines = Vec::new();
    let installed = InstalledPins::find(pins).map_err(Error::Datapath)?;
    let unrecorded = installed.is_some().then_some(options.client_ports);
    if let Some(installed) = installed {
        for hook in &installed.socket_hooks {
            lines.push(format!("program at sockets: {hook}"));
        }
        for at in &installed.devices {
            let device = device_name(at.device);
            lines.push(format!("program at device {device}: {}", at.hook.label()));
        }
        lines.push(format!("{} maps below {}", installed.maps, pins.display()));
    }
    let changes = changes(pins, unrecorded)?;
    let reserved = ports::reserved(&changes.reserved_ports)?;
    if !reserved.is_empty() {
        lines.push(format!("reserved ports {reserved}"));
    }
    for mount in &changes.mounts {
        lines.push(format!("BPF filesystem at {}", mount.display()));
    }
    let socket = local_api::socket(pins);
    if socket.exists() {
        lines.push(format!("socket {}", socket.display()));
    }
    Ok(lines)
}

/// The network of pods depends on the datapath of a whole agent.
fn refuse_whole_agent(pins: &Path) -> Result<(), Error> {
    let sockets = [policy::socket(pins), addresses::socket(pins)];
    match sockets.into_iter().find(|socket| socket.exists()) {
        Some(socket) => Err(Error::WholeAgent(socket)),
        None => Ok(()),
    }
}

/// Waits until no connection depends on the programs, at most for `patience`; returns how
/// many still do.
fn drain(
    retirement: &Retirement,
    patience: Duration,
    waiting: &mut impl FnMut(usize),
) -> Result<usize, node_agent_datapath::Error> {
    if patience.is_zero() {
        return retirement.open_connections();
    }
    let removed = retirement.refuse_new_connections()?;
    info!(
        services = removed,
        "other components handle new connections"
    );
    let until = Instant::now() + patience;
    let mut renewed = Instant::now();
    loop {
        if renewed.elapsed() >= Retirement::RENEW_AFTER {
            retirement.renew_ports();
            renewed = Instant::now();
        }
        let open = retirement.open_connections()?;
        let rest = until.saturating_duration_since(Instant::now());
        if open == 0 || rest.is_zero() {
            return Ok(open);
        }
        waiting(open);
        sleep(COUNT_AGAIN.min(rest));
    }
}

/// Removes what the agent left beside programs and maps; `left` gets what remains.
/// `unrecorded` are the ports that an agent reserved which recorded no changes.
pub(crate) fn remove_traces(pins: &Path, unrecorded: Option<(u16, u16)>, left: &mut Vec<String>) {
    if let Err(error) = KernelNat::drop_anchor() {
        left.push(format!("what keeps kube-proxy's connections ({error})"));
    }
    if let Err(error) = local_api::remove(pins) {
        left.push(format!("the agent's socket ({error})"));
    }
    let undone = changes(pins, unrecorded).and_then(|changes| {
        ports::release(&changes.reserved_ports)?;
        changes.mounts.iter().try_for_each(|it| unmount(it))?;
        HostChanges::at(pins).forget()
    });
    if let Err(error) = undone {
        left.push(format!("changed settings ({error})"));
    }
    if let Some(folder) = local_api::socket(pins).parent() {
        // not empty when there are those of another agent
        let _ = fs::remove_dir(folder);
    }
}

/// What is to be undone: what was recorded, or what an agent that recorded nothing does.
fn changes(pins: &Path, unrecorded: Option<(u16, u16)>) -> Result<RecordedChanges, Error> {
    let ports = || {
        unrecorded
            .into_iter()
            .flat_map(|(first, last)| first..=last)
    };
    let recorded = HostChanges::at(pins).read()?;
    Ok(recorded.unwrap_or_else(|| RecordedChanges {
        reserved_ports: ports().collect(),
        mounts: BTreeSet::new(),
    }))
}

/// Unmounts a BPF filesystem of ours, unless others pin there, too.
fn unmount(place: &Path) -> Result<(), Error> {
    let others = fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_some());
    if others {
        return Ok(());
    }
    match nix::mount::umount(place) {
        // EINVAL: somebody has unmounted it already.
        Ok(()) | Err(nix::Error::EINVAL | nix::Error::ENOENT) => Ok(()),
        Err(errno) => Err(Error::file("unmount", place)(errno.into())),
    }
}

fn device_name(index: u32) -> String {
    nix::net::if_::if_indextoname(index).map_or_else(
        |_| format!("{index} (gone)"),
        |name| name.to_string_lossy().into_owned(),
    )
}
