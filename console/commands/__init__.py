"""Commands for the tokens of the HTTP API."""
