"""CRC-32 with the polynomial of zlib, computed by `isal` where that is installed. A leaf, pure.

Every frame is summed by its sender and its receiver. Under a load of long messages zlib took a tenth of a
master's time for this; Intel's library takes a tenth of zlib's time. It has no wheels for rare platforms.
"""

__all__ = ["crc32"]

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32
