//! What tests let the process have of memory.

/// The tests that look at it run one after the other: it is the process's.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Bytes of a mebibyte.
pub const MIB: usize = 1024 * 1024;

/// The memory of this process, looked at by nobody else meanwhile.
pub struct Memory {
    _alone: tokio::sync::MutexGuard<'static, ()>,
    before: usize,
    /// Whether the peak since `before` is known; else only what is there at the end.
    peak: bool,
}

impl Memory {
    /// Waits until no other test looks at it.
    pub async fn alone() -> Self {
        let mut memory = Self {
            _alone: ALONE.lock().await,
            before: 0,
            peak: false,
        };
        memory.begin();
        memory
    }

    /// From here on it counts what is had more, at its peak.
    pub fn begin(&mut self) {
        // The peak so far is forgotten (proc(5)), where that is allowed.
        self.peak = std::fs::write("/proc/self/clear_refs", "5").is_ok();
        self.before = kilobytes("VmRSS:") * 1024;
    }

    /// How much more the process had at some time since [`Memory::begin`], in bytes.
    pub fn grown(&self) -> usize {
        let most = kilobytes(if self.peak { "VmHWM:" } else { "VmRSS:" }) * 1024;
        most.saturating_sub(self.before)
    }

    /// That it was less than this, in bytes.
    pub fn assert_grown_less(&self, bound: usize) {
        let grown = self.grown();
        assert!(grown < bound, "{} of {} MiB more", grown / MIB, bound / MIB);
    }
}

fn kilobytes(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc");
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.trim().strip_suffix(" kB"))
        .and_then(|number| number.parse().ok())
        .expect("a number of kilobytes")
}
