//! Lets plain data of `ebpf-abi` into aya's maps.

use ebpf_abi::Plain;

#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Raw<T>(pub T);

// SAFETY: `Plain` promises what `Pod` asks for: every bit pattern is a value,
// and no byte is padding.
unsafe impl<T: Plain> aya::Pod for Raw<T> {}
