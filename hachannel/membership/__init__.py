"""Replicas that are added, leave or are removed."""
