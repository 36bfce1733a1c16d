//! Wiring of the node agent.
