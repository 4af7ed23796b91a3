"""Messaging: queues and topics on replicated agents, with the words and rules of Jakarta Messaging."""
