"""A replica of a server with ``mode="mesh"``: a daemon, on its own, that a service is all of."""
