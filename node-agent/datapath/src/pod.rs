//! Lets plain data of `ebpf-abi`, which does not know aya, into aya's maps.

use aya::Pod;
use ebpf_abi::Plain;

/// Plain data in the form that aya expects.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<T>(pub(crate) T);

// SAFETY: `Plain` promises what `Pod` asks for: every bit pattern is a value,
// and no byte is padding.
unsafe impl<T: Plain> Pod for Raw<T> {}
