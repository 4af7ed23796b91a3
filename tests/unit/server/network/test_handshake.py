"""The first frames of a connection."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.server.network.handshake import NONCE_BYTES, Acceptor, Connector, is_loopback
from quorate.server.network.hello import (
    ADMIN,
    CHANNEL,
    MAX_HELLO_BYTES,
    NETWORK,
    Hello,
    ProtocolError,
    Refused,
    build_hello,
    build_refusal,
    parse_hello,
)

ONE, TWO = b"1" * NONCE_BYTES, b"2" * NONCE_BYTES


def pair(
    ours: str | None,
    theirs: str | None,
    *,
    purpose: str = CHANNEL,
    loopback: bool = True,
    answer: Mapping[str, Any] | None = None,
) -> tuple[Connector, Acceptor]:
    connector = Connector(purpose, {"replica": 1}, secret=ours, nonce=ONE)
    acceptor = Acceptor(lambda _hello: answer or {}, secret=theirs, nonce=TWO, loopback=loopback)
    return connector, acceptor


def shake(connector: Connector, acceptor: Acceptor) -> None:
    to_acceptor, to_connector = [connector.first], []
    while to_acceptor or to_connector:
        if to_acceptor:
            to_connector += acceptor.receive(to_acceptor.pop(0))
        else:
            to_acceptor += connector.receive(to_connector.pop(0))


@pytest.mark.parametrize("secret", [None, "s3cret"])
def test_both_sides_receive_the_fields_of_the_other(secret: str | None) -> None:
    connector, acceptor = pair(secret, secret, answer={"incarnation": 7})
    shake(connector, acceptor)
    assert connector.done
    assert acceptor.done
    assert acceptor.peer is not None
    assert acceptor.peer.integer("replica") == 1
    assert connector.peer is not None
    assert connector.peer.integer("incarnation") == 7


def test_a_wrong_secret_is_refused_with_a_reason_for_the_other_side() -> None:
    connector, acceptor = pair("one", "two")
    (proof,) = connector.receive(acceptor.receive(connector.first)[0])
    with pytest.raises(ProtocolError, match="secret") as caught:
        acceptor.receive(proof)
    assert not acceptor.done
    assert caught.value.answer is not None
    with pytest.raises(Refused, match="secret"):
        connector.receive(caught.value.answer)


def test_an_acceptor_that_does_not_know_the_secret_is_not_believed() -> None:
    connector, acceptor = pair("one", "one")
    (proof,) = connector.receive(acceptor.receive(connector.first)[0])
    acceptor.receive(proof)
    with pytest.raises(ProtocolError, match="differs"):
        connector.receive(b"x" * 32)
    assert not connector.done


def test_a_proof_sent_back_to_its_author_proves_nothing() -> None:
    connector, acceptor = pair("one", "one")
    (proof,) = connector.receive(acceptor.receive(connector.first)[0])
    with pytest.raises(ProtocolError):
        connector.receive(proof)


@pytest.mark.parametrize(("ours", "theirs"), [("one", None), (None, "one")])
def test_a_secret_on_one_side_only_is_refused(ours: str | None, theirs: str | None) -> None:
    connector, acceptor = pair(ours, theirs)
    with pytest.raises(ProtocolError, match="has none"):
        acceptor.receive(connector.first)


@pytest.mark.parametrize(("ours", "theirs"), [("one", None), (None, "one")])
def test_each_side_reads_of_the_secret_from_where_it_stands(ours: str | None, theirs: str | None) -> None:
    connector, acceptor = pair(ours, theirs)
    here = {True: "This side has a property 'secret'", False: "The other side has a property 'secret'"}
    with pytest.raises(ProtocolError, match=here[theirs is not None]) as caught:
        acceptor.receive(connector.first)
    with pytest.raises(Refused, match=here[ours is not None]):
        connector.receive(caught.value.answer or b"")


def test_an_acceptor_without_secret_is_not_accepted_by_a_connector_with_one() -> None:
    connector = Connector(CHANNEL, {}, secret="one", nonce=ONE)
    with pytest.raises(ProtocolError, match="has none"):
        connector.receive(build_hello(CHANNEL, {}))


def test_administration_without_secret_is_for_this_host_only() -> None:
    connector, acceptor = pair(None, None, purpose=ADMIN, loopback=False)
    with pytest.raises(ProtocolError, match="this host only"):
        acceptor.receive(connector.first)
    connector, acceptor = pair("one", "one", purpose=ADMIN, loopback=False)
    shake(connector, acceptor)
    assert acceptor.done


def test_the_owner_may_refuse() -> None:
    def answer(hello: Hello) -> Mapping[str, Any]:
        raise ProtocolError("Not you.")

    acceptor = Acceptor(answer, secret=None, nonce=TWO, loopback=True)
    with pytest.raises(ProtocolError) as caught:
        acceptor.receive(build_hello(NETWORK, {"server": 1}))
    assert caught.value.answer == build_refusal("Not you.")


def test_an_answer_for_another_purpose_is_an_error() -> None:
    connector, _ = pair(None, None)
    with pytest.raises(ProtocolError, match="was answered for network"):
        connector.receive(build_hello(NETWORK, {}))


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (b"", "not a Quorate hello"),
        (b"GET / HTTP/1.1\r\n\r\n", "not a Quorate hello"),
        (b"\x91" * 4000, "not a Quorate hello"),
        (b"x" * (MAX_HELLO_BYTES + 1), "at most"),
        (msgspec.msgpack.encode(["joram", 1, CHANNEL, {}]), "not a Quorate hello"),
        (msgspec.msgpack.encode(["quorate", 2, CHANNEL, {}, "more"]), "speaks version 2"),
        (msgspec.msgpack.encode(["quorate", 1, CHANNEL]), "list of four"),
        (msgspec.msgpack.encode(["quorate", 1, CHANNEL, []]), "list of four"),
        (msgspec.msgpack.encode(["quorate", 1, CHANNEL, {1: 2}]), "list of four"),
        (msgspec.msgpack.encode(["quorate", 1, "gossip", {}]), "purpose"),
    ],
)
def test_a_frame_that_is_no_hello_is_one_sentence(frame: bytes, sentence: str) -> None:
    with pytest.raises(ProtocolError, match=sentence):
        parse_hello(frame)


@given(st.binary(max_size=200))
def test_garbage_is_never_more_than_a_protocol_error(frame: bytes) -> None:
    _, acceptor = pair("one", "one")
    with pytest.raises(ProtocolError):
        acceptor.receive(frame)


def test_fields_are_checked_when_they_are_read() -> None:
    hello = parse_hello(
        build_hello(NETWORK, {"server": "s0", "flag": True, "master": ["h", 1], "bad": ["h", 0]})
    )
    assert hello.text("server") == "s0"
    assert hello.address("master") == ("h", 1)
    assert hello.address("none") is None
    for read in (lambda: hello.integer("flag"), lambda: hello.text("none"), lambda: hello.address("bad")):
        with pytest.raises(ProtocolError):
            read()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_loopback_is_recognized_by_the_numeric_address(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_a_hello_has_a_bound() -> None:
    with pytest.raises(ValueError, match="at most"):
        build_hello(CHANNEL, {"cluster": "x" * MAX_HELLO_BYTES})
