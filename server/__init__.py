"""An agent server on a machine: configuration, networks, the driver loop and the commands."""
