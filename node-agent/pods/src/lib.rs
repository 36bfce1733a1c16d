//! The kubelet's duties: CRI, probes, volumes, status, serving API.
