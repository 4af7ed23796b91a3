"""Subcommands of the command ``quorate`` for queues and topics."""
