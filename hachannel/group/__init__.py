"""A process group: the channel used alone, by processes that multicast to each other."""
