"""The node: one channel and one engine, joined without a clock, a socket or a thread."""
