"""Groups for clients: casting, membership, and applications that the members replicate."""
