//! What is particular to a kind: defaults, validation, strategy, columns; pure.
