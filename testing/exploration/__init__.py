"""Exhaustive exploration: every order of events of a small cluster, up to a budget."""
