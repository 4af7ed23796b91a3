"""The commands of groups: `quorate group`."""
