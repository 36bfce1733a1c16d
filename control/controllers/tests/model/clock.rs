//! A clock and a source of randomness for one simulated case.
//!
//! Code under test reads the wall clock, the monotonic clock and random numbers from
//! the operating system. On a thread that holds a [`Simulated`], the three come from
//! tokio's paused clock and from a seed, so that a case takes no real time and is the
//! same each time. All other threads get what the kernel says.
//!
//! The symbols below replace those of the C library within this test binary.

use std::cell::Cell;
use std::time::Duration;

use nix::libc;

/// What the wall clock shows when a case begins: 2026-01-01T00:00:00Z.
pub const BEGIN: Duration = Duration::from_secs(1_767_225_600);

thread_local! {
    static START: Cell<Option<tokio::time::Instant>> = const { Cell::new(None) };
    static READING: Cell<bool> = const { Cell::new(false) };
    static RANDOM: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Simulates clocks and randomness on this thread while it lives.
pub struct Simulated(());

impl Simulated {
    /// Seeds random numbers. Before anything on this thread draws one.
    pub fn seeded(seed: u64) -> Self {
        RANDOM.set(Some(seed));
        Self(())
    }

    /// Lets the clocks follow tokio's, from [`BEGIN`] on. Within a runtime whose time
    /// is paused.
    pub fn start_clocks(&self) {
        START.set(Some(tokio::time::Instant::now()));
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        START.set(None);
        RANDOM.set(None);
    }
}

/// The time since the case began; none on a thread without a simulated clock, and while
/// tokio itself asks.
fn elapsed() -> Option<Duration> {
    let start = START.try_with(Cell::get).ok().flatten()?;
    if READING.replace(true) {
        return None;
    }
    let elapsed = start.elapsed();
    READING.set(false);
    Some(elapsed)
}

/// # Safety
/// As `clock_gettime(3)`: `time` points to a `timespec`.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> libc::c_int {
    let simulated = matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC);
    if let Some(elapsed) = simulated.then(elapsed).flatten() {
        let now = BEGIN + elapsed;
        let value = libc::timespec {
            tv_sec: now.as_secs().cast_signed(),
            tv_nsec: now.subsec_nanos().into(),
        };
        // SAFETY: the caller passes a pointer that may be written.
        unsafe { time.write(value) };
        return 0;
    }
    // SAFETY: the arguments are the caller's, for the same call.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    libc::c_int::try_from(result).unwrap_or(-1)
}

/// # Safety
/// As `getrandom(2)`: `buffer` points to `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(
    buffer: *mut libc::c_void,
    length: libc::size_t,
    flags: libc::c_uint,
) -> libc::ssize_t {
    let Some(mut state) = RANDOM.try_with(Cell::get).ok().flatten() else {
        // SAFETY: the arguments are the caller's, for the same call.
        let result = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
        return libc::ssize_t::try_from(result).unwrap_or(-1);
    };
    for at in 0..length {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let byte = (mixed ^ (mixed >> 31)).to_le_bytes()[0];
        // SAFETY: `at` is within the buffer that the caller passes.
        unsafe { buffer.cast::<u8>().add(at).write(byte) };
    }
    RANDOM.set(Some(state));
    length.cast_signed()
}

#[test]
fn simulated_wall_clock_follows_paused_time() {
    let simulated = Simulated::seeded(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        simulated.start_clocks();
        let (wall, steady) = (std::time::SystemTime::now(), std::time::Instant::now());
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        let day = Duration::from_secs(86_400);
        assert!(wall.elapsed().unwrap() >= day && steady.elapsed() >= day);
        assert!(wall.elapsed().unwrap() < day + Duration::from_secs(1));
    });
}
