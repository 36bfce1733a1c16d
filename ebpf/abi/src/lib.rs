//! Keys and values shared by kernel and user space.
