"""One replica on a machine: the node on Twisted's reactor, its peers, its life cycle."""
