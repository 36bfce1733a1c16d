//! Cluster DNS: answers for services and pods, forwarding the rest.
