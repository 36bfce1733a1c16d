//! One pinned link per hook.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use aya::Ebpf;
use aya::programs::links::FdLink;
use aya::programs::{CgroupAttachMode, CgroupSockAddr, Program, ProgramInfo};

use crate::error::Error;
use crate::sys;

/// Name of the program in the object, and of its link below the pin directory.
const HOOKS: [(&str, &str); 10] = [
    // Replies first: no socket is to be translated whose replies are not.
    ("orlop_recvmsg4", "recvmsg4"),
    ("orlop_recvmsg6", "recvmsg6"),
    ("orlop_getpeer4", "getpeername4"),
    ("orlop_getpeer6", "getpeername6"),
    ("orlop_sendmsg4", "sendmsg4"),
    ("orlop_sendmsg6", "sendmsg6"),
    ("orlop_connect4", "connect4"),
    ("orlop_connect6", "connect6"),
    ("orlop_bind4", "bind4"),
    ("orlop_bind6", "bind6"),
];

/// Run time statistics of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The hook.
    pub hook: &'static str,
    /// Instructions that the verifier walked through, over all paths; zero if
    /// the kernel does not say. Its limit is a million.
    pub verified: u32,
    /// Instructions that are left after it removed what cannot be reached.
    pub instructions: u32,
}

/// The programs' names.
pub(crate) fn programs() -> impl Iterator<Item = &'static str> {
    HOOKS.iter().map(|(program, _)| *program)
}

/// What the verified programs cost.
pub(crate) fn costs(ebpf: &mut Ebpf) -> Result<Vec<Cost>, Error> {
    let mut costs = Vec::with_capacity(HOOKS.len());
    for (program, hook) in HOOKS {
        let failed = |source| Error::Program {
            verb: "use",
            program,
            source: Box::new(source),
        };
        let info = find(ebpf, program)?.info().map_err(failed)?;
        costs.push(Cost::from_info(hook, &info));
    }
    Ok(costs)
}

// === impl Cost ===

impl Cost {
    /// What the kernel says of a loaded program.
    pub(crate) fn from_info(hook: &'static str, info: &ProgramInfo) -> Self {
        let cost = Self {
            hook,
            verified: info.verified_instruction_count().unwrap_or_default(),
            instructions: info.size_translated().unwrap_or_default() / 8,
        };
        tracing::debug!(
            hook,
            verified = cost.verified,
            instructions = cost.instructions,
            "loaded program"
        );
        cost
    }
}

/// Brings all programs into force at the cgroup, hook by hook: in place where
/// an earlier process left a link there.
pub(crate) fn attach(ebpf: &mut Ebpf, cgroup_path: &Path, directory: &Path) -> Result<(), Error> {
    let unusable = |source| Error::File {
        verb: "open",
        path: cgroup_path.to_owned(),
        source,
    };
    let cgroup = File::open(cgroup_path).map_err(unusable)?;
    // On 64-bit machines a cgroup's identifier is its inode's number.
    let cgroup_id = cgroup.metadata().map_err(unusable)?.ino();
    for (name, link_name) in HOOKS {
        let program = find(ebpf, name)?;
        let pinned = directory.join(link_name);
        if replace(program, name, &pinned, cgroup_id)? {
            tracing::debug!(hook = link_name, "replaced program");
            continue;
        }
        let failed = |source| Error::Program {
            verb: "attach",
            program: name,
            source: Box::new(source),
        };
        // Links share a cgroup in any case, and the kernel refuses flags.
        let id = program
            .attach(&cgroup, CgroupAttachMode::Single)
            .map_err(failed)?;
        let link = program.take_link(id).map_err(failed)?;
        let broken = |verb| {
            let path = pinned.clone();
            move |source| Error::Link { verb, path, source }
        };
        let link =
            FdLink::try_from(link).map_err(|error| broken("make")(io::Error::other(error)))?;
        link.pin(&pinned)
            .map_err(|error| broken("pin")(io::Error::other(error)))?;
        tracing::debug!(hook = link_name, cgroup = %cgroup_path.display(), "attached program");
    }
    Ok(())
}

/// Replaces the program of a pinned link, if there is one at this cgroup. A
/// link at another cgroup, or at one that is gone, is removed.
fn replace(
    program: &CgroupSockAddr,
    name: &'static str,
    pinned: &Path,
    cgroup_id: u64,
) -> Result<bool, Error> {
    let broken = |verb| {
        move |source| Error::Link {
            verb,
            path: pinned.to_owned(),
            source,
        }
    };
    let link = match sys::open_pinned(pinned) {
        Ok(link) => link,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(broken("open")(error)),
    };
    if sys::cgroup_of_link(link.as_fd()).map_err(broken("inspect"))? != cgroup_id {
        tracing::info!(link = %pinned.display(), "removing a link of another cgroup");
        remove(pinned)?;
        return Ok(false);
    }
    let failed = |source| Error::Program {
        verb: "use",
        program: name,
        source: Box::new(source),
    };
    let program = program.fd().map_err(failed)?;
    sys::update_link(link.as_fd(), program.as_fd()).map_err(broken("update"))?;
    Ok(true)
}

/// Takes a hook out of force, then its pin away.
pub(crate) fn remove(pinned: &Path) -> Result<(), Error> {
    let broken = |verb| {
        move |source| Error::Link {
            verb,
            path: pinned.to_owned(),
            source,
        }
    };
    let link = sys::open_pinned(pinned).map_err(broken("open"))?;
    sys::detach_link(link.as_fd()).map_err(broken("detach"))?;
    fs::remove_file(pinned).map_err(broken("remove"))
}

fn find<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut CgroupSockAddr, Error> {
    match ebpf.program_mut(name) {
        Some(Program::CgroupSockAddr(program)) => Ok(program),
        _ => Err(Error::Object {
            what: format!("program `{name}`"),
        }),
    }
}
