//! Links of programs to network devices.
//!
//! On kernels that have tcx (6.6) a hook is a link, pinned as
//! `<version>/links/devices/<hook>-<index>`; a restart replaces its program in
//! place. Older kernels get a filter of a `clsact` qdisc instead, with an
//! empty directory of that name as the mark that it is ours. A device that
//! goes takes its links and filters along; what is left of them here is
//! removed at the next look.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use aya::Ebpf;
use aya::programs::links::Link;
use aya::programs::tc::{NlOptions, SchedClassifierLink, TcAttachOptions, TcHandle};

use aya::programs::{Program, ProgramError, SchedClassifier, TcAttachType};

use crate::devices::{
    Attachment, Change, Device, DeviceHook, XdpMode, difference, expedited_rcu::ExpeditedRcuGuard,
};
use crate::error::Error;
use crate::links::Cost;
use crate::loader::{self, Source};
use crate::netlink::{ACK, Socket};
use crate::pins::{DEVICE_LINKS, LINKS};
use crate::sys::{self, DeviceAttach};

/// The places of our filters among others of a `clsact` qdisc: how much a pod
/// sends, what services translate, what the host firewall decides on, how much a pod
/// gets.
const fn priority(hook: DeviceHook) -> u16 {
    match hook {
        DeviceHook::LimitIngress => 1,
        DeviceHook::HostEgress | DeviceHook::HostIngress => 3,
        DeviceHook::LimitEgress => 4,
        _ => 2,
    }
}

/// The places that they had before there were limits, which had none.
const fn former_priority(hook: DeviceHook) -> Option<u16> {
    match hook {
        DeviceHook::LimitEgress | DeviceHook::LimitIngress => None,
        _ => Some(priority(hook) - 1),
    }
}
const HANDLE: u32 = 0x6f72;
/// Name of the mark of a qdisc that we made.
const QDISC: &str = "clsact";

const EINVAL: i32 = 22;
const EOPNOTSUPP: i32 = 95;
const EBUSY: i32 = 16;
const ENODEV: i32 = 19;

/// How tc programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcWay {
    /// By tcx, or by a qdisc where the kernel has none.
    #[default]
    Auto,
    /// By a qdisc: for kernels whose tcx is not to be used.
    Qdisc,
}

/// The result of attaching a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A pinned link.
    Link,
    /// A filter of a qdisc.
    Filter,
}

/// A program loaded into the kernel.
#[derive(Debug)]
struct LoadedProgram {
    fd: OwnedFd,
    /// The same for filters of qdiscs; XDP has none.
    classifier: Option<SchedClassifier>,
}

/// The programs for devices and where they run.
#[derive(Debug)]
pub(crate) struct DeviceLinks {
    /// Those that a device needed so far.
    programs: BTreeMap<DeviceHook, LoadedProgram>,
    /// What the others are made of.
    source: Option<Source>,
    directory: PathBuf,
    way: TcWay,
    attached: BTreeMap<Attachment, Kind>,
    /// Devices that refuse a hook, so that it is said once.
    refused: BTreeSet<Attachment>,
}

/// The changes that a comparison made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttachSummary {
    /// Hooks at which programs run now.
    pub attached: usize,
    /// Changes that were made.
    pub changed: usize,
    /// Hooks that could not be attached.
    pub failed: usize,
}

// === impl DeviceLinks ===

impl DeviceLinks {
    /// Takes programs for devices out of an object whose programs were
    /// verified; others are made of `source` when a device needs them.
    pub(crate) fn summarize(
        ebpf: &mut Ebpf,
        hooks: &BTreeSet<DeviceHook>,
        source: Source,
        directory: &Path,
        way: TcWay,
    ) -> Result<(Self, Vec<Cost>), Error> {
        let mut links = Self::new(BTreeMap::new(), directory, way);
        links.source = Some(source);
        let costs = links.take(ebpf, hooks)?;
        Ok((links, costs))
    }

    /// The hooks at which an earlier process left links.
    pub(crate) fn pinned(directory: &Path) -> Result<BTreeSet<DeviceHook>, Error> {
        fs::create_dir_all(directory).map_err(|source| Error::File {
            verb: "create",
            path: directory.to_owned(),
            source,
        })?;
        let names = pins(directory)?;
        Ok(names
            .iter()
            .filter_map(|(name, _)| parse(name).map(|at| at.hook))
            .collect())
    }

