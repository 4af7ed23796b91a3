"""What a replica keeps in its directory, and the thread that writes it."""
