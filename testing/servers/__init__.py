"""Simulated clusters of agent servers, and network namespaces for real ones."""
