//! The orlop binary: wiring, configuration, operator commands.
