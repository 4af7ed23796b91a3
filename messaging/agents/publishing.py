"""The side of a destination that producers see."""

from collections.abc import Iterable

import attrs

from ...agents import FIRST_CONNECTION_STAMP, ColumnValue, Context, Pack, reacts
from .arrivals import fits
from .committing import Committing
from .dead_letters import DeadLetters
from .producers import Producer, key_of
from .protocol import CloseProducer, OpenProducer, ProducerClosed, ProducerOpened, Publish, Reason, Rejected
from .ranges import Ranges
from .settings import FullPolicy
from .topic_tree import subject_flaw
from .transactions import Staged

__all__ = ["Publishing"]

OWN_COLUMNS = ("time", "expires", "due", "number", "deliveries", "hops")
"""Columns that only destinations set."""


@attrs.define
class Publishing(Committing):
    """A destination for its producers."""

    @reacts
    def open_producer(self, ctx: Context, note: OpenProducer) -> None:
        """Let a client publish."""
        key = key_of(ctx.sender, note.producer)
        if key in self.producers.open:
            self._refuse(ctx, Reason.IN_USE, f"producer {note.producer} of {ctx.sender} is open already")
            return
        flaw = self._subject_flaw(note.subject)
        if flaw:
            self._refuse(ctx, Reason.BAD_REQUEST, flaw)
            return
        self._attach(ctx)
        producer = Producer(ctx.sender, note.producer, subject=note.subject)
        producer.peer = note.peer and producer.travelled
        self.producers.add(key, producer, has_room=self._has_room())
        opened = ProducerOpened(
            note.producer, producer.credit_messages, producer.credit_bytes, self.settings.max_message_bytes
        )
        ctx.send(ctx.reply_to, opened)

    def _subject_flaw(self, subject: str) -> str:
        if not subject:
            return ""
        if not self.settings.tree:
            return f"{self.kind} {self.title} is no tree of topics, so there is no {subject} in it"
        return subject_flaw(self.title, subject)

    @reacts
    def publish(self, ctx: Context, note: Publish) -> None:
        """Take messages of a producer, or stage them in a transaction."""
        key = key_of(ctx.sender, note.producer)
        producer = self.producers.open.get(key)
        staged = self._stage(ctx.sender, note.transaction) if note.transaction else None
        if producer is None:
            text = f"producer {note.producer} is not open at {self.kind} {self.title}"
            ctx.send(ctx.sender, Rejected(note.producer, note.first, len(note.pack), Reason.NOT_OPEN, text))
            if staged is not None:
                staged.refuse(text)
                self._part(ctx, staged)
            return
        pack = self._admissible(ctx, producer, note, staged)
        self.producers.handled(key, note.first + len(note.pack) - 1, len(note.pack.data))
        if staged is not None:
            if len(pack):
                staged.stage(pack)
            self._part(ctx, staged)
        else:
            pack = self._within_limits(ctx, producer, pack)
            if len(pack):
                self._take(ctx, pack, travelled=producer.travelled, peer=producer.peer)
        self._later(ctx)

    @reacts
    def close_producer(self, ctx: Context, note: CloseProducer) -> None:
        """End a producer."""
        self._drop_producer(key_of(ctx.sender, note.producer))
        ctx.send(ctx.reply_to, ProducerClosed(note.producer))

    def _drop_producer(self, key: str) -> None:
        producer = self.producers.remove(key)
        if producer is not None:
            self._detach(producer.connection)

    def _admissible(self, ctx: Context, producer: Producer, note: Publish, staged: Staged | None) -> Pack:
        """Return the messages that may be taken, with the columns of the destination; reject the others."""
        pack, limit = note.pack, self.settings.max_message_bytes
        try:
            pack.check()
        except ValueError as error:
            self._reject(ctx, producer, note.first, len(pack), Reason.BAD_REQUEST, str(error), staged)
            return Pack.of([])
        sizes = pack.sizes()
        places = range(len(pack))
        wrong = {index for index in places if sizes[index] > limit}
        for index in sorted(wrong):
            text = f"the message has {sizes[index]} bytes; {self.kind} {self.title} takes {limit} at most"
            self._reject(ctx, producer, note.first + index, 1, Reason.TOO_LARGE, text, staged)
        chosen: Iterable[int] = [index for index in places if index not in wrong] if wrong else places
        if "duplicate" in pack.columns and staged is None:
            chosen = self.producers.fresh(pack, chosen)
        if not (producer.travelled and "id" in pack.columns):
            serials: list[ColumnValue] = list(range(note.first, note.first + len(pack)))
            pack = pack.without(*OWN_COLUMNS)
            pack = pack.with_columns(id=key_of(producer.connection, producer.number), serial=serials)
        if self.settings.tree and not (producer.peer and "subject" in pack.columns):
            pack = pack.with_columns(subject=producer.subject or self.title)
        return pack if chosen is places else pack.take(list(chosen))

    @staticmethod
    def _reject(
        ctx: Context,
        producer: Producer,
        first: int,
        count: int,
        reason: Reason,
        text: str,
        staged: Staged | None = None,
    ) -> None:
        ctx.send(producer.connection, Rejected(producer.number, first, count, reason, text))
        if staged is not None:
            staged.refuse(text)

    def _within_limits(self, ctx: Context, producer: Producer, pack: Pack) -> Pack:
        """Return the messages for which there is room; reject or bury the others, as the settings say."""
        settings = self.settings
        if settings.full == FullPolicy.DROP_OLDEST:
            return pack
        room = settings.max_messages - self.depth if settings.max_messages else len(pack)
        if settings.full == FullPolicy.BLOCK:
            # A producer that keeps to its credit is never refused.
            room = producer.credit_messages - producer.upto + len(pack)
        elif settings.max_bytes:
            room = min(room, fits(pack, settings.max_bytes - self.log.size_bytes))
        if room >= len(pack):
            return pack
        room = max(room, 0)
        kept, over = pack.part(0, room), pack.part(room, len(pack) - room)
        if settings.full == FullPolicy.DEAD_LETTER:
            self.dead += len(over)
            self._bury(ctx, over, Reason.FULL)
            return kept
        serials = Ranges()
        for serial in over.column("serial"):
            assert isinstance(serial, int)
            serials.add(serial, serial + 1)
        text = self._fullness()
        for first, end in serials:
            self._reject(ctx, producer, first, end - first, Reason.FULL, text)
        return kept

    @reacts
    def dead_letters(self, ctx: Context, note: DeadLetters) -> None:
        """Keep messages that another destination could not keep. A full queue drops its oldest."""
        if ctx.sender.stamp >= FIRST_CONNECTION_STAMP:
            raise PermissionError("only destinations send dead letters")
        note.pack.check()
        self._take(ctx, note.pack)
        self._make_room()
        self._later(ctx)
