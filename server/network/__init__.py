"""Connections between servers, and the listener that all connections come through."""
