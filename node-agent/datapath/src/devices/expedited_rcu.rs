//! Short waits of the kernel while programs come to devices or go.
//!
//! For each program that tcx attaches or takes off it waits for a grace period of
//! RCU (`tcx_entry_sync` in the kernel's `include/net/tcx.h`), with the lock held
//! that every change of a device takes: 10 to 25 ms where little else is done, and
//! twice that for a pod. Of a hundred pods that start at once the last would wait
//! for seconds. Expedited grace periods (`/sys/kernel/rcu_expedited`, RCU's own
//! documentation) interrupt all processors instead, and take a tenth of a
//! millisecond; the kernel itself takes them while it removes devices.
//!
//! The switch is the whole machine's. So it is on only while something is
//! changed, is not touched where an operator chose it, and a mark beside the pins
//! of links says that it is ours to switch off if this process is killed meanwhile. Who
//! is last of those in this process that want it on switches it off.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The kernel's switch: `0` or `1`.
const SWITCH: &str = "/sys/kernel/rcu_expedited";
/// The mark's name among the pins.
const MARK: &str = "hurry";

/// Which switches this process has on, for how many, and the marks that say so.
static ON: Mutex<BTreeMap<PathBuf, (usize, PathBuf)>> = Mutex::new(BTreeMap::new());

/// Expedites RCU grace periods while it lives, if the machine allows it.
#[derive(Debug)]
pub(super) struct ExpeditedRcuGuard {
    switch: PathBuf,
}

// === impl Hurry ===

impl ExpeditedRcuGuard {
    /// Switches it on; none where somebody else did, or where it is not ours to switch.
    pub(super) fn begin(directory: &Path) -> Option<Self> {
        Self::by(Path::new(SWITCH), directory)
    }

    /// Switches it off if a process that was killed left it on.
    pub(super) fn end_former(directory: &Path) {
        Self::end_left(Path::new(SWITCH), directory);
    }

    fn by(switch: &Path, directory: &Path) -> Option<Self> {
        let mut on = ON.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, _)) = on.get_mut(switch) {
            *count += 1;
        } else {
            let mark = directory.join(MARK);
            if !switch_on(switch, &mark) {
                return None;
            }
            on.insert(switch.to_owned(), (1, mark));
        }
        Some(Self {
            switch: switch.to_owned(),
        })
    }

    fn end_left(switch: &Path, directory: &Path) {
        let on = ON.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = directory.join(MARK);
        if !on.contains_key(switch) && mark.is_dir() {
            switch_off(switch, &mark);
        }
    }
}

impl Drop for ExpeditedRcuGuard {
    fn drop(&mut self) {
        let mut on = ON.lock().unwrap_or_else(PoisonError::into_inner);
        match on.get_mut(&self.switch) {
            Some((count, _)) if *count > 1 => *count -= 1,
            Some(_) => {
                if let Some((_, mark)) = on.remove(&self.switch) {
                    switch_off(&self.switch, &mark);
                }
            }
            None => {}
        }
    }
}

fn switch_on(switch: &Path, mark: &Path) -> bool {
    let is_off = fs::read_to_string(switch).is_ok_and(|said| said.trim() == "0");
    // Without a mark nobody could switch it off: then it stays as it is.
    if !is_off || fs::create_dir(mark).is_err() {
        return false;
    }
    if let Err(error) = fs::write(switch, "1") {
        tracing::debug!(%error, "failed to expedite RCU grace periods");
        drop(fs::remove_dir(mark));
        return false;
    }
    true
}

fn switch_off(switch: &Path, mark: &Path) {
    // The mark stays as long as there is something to switch off.
    let off = fs::write(switch, "0").and_then(|()| fs::remove_dir(mark));
    if let Err(error) = off {
        tracing::warn!(
            switch = %switch.display(),
            %error,
            "failed to restore normal RCU grace periods"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn with(said: &str) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let this = Self { folder };
            fs::write(this.switch(), said).expect("a switch");
            this
        }

        fn switch(&self) -> PathBuf {
            self.folder.path().join("switch")
        }

        fn begin(&self) -> Option<ExpeditedRcuGuard> {
            ExpeditedRcuGuard::by(&self.switch(), self.folder.path())
        }

        fn said(&self) -> (String, bool) {
            let said = fs::read_to_string(self.switch()).expect("a switch");
            (said, self.folder.path().join(MARK).exists())
        }
    }

    #[test]
    fn it_is_on_while_something_is_changed_and_no_longer() {
        let place = Place::with("0\n");
        let hurry = place.begin().expect("switched on");
        assert_eq!(place.said(), ("1".to_owned(), true));
        drop(hurry);
        assert_eq!(place.said(), ("0".to_owned(), false));
    }

    #[test]
    fn what_an_operator_chose_stays() {
        let place = Place::with("1\n");
        assert!(place.begin().is_none());
        ExpeditedRcuGuard::end_left(&place.switch(), place.folder.path());
        assert_eq!(place.said(), ("1\n".to_owned(), false));
    }

    #[test]
    fn the_last_that_wants_it_switches_it_off() {
        let place = Place::with("0\n");
        let first = place.begin().expect("switched on");
        let second = place.begin().expect("it is on");
        drop(first);
        ExpeditedRcuGuard::end_left(&place.switch(), place.folder.path());
        assert_eq!(place.said(), ("1".to_owned(), true));
        drop(second);
        assert_eq!(place.said(), ("0".to_owned(), false));
    }

    #[test]
    fn what_a_killed_process_left_on_is_switched_off() {
        let place = Place::with("0\n");
        assert!(switch_on(&place.switch(), &place.folder.path().join(MARK)));
        assert_eq!(place.said(), ("1".to_owned(), true));
        ExpeditedRcuGuard::end_left(&place.switch(), place.folder.path());
        assert_eq!(place.said(), ("0".to_owned(), false));
    }
}
