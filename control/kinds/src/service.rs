//! What must be allocated for a Service: addresses and ports, as data.
