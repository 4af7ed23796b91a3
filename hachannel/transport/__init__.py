"""Connections to the other replicas, on Twisted."""
