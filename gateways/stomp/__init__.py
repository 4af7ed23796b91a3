"""STOMP 1.0, 1.1 and 1.2: frames, the protocol without I/O, and the service."""
