//! Entry points only: attach types, maps, calls into logic.
#![no_std]
