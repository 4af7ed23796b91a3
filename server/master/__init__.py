"""What only a master does: services, requests, the networks to other servers."""
