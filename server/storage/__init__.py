"""The files in a replica's directory: its lock, its journal with the engine's state, and their recovery."""
