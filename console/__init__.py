"""The administration of a replica over HTTP: an API, its description, and a console for browsers."""
