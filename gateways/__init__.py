"""Foreign clients: servers of other protocols, on the messaging of a server.

docs/stomp.md is the guide of the first one.
"""
