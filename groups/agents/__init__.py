"""The agents of groups: the manager of all groups of a server, and one agent for each group."""
