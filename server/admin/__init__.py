"""The administration protocol, its client, and the changes of a cluster that an administrator asks for."""
