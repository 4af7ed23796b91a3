"""CRC-32 as zlib has it, with the instructions that processors have for it if `isal` is there. A leaf, pure.

Frames are summed where they are made and where they come. Under a load of long messages zlib took a tenth of
a master's time for that; Intel's library takes a tenth of zlib's. It has no wheels for rare platforms.
"""

__all__ = ["crc32"]

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32
