"""Clients of a mesh: publishers, subscribers and their connections."""
