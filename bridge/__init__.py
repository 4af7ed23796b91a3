"""Bridges between topics of a mesh and the queues and topics of a server. The guide is docs/mesh.md."""
