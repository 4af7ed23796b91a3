"""The vocabulary of the channel: views, messages, the log, events, settings and errors."""
