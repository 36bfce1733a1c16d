//! The built-in admission steps that change or refuse objects, as pure functions.