    /// Loads the programs of hooks that have none yet. Each takes the verifier
    /// a twentieth of a second, and most nodes need two of five.
    pub(crate) fn load(&mut self, hooks: &BTreeSet<DeviceHook>) -> Result<Vec<Cost>, Error> {
        let missing: BTreeSet<_> = hooks
            .iter()
            .filter(|hook| !self.programs.contains_key(hook))
            .copied()
            .collect();
        let Some(source) = self.source.as_ref().filter(|_| !missing.is_empty()) else {
            return Ok(Vec::new());
        };
        let mut ebpf = source.load(&[])?;
        let names: Vec<_> = missing.iter().map(|hook| hook.program()).collect();
        loader::verify(&mut ebpf, &names)?;
        self.take(&mut ebpf, &missing)
    }

    fn take(&mut self, ebpf: &mut Ebpf, hooks: &BTreeSet<DeviceHook>) -> Result<Vec<Cost>, Error> {
        let mut costs = Vec::new();
        for hook in DeviceHook::ALL.into_iter().filter(|it| hooks.contains(it)) {
            let Some(program) = ebpf.program_mut(hook.program()) else {
                return Err(not_for_devices(hook));
            };
            let failed = |source| Error::Program {
                verb: "use",
                program: hook.program(),
                source: Box::new(source),
            };
            let info = match program {
                Program::SchedClassifier(program) => program.info(),
                Program::Xdp(program) => program.info(),
                _ => return Err(not_for_devices(hook)),
            };
            costs.push(Cost::from_info(hook.label(), &info.map_err(failed)?));
            let loaded = LoadedProgram::of(program, hook, &self.directory)?;
            self.programs.insert(hook, loaded);
        }
        Ok(costs)
    }

