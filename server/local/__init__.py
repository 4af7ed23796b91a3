"""The part of a replica that clients and threads of its own process use."""
