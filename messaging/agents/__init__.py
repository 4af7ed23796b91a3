"""The agents of messaging, and the notifications between them and their clients. Pure: no clock, no I/O."""
