"""Highly available agents, and the reliable messaging built from them."""
