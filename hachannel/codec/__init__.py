"""Bytes on the wire and on the disk: frames, checksums, buffers of encoded messages."""
