"""The parts of a replica that only a master runs: services, requests, networks to other servers."""
