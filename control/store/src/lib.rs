//! Revisions, keys, bytes, watch; knows no kind.