    fn new(programs: BTreeMap<DeviceHook, LoadedProgram>, directory: &Path, way: TcWay) -> Self {
        Self {
            programs,
            source: None,
            directory: directory.to_owned(),
            way,
            attached: BTreeMap::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Adopts what an earlier process pinned: the programs are replaced in
    /// place, so that no packet meets a device without one.
    pub(crate) fn adopt(&mut self) -> Result<(), Error> {
        fs::create_dir_all(&self.directory).map_err(self.file("create"))?;
        ExpeditedRcuGuard::end_former(&self.directory);
        // In the order of their names, in which the host's filters leave their former
        // place before those of services come to it.
        for (name, path) in pins(&self.directory)? {
            let Some(at) = parse(&name) else { continue };
            let kind = if path.is_dir() {
                Kind::Filter
            } else {
                Kind::Link
            };
            let adopted = match kind {
                Kind::Link => self.replace(at, &path)?,
                Kind::Filter => self.filter(at, false).is_ok() || self.renumber(at).is_ok(),
            };
            if adopted {
                tracing::debug!(
                    device = at.device,
                    hook = at.hook.label(),
                    "replaced program"
                );
                self.attached.insert(at, kind);
            } else {
                forget(&path, kind)?;
            }
        }
        Ok(())
    }

    /// Brings the devices' hooks, whose programs are loaded, to what is wanted, as
    /// [`desired`](crate::devices::desired) says. A device that
    /// refuses one is named and left as it is; the rest goes on.
    pub(crate) fn follow(
        &mut self,
        devices: &[Device],
        wanted: &BTreeSet<Attachment>,
        xdp: XdpMode,
    ) -> Result<AttachSummary, Error> {
        // The kernel gives a new device the next number, until it has counted
        // once around: a pin may outlive its device.
        let there: BTreeSet<u32> = devices.iter().map(|device| device.index).collect();
        let gone: Vec<_> = self
            .attached
            .keys()
            .filter(|at| !there.contains(&at.device))
            .copied()
            .collect();
        let mut followed = AttachSummary::default();
        for at in gone {
            if let Some(kind) = self.attached.remove(&at) {
                forget(&self.path(at), kind)?;
                followed.changed += 1;
            }
        }
        self.refused.retain(|at| wanted.contains(at));
        let attached: BTreeSet<_> = self.attached.keys().copied().collect();
        let changes = difference(&attached, wanted);
        let _hurry = (!changes.is_empty())
            .then(|| ExpeditedRcuGuard::begin(&self.directory))
            .flatten();
        for change in changes {
            match change {
                Change::Attach(at) => {
                    let name = devices.iter().find(|device| device.index == at.device);
                    let name = name.map_or("", |device| device.name.as_str());
                    match self.attach(at, xdp) {
                        Ok(kind) => {
                            tracing::info!(
                                device = name,
                                hook = at.hook.label(),
                                "attached program"
                            );
                            self.attached.insert(at, kind);
                            self.refused.remove(&at);
                            followed.changed += 1;
                        }
                        Err(error) => {
                            followed.failed += 1;
                            if self.refused.insert(at) {
                                tracing::warn!(
                                    device = name,
                                    hook = at.hook.label(),
                                    error = &error as &dyn std::error::Error,
                                    "failed to attach the program to the device"
                                );
                            }
                        }
                    }
                }
                Change::Detach(at) => {
                    if let Some(kind) = self.attached.remove(&at) {
                        self.detach(at, kind)?;
                        followed.changed += 1;
                        tracing::info!(
                            device = at.device,
                            hook = at.hook.label(),
                            "detached program"
                        );
                    }
                }
            }
        }
        followed.attached = self.attached.len();
        Ok(followed)
    }

    /// Where programs run.
    pub(crate) fn attached(&self) -> impl Iterator<Item = Attachment> + '_ {
        self.attached.keys().copied()
    }

    fn attach(&mut self, at: Attachment, xdp: XdpMode) -> Result<Kind, Error> {
        let path = self.path(at);
        let program = self.fd(at.hook)?;
        let link = match (at.hook, xdp) {
            (DeviceHook::Xdp, XdpMode::Generic) => create(program, at, DeviceAttach::XdpGeneric),
            (DeviceHook::Xdp, mode) => {
                let native = create(program, at, DeviceAttach::XdpNative);
                match native {
                    Err(error)
                        if mode == XdpMode::NativeOrGeneric
                            && matches!(error.raw_os_error(), Some(EOPNOTSUPP | EINVAL)) =>
                    {
                        create(program, at, DeviceAttach::XdpGeneric)
                    }
                    native => native,
                }
            }
            _ if self.way == TcWay::Qdisc => Err(io::Error::from_raw_os_error(EINVAL)),
            (DeviceHook::LimitIngress, _) => create(program, at, DeviceAttach::TcxIngressFirst),
            (hook, _) if hook.is_ingress() => create(program, at, DeviceAttach::TcxIngress),
            _ => create(program, at, DeviceAttach::TcxEgress),
        };
        let failed = |source| Error::Device {
            verb: "attach",
            program: at.hook.program(),
            device: at.device,
            source,
        };
        match link {
            Ok(link) => {
                sys::pin(link.as_fd(), &path).map_err(|source| Error::Link {
                    verb: "pin",
                    path,
                    source,
                })?;
                Ok(Kind::Link)
            }
            // Kernels before 6.6 know no such type of link.
            Err(error) if at.hook != DeviceHook::Xdp && error.raw_os_error() == Some(EINVAL) => {
                self.filter(at, true).map_err(failed)?;
                Ok(Kind::Filter)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Moves a filter from its former place: for a moment there are both, and no
    /// packet meets a device without one.
    fn renumber(&mut self, at: Attachment) -> io::Result<()> {
        let name = sys::device_name(at.device)?;
        let loaded = self.programs.get_mut(&at.hook);
        let Some(program) = loaded.and_then(|loaded| loaded.classifier.as_mut()) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let handle = TcHandle::from(HANDLE);
        let place = former_priority(at.hook).ok_or(io::ErrorKind::NotFound)?;
        let link = SchedClassifierLink::attached(&name, side(at.hook), place, handle, None)
            .map_err(ProgramError::from)
            .and_then(|link| program.attach_to_link(link))
            .and_then(|id| program.take_link(id))
            .map_err(io::Error::other)?;
        let moved = self.filter(at, true);
        if moved.is_err() {
            let _ = std::mem::ManuallyDrop::new(link);
            return moved;
        }
        link.detach().map_err(io::Error::other)
    }

    /// Puts the program into the filter of a qdisc; `new` makes both.
    fn filter(&mut self, at: Attachment, new: bool) -> io::Result<()> {
        let name = sys::device_name(at.device)?;
        let side = side(at.hook);
        if new {
            let mark = self.directory.join(format!("{QDISC}-{}", at.device));
            match aya::programs::tc::qdisc_add_clsact(&name) {
                Ok(()) => fs::create_dir_all(mark)?,
                Err(error) => {
                    // There is one already, ours or another's.
                    tracing::debug!(device = name, %error, "the qdisc exists already");
                }
            }
            let path = self.path(at);
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let loaded = self.programs.get_mut(&at.hook);
        let Some(program) = loaded.and_then(|loaded| loaded.classifier.as_mut()) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let handle = TcHandle::from(HANDLE);
        let replaced = SchedClassifierLink::attached(&name, side, priority(at.hook), handle, None)
            .map_err(ProgramError::from)
            .and_then(|link| program.attach_to_link(link));
        let id = match replaced {
            Ok(id) => id,
            Err(error) if !new => return Err(io::Error::other(error)),
            Err(_) => {
                let options = TcAttachOptions::Netlink(NlOptions {
                    priority: priority(at.hook),
                    handle,
                    ..NlOptions::default()
                });
                program
                    .attach_with_options(&name, side, options)
                    .map_err(io::Error::other)?
            }
        };
        // A link that is dropped detaches; this one is to stay.
        let link = program.take_link(id).map_err(io::Error::other)?;
        let _ = std::mem::ManuallyDrop::new(link);
        Ok(())
    }

    fn detach(&self, at: Attachment, kind: Kind) -> Result<(), Error> {
        detach(&self.directory, at, kind)
    }

    fn replace(&self, at: Attachment, path: &Path) -> Result<bool, Error> {
        let broken = |verb| {
            let path = path.to_owned();
            move |source| Error::Link { verb, path, source }
        };
        if !self.programs.contains_key(&at.hook) {
            return Ok(false);
        }
        let link = sys::open_pinned(path).map_err(broken("open"))?;
        // A device that is gone has no index, and one of its number is not it.
        let index = sys::device_of_link(link.as_fd()).map_err(broken("inspect"))?;
        if index != at.device {
            return Ok(false);
        }
        match sys::update_link(link.as_fd(), self.fd(at.hook)?) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(ENODEV) => Ok(false),
            Err(error) => Err(broken("update")(error)),
        }
    }

    fn fd(&self, hook: DeviceHook) -> Result<BorrowedFd<'_>, Error> {
        let missing = || Error::Object {
            what: format!("program `{}`", hook.program()),
        };
        let loaded = self.programs.get(&hook).ok_or_else(missing)?;
        Ok(loaded.fd.as_fd())
    }

    fn path(&self, at: Attachment) -> PathBuf {
        self.directory.join(name(at))
    }

    fn file(&self, verb: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = self.directory.clone();
        move |source| Error::File { verb, path, source }
    }
}

/// Do programs run at all of these hooks of a device? As the pins below a version's
/// directory say.
pub(crate) fn is_attached(version: &Path, device: u32, hooks: &[DeviceHook]) -> bool {
    let links = version.join(LINKS).join(DEVICE_LINKS);
    hooks.iter().all(|hook| {
        let path = links.join(name(Attachment {
            device,
            hook: *hook,
        }));
        if path.is_dir() {
            return true;
        }
        sys::open_pinned(&path)
            .and_then(|link| sys::device_of_link(link.as_fd()))
            .is_ok_and(|index| index == device)
    })
}

/// At which hooks of devices programs run, as the pins in `directory` say.
pub(crate) fn attachments(directory: &Path) -> Result<Vec<Attachment>, Error> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let pins = pins(directory)?;
    Ok(pins.iter().filter_map(|(name, _)| parse(name)).collect())
}

/// Takes all programs off devices, and removes the pins below `directory`.
pub(crate) fn remove(directory: &Path) -> Result<(), Error> {
    if !directory.is_dir() {
        return Ok(());
    }
    ExpeditedRcuGuard::end_former(directory);
    let hurry = ExpeditedRcuGuard::begin(directory);
    let mut found: Vec<(Attachment, Kind)> = Vec::new();
    for (name, path) in pins(directory)? {
        if let Some(at) = parse(&name) {
            found.push((
                at,
                if path.is_dir() {
                    Kind::Filter
                } else {
                    Kind::Link
                },
            ));
        }
    }
    let rank = |at: &Attachment| DeviceHook::ALL.iter().position(|hook| *hook == at.hook);
    found.sort_by_key(|(at, _)| std::cmp::Reverse(rank(at)));
    for (at, kind) in found {
        detach(directory, at, kind)?;
    }
    drop(hurry);
    for (_, path) in pins(directory)? {
        fs::remove_dir(&path).map_err(|source| Error::File {
            verb: "remove",
            path,
            source,
        })?;
    }
    fs::remove_dir(directory).map_err(|source| Error::File {
        verb: "remove",
        path: directory.to_owned(),
        source,
    })
}

fn detach(directory: &Path, at: Attachment, kind: Kind) -> Result<(), Error> {
    let path = directory.join(name(at));
    match kind {
        Kind::Link => {
            let broken = |verb| {
                let path = path.clone();
                move |source| Error::Link { verb, path, source }
            };
            let link = sys::open_pinned(&path).map_err(broken("open"))?;
            match sys::detach_link(link.as_fd()) {
                // The device took it along.
                Err(error) if !matches!(error.raw_os_error(), Some(ENODEV | EINVAL)) => {
                    return Err(broken("detach")(error));
                }
                _ => {}
            }
        }
        Kind::Filter => {
            if let Ok(device) = sys::device_name(at.device)
                && let Ok(link) = SchedClassifierLink::attached(
                    &device,
                    side(at.hook),
                    priority(at.hook),
                    TcHandle::from(HANDLE),
                    None,
                )
                && let Err(error) = link.detach()
            {
                tracing::debug!(device, %error, "the filter was already removed");
            }
        }
    }
    forget(&path, kind)?;
    if kind == Kind::Filter {
        remove_qdisc(directory, at.device)?;
    }
    Ok(())
}

/// Removes the qdisc of a device if we made it and use it no more.
fn remove_qdisc(directory: &Path, device: u32) -> Result<(), Error> {
    let mark = directory.join(format!("{QDISC}-{device}"));
    let used = DeviceHook::ALL
        .into_iter()
        .any(|hook| directory.join(name(Attachment { device, hook })).is_dir());
    if used || !mark.is_dir() {
        return Ok(());
    }
    if let Err(error) = delete_clsact(device) {
        tracing::debug!(device, %error, "the qdisc was already removed");
    }
    forget(&mark, Kind::Filter)
}

/// `RTM_DELQDISC` of a device's `clsact` (rtnetlink(7)).
fn delete_clsact(device: u32) -> io::Result<()> {
    const RTM_DELQDISC: u16 = 37;
    const TC_H_CLSACT: u32 = 0xffff_fff1;
    const CLSACT_HANDLE: u32 = 0xffff_0000;
    let mut body = vec![0_u8; 4];
    body.extend(device.to_ne_bytes());
    body.extend(CLSACT_HANDLE.to_ne_bytes());
    body.extend(TC_H_CLSACT.to_ne_bytes());
    body.extend(0_u32.to_ne_bytes());
    Socket::open(None)?.request(RTM_DELQDISC, ACK, &body, |_| {})
}

// === impl Loaded ===

impl LoadedProgram {
    /// The program by itself, so that the object with the bytes of all programs
    /// need not stay in memory.
    fn of(program: &mut Program, hook: DeviceHook, directory: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Program {
            verb: "use",
            program: hook.program(),
            source: Box::new(source),
        };
        let own = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map_err(ProgramError::IOError);
        match program {
            Program::SchedClassifier(program) => {
                let fd = program
                    .fd()
                    .and_then(|fd| own(fd.as_fd()))
                    .map_err(failed)?;
                // aya gives a program away only by a pin. One may be left by a
                // process that was killed right here.
                let path = directory.join(hook.program());
                forget(&path, Kind::Link)?;
                sys::pin(fd.as_fd(), &path)
                    .map_err(|error| failed(ProgramError::IOError(error)))?;
                let classifier = SchedClassifier::from_pin(&path);
                forget(&path, Kind::Link)?;
                Ok(Self {
                    fd,
                    classifier: Some(classifier.map_err(failed)?),
                })
            }
            Program::Xdp(program) => Ok(Self {
                fd: program
                    .fd()
                    .and_then(|fd| own(fd.as_fd()))
                    .map_err(failed)?,
                classifier: None,
            }),
            _ => Err(not_for_devices(hook)),
        }
    }
}

fn not_for_devices(hook: DeviceHook) -> Error {
    Error::Object {
        what: format!("a program for devices named `{}`", hook.program()),
    }
}

fn create(program: BorrowedFd<'_>, at: Attachment, how: DeviceAttach) -> io::Result<OwnedFd> {
    match sys::create_device_link(program, at.device, how) {
        Err(error) if error.raw_os_error() == Some(EBUSY) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another program is at the device's XDP hook already",
        )),
        other => other,
    }
}

fn forget(path: &Path, kind: Kind) -> Result<(), Error> {
    let removed = match kind {
        Kind::Link => fs::remove_file(path),
        Kind::Filter => fs::remove_dir(path),
    };
    match removed {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::File {
            verb: "remove",
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}

fn pins(directory: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let failed = |source| Error::File {
        verb: "read",
        path: directory.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        found.push((
            entry.file_name().to_string_lossy().into_owned(),
            entry.path(),
        ));
    }
    found.sort();
    Ok(found)
}

fn name(at: Attachment) -> String {
    format!("{}-{}", at.hook.label(), at.device)
}

fn parse(name: &str) -> Option<Attachment> {
    let (label, index) = name.rsplit_once('-')?;
    Some(Attachment {
        device: index.parse().ok()?,
        hook: DeviceHook::of_label(label)?,
    })
}

const fn side(hook: DeviceHook) -> TcAttachType {
    if hook.is_ingress() {
        TcAttachType::Ingress
    } else {
        TcAttachType::Egress
    }
}

#[cfg(test)]
mod tests;
