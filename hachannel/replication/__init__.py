"""Replication within one view: the state of a replica, appending, acknowledging, forwarding, leases."""
