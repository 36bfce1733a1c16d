//! Pure placement over a snapshot; a thin loop around it.
