"""What a reaction must not use, found while it runs, and reactions run again under other hash seeds."""
