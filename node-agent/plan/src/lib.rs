//! Pure: snapshot of API objects in, desired datapath state and actions out.
