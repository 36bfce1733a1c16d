//! Data whose bytes are all there is to it.

/// Plain data: its bytes may be passed to the kernel and read from it.
///
/// # Safety
///
/// The type must be `repr(C)` or `repr(transparent)`, without padding, and every bit
/// pattern must be a valid value.
pub unsafe trait Plain: Copy + 'static {}

// SAFETY: one integer.
unsafe impl Plain for u32 {}
// SAFETY: one integer.
unsafe impl Plain for u64 {}
