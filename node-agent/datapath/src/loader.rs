//! aya's loader, without the kernel's types, and the kernel's verifier.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use aya::programs::{Program, ProgramError};
use aya::{Ebpf, EbpfLoader};
use ebpf_abi::{maps, record::recording};
use nix::sched::{CloneFlags, unshare};

use crate::capacity::Capacity;
use crate::error::Error;
use crate::flow_log;
use crate::object::Object;
use crate::records::RecordingOptions;

/// Threads that have programs verified. More than a few gain little: half of
/// the programs take no time.
const VERIFIERS: usize = 4;

/// The inputs from which programs are loaded, now and later.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The BPF object.
    pub(crate) object: Object,
    /// How large maps are that are not there yet.
    pub(crate) capacity: Capacity,
    /// What programs tell of.
    pub(crate) level: u8,
    /// Of which verdicts they tell.
    pub(crate) recording: RecordingOptions,
    /// Where the maps are pinned.
    pub(crate) directory: PathBuf,
}

// === impl Source ===

impl Source {
    /// Reads the object, and makes and pins the maps that are missing. Nothing
    /// is verified yet. `elsewhere` are maps pinned at other paths than their
    /// own.
    pub(crate) fn load(&self, elsewhere: &[(&'static str, PathBuf)]) -> Result<Ebpf, Error> {
        let paths = maps::ALL.map(|name| {
            let other = elsewhere.iter().find(|(other, _)| *other == name);
            let path = other.map_or_else(|| self.directory.join(name), |(_, path)| path.clone());
            (name, path)
        });
        let verdicts = u8::from(self.recording.verdicts);
        let mut loader = without_kernel_types(&self.directory);
        for (name, path) in &paths {
            loader.map_pin_path(name, path.as_path());
        }
        loader.override_global(aya_log::LEVEL, &self.level, true);
        loader.override_global(recording::SWITCH, &verdicts, true);
        loader.override_global(recording::SAMPLE, &self.recording.sample, true);
        let capacity = &self.capacity;
        let flow_log = flow_log::size(&self.directory, capacity)?;
        loader
            .map_max_entries(maps::SERVICES, capacity.services)
            .map_max_entries(maps::NAMES, capacity.names())
            .map_max_entries(maps::SLOTS, capacity.slots)
            .map_max_entries(maps::MEMBERS, capacity.members)
            .map_max_entries(maps::MAGLEV, capacity.chunks)
            .map_max_entries(maps::SOURCES, capacity.sources)
            .map_max_entries(maps::ORIGINALS, capacity.originals)
            .map_max_entries(maps::AFFINITY, capacity.affinity)
            .map_max_entries(maps::FLOWS, capacity.flow_entries())
            .map_max_entries(maps::FLOW_LOG, flow_log)
            .map_max_entries(maps::PEERS, capacity.peers)
            .map_max_entries(maps::ENDPOINTS, capacity.endpoints)
            .map_max_entries(maps::VERDICTS, capacity.verdicts)
            .map_max_entries(maps::RULES, capacity.rules)
            .map_max_entries(maps::POLICY_FLOWS, capacity.policy_flows);
        let object = self
            .object
            .unpack()
            .map_err(|source| Error::Unpack { source })?;
        loader.load(&object).map_err(|source| Error::Load {
            source: Box::new(source),
        })
    }
}

/// Has the kernel verify programs, several at a time. Those that take long
/// should come first.
pub(crate) fn verify(ebpf: &mut Ebpf, names: &[&'static str]) -> Result<(), Error> {
    let mut programs: Vec<(&'static str, &mut Program)> = ebpf
        .programs_mut()
        .filter_map(|(found, program)| {
            let name = names.iter().find(|name| **name == found)?;
            Some((*name, program))
        })
        .collect();
    if let Some(missing) = names
        .iter()
        .find(|name| !programs.iter().any(|(found, _)| found == *name))
    {
        return Err(Error::Object {
            what: format!("program `{missing}`"),
        });
    }
    let place = |name: &str| names.iter().position(|other| *other == name);
    programs.sort_by_key(|(name, _)| place(name));
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(VERIFIERS)
        .min(programs.len());
    let waiting = Mutex::new(programs.into_iter());
    let work = || -> Result<(), Error> {
        loop {
            let next = waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .next();
            let Some((name, program)) = next else {
                return Ok(());
            };
            load(program).map_err(|source| Error::Program {
                verb: "load",
                program: name,
                source: Box::new(source),
            })?;
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let own = work();
        others.into_iter().fold(own, |result, thread| {
            // A thread that panicked loaded nothing further, which whoever
            // uses the program is told.
            result.and(thread.join().unwrap_or(Ok(())))
        })
    })
}

fn load(program: &mut Program) -> Result<(), ProgramError> {
    match program {
        Program::CgroupSockAddr(program) => program.load(),
        Program::SchedClassifier(program) => program.load(),
        Program::Xdp(program) => program.load(),
        // The object has no others.
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}

/// A loader for objects that are not relocated against the kernel's types.
///
/// `EbpfLoader::new` reads all of them from `/sys/kernel/btf/vmlinux`, also for
/// callers who then decline them: 100 MB for a moment, some of which the
/// allocator keeps, and a tenth of a second. So the loader is made by a thread
/// for which `nowhere`, an existing folder, is the whole of the file system.
fn without_kernel_types<'a>(nowhere: &Path) -> EbpfLoader<'a> {
    let made = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                // From here on this thread's root is its own; it ends with it.
                unshare(CloneFlags::CLONE_FS).ok()?;
                nix::unistd::chroot(nowhere).ok()?;
                Some(EbpfLoader::new())
            })
            .join()
            .ok()
            .flatten()
    });
    let mut loader = made.unwrap_or_default();
    loader.btf(None);
    loader
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_keeps_its_root() {
        let folder = std::env::temp_dir();
        let _ = without_kernel_types(&folder);
        assert!(Path::new("/proc/self/status").exists());
    }
}
