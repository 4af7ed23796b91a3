"""CRC-32 with the polynomial of zlib, computed by `isal` where that is installed. A leaf, pure.

Every frame is summed by its sender and its receiver. Under a load of long messages zlib took a tenth of a
master's time for this; Intel's library takes a tenth of zlib's time. It has no wheels for rare platforms.
"""

from typing import TYPE_CHECKING

__all__ = ["crc32"]

if TYPE_CHECKING:
    # The stubs of isal do not say what it sums; it takes what zlib takes.
    from zlib import crc32
else:
    try:
        from isal.isal_zlib import crc32
    except ImportError:
        from zlib import crc32
