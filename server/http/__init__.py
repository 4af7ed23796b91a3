"""The HTTP port of a replica: metrics for Prometheus, and probes."""
