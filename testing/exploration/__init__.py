"""Exploration of every order of events in small clusters."""
