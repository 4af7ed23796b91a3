"""The disk of a daemon in memory: what is not synced is lost when the daemon is killed."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import attrs

from ...mesh.model import Stream

__all__ = ["DiskWatcher", "MemoryLog"]

_Records: TypeAlias = dict[int, tuple[bytes, bool]]


class DiskWatcher(Protocol):
    """Looks at what daemons do with their disks."""

    def appended(self, daemon: int, stream: Stream, records: Sequence[tuple[int, bytes, bool]]) -> None:
        """Records were appended."""
        ...

    def synced(self, stream: Stream, records: Sequence[tuple[int, bytes, bool]]) -> None:
        """Records have become durable at a daemon."""
        ...

    def stripped(self, daemon: int, stream: Stream, upto: int) -> None:
        """Bodies were dropped."""
        ...

    def trimmed(self, daemon: int, stream: Stream, upto: int) -> None:
        """Records were collected."""
        ...


@attrs.define
class _Image:
    """The content of a disk."""

    streams: dict[Stream, _Records] = attrs.field(factory=dict[Stream, _Records])
    facts: dict[str, dict[bytes, bytes]] = attrs.field(factory=dict[str, dict[bytes, bytes]])

    def copy(self) -> "_Image":
        return _Image(
            {stream: dict(records) for stream, records in self.streams.items()},
            {kind: dict(facts) for kind, facts in self.facts.items()},
        )


class MemoryLog:
    """A `Log` with a durable image and a later one that the daemon sees."""

    def __init__(self, daemon: int, watcher: DiskWatcher | None = None) -> None:
        self._daemon = daemon
        self._watcher = watcher
        self._durable = _Image()
        self._live = _Image()
        self._unsynced: list[Callable[[_Image], None]] = []

    # The machine

    @property
    def mark(self) -> int:
        """The number of changes that are not durable."""
        return len(self._unsynced)

    def sync(self, changes: int) -> None:
        """Make the first changes durable."""
        for change in self._unsynced[:changes]:
            change(self._durable)
        del self._unsynced[:changes]

    def crash(self) -> None:
        """Lose what is not durable."""
        self._unsynced.clear()
        self._live = self._durable.copy()

    def lose(self) -> None:
        """Lose everything: the disk is replaced by an empty one."""
        self._unsynced.clear()
        self._durable, self._live = _Image(), _Image()

    def image(self) -> Any:
        """Return a copy of what is durable, for `restore`."""
        return self._durable.copy()

    def restore(self, image: Any) -> None:
        """Put an old copy on the disk."""
        self._unsynced.clear()
        self._durable, self._live = image.copy(), image.copy()

    @property
    def records(self) -> int:
        """The number of records on the disk."""
        return sum(map(len, self._live.streams.values()))

    # The port

    def _do(self, change: Callable[[_Image], None]) -> None:
        change(self._live)
        self._unsynced.append(change)

    def append(self, stream: Stream, records: Sequence[tuple[int, bytes, bool]]) -> None:
        """Implement `Log.append`."""
        kept = list(records)
        if self._watcher is not None:
            self._watcher.appended(self._daemon, stream, kept)

        def change(image: _Image) -> None:
            image.streams.setdefault(stream, {}).update(
                {n: (data, is_message) for n, data, is_message in kept}
            )
            if image is self._durable and self._watcher is not None:
                self._watcher.synced(stream, kept)

        self._do(change)

    def read(self, stream: Stream, first: int, last: int, size_bytes: int) -> list[tuple[int, bytes]]:
        """Implement `Log.read`."""
        found: list[tuple[int, bytes]] = []
        size = 0
        records = self._live.streams.get(stream, {})
        for number in sorted(each for each in records if first <= each <= last):
            if found and size + len(records[number][0]) > size_bytes:
                break
            found.append((number, records[number][0]))
            size += len(records[number][0])
        return found

    def strip(self, stream: Stream, upto: int) -> None:
        """Implement `Log.strip`."""
        if self._watcher is not None:
            self._watcher.stripped(self._daemon, stream, upto)

        def change(image: _Image) -> None:
            records = image.streams.get(stream, {})
            for number in [n for n, (_, is_message) in records.items() if n <= upto and is_message]:
                del records[number]

        self._do(change)

    def trim(self, stream: Stream, upto: int) -> None:
        """Implement `Log.trim`."""
        if self._watcher is not None:
            self._watcher.trimmed(self._daemon, stream, upto)

        def change(image: _Image) -> None:
            records = image.streams.get(stream, {})
            for number in [n for n in records if n <= upto]:
                del records[number]

        self._do(change)

    def drop(self, stream: Stream) -> None:
        """Implement `Log.drop`."""
        self._do(lambda image: _forget(image, stream))

    def message_bytes(self, stream: Stream) -> int:
        """Implement `Log.message_bytes`."""
        records = self._live.streams.get(stream, {}).values()
        return sum(len(data) for data, is_message in records if is_message)

    def put(self, kind: str, key: bytes, value: bytes) -> None:
        """Implement `Log.put`."""

        def change(image: _Image) -> None:
            image.facts.setdefault(kind, {})[key] = value

        self._do(change)

    def delete(self, kind: str, key: bytes) -> None:
        """Implement `Log.delete`."""
        self._do(lambda image: _unset(image, kind, key))

    def facts(self, kind: str) -> Iterable[tuple[bytes, bytes]]:
        """Implement `Log.facts`."""
        return list(self._live.facts.get(kind, {}).items())


def _forget(image: _Image, stream: Stream) -> None:
    image.streams.pop(stream, None)


def _unset(image: _Image, kind: str, key: bytes) -> None:
    image.facts.get(kind, {}).pop(key, None)
