//! Packet and socket decisions, generic over maps; runs natively in tests.
