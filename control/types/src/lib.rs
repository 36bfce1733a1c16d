//! The API registry, object tree, codecs, selectors, quantities; no I/O.
