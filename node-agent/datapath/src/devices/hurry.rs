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
//! of links says that it is ours to switch off if this process is killed meanwhile.

use std::fs;
use std::path::{Path, PathBuf};

/// The kernel's switch: `0` or `1`.
const SWITCH: &str = "/sys/kernel/rcu_expedited";
/// The mark's name among the pins.
const MARK: &str = "hurry";

/// While it lives, waits are short, if this machine lets us.
#[derive(Debug)]
pub(super) struct Hurry {
    switch: PathBuf,
    mark: PathBuf,
}

// === impl Hurry ===

impl Hurry {
    /// Switches it on; none where it is on already, or not ours to switch.
    pub(super) fn begin(directory: &Path) -> Option<Self> {
        Self::by(Path::new(SWITCH), directory)
    }

    /// Switches it off if a process that was killed left it on.
    pub(super) fn end_former(directory: &Path) {
        Self::end_left(Path::new(SWITCH), directory);
    }

    fn by(switch: &Path, directory: &Path) -> Option<Self> {
        let is_off = fs::read_to_string(switch).is_ok_and(|said| said.trim() == "0");
        if !is_off {
            return None;
        }
        // Without a mark nobody could switch it off: then it stays as it is.
        let mark = directory.join(MARK);
        fs::create_dir(&mark).ok()?;
        if let Err(error) = fs::write(switch, "1") {
            tracing::debug!(%error, "the kernel's waits stay long");
            drop(fs::remove_dir(&mark));
            return None;
        }
        let switch = switch.to_owned();
        Some(Self { switch, mark })
    }

    fn end_left(switch: &Path, directory: &Path) {
        let mark = directory.join(MARK);
        if mark.is_dir() {
            drop(Self {
                switch: switch.to_owned(),
                mark,
            });
        }
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        // The mark stays as long as there is something to switch off.
        let off = fs::write(&self.switch, "0").and_then(|()| fs::remove_dir(&self.mark));
        if let Err(error) = off {
            tracing::warn!(
                switch = %self.switch.display(),
                %error,
                "grace periods of the kernel stay expedited"
            );
        }
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

        fn begin(&self) -> Option<Hurry> {
            Hurry::by(&self.switch(), self.folder.path())
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
        Hurry::end_left(&place.switch(), place.folder.path());
        assert_eq!(place.said(), ("1\n".to_owned(), false));
    }

    #[test]
    fn what_a_killed_process_left_on_is_switched_off() {
        let place = Place::with("0\n");
        let _killed = std::mem::ManuallyDrop::new(place.begin());
        assert_eq!(place.said(), ("1".to_owned(), true));
        Hurry::end_left(&place.switch(), place.folder.path());
        assert_eq!(place.said(), ("0".to_owned(), false));
    }
}
