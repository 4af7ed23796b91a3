"""Every kind of broken file gets sentences with a line, and never a traceback."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.server.cli.check import command
from quorate.server.config import MAX_FILE_BYTES, ConfigError, load

from .config_texts import CM, TCP, cluster, one, two

Bad = Callable[[str | bytes], list[str]]

SYNTAX = {
    "empty": ("", "1: the file is empty"),
    "blank": ("  \n ", "1: the file is empty"),
    "not XML": ("server s0\n", "1: this is not XML"),
    "JSON": ('{"servers": []}', "1: this is not XML"),
    "HTML": ("<!doctype html><html></html>", "1: '<' is not followed by the name of an element"),
    "another XML": ('<?xml version="2.0"?><config/>', "1: the version of XML is not known"),
    "cut off in a tag": ("<config>\n</conf", "2: "),
    "cut off in CDATA": ("<config><![CDATA[ x", "1: a CDATA section is never closed"),
    "UTF-16 without a mark": (
        "<config>\n</config>".encode("utf-16-le"),
        "1: the file is UTF-16 or UTF-32 without a mark",
    ),
    "UTF-16 cut off": ("<config>\n</config>".encode("utf-16")[:-1], "2: a tag is not finished"),
    "EBCDIC": (
        '<?xml version="1.0" encoding="cp037"?><config/>'.encode("cp037"),
        "1: the encoding is not known",
    ),
    "unclosed root": ("<config>\n", "<config> of line 1 is never closed"),
    "wrong closing tag": (
        "<config>\n<domain name='a'>\n</config>",
        "3: <domain> of line 2 is closed by </config>",
    ),
    "unquoted value": (
        "<config>\n<domain name=D1/></config>",
        "2: the value of an attribute must be in quotes",
    ),
    "no value": ("<config>\n<domain name/></config>", "2: the attribute name has no value"),
    "attribute twice": (
        '<config>\n<domain name="a" name="b"/></config>',
        "2: the attribute name is given twice",
    ),
    "lone ampersand": ('<config>\n<domain name="a & b"/></config>', "2: a lone '&'"),
    "less-than in a value": ('<config>\n<domain name="a<b"/></config>', "2: a value holds '<'"),
    "undefined entity": ("<config>\n&host;</config>", "2: &host; is not defined"),
    "two roots": ("<config/>\n<config/>", "2: something follows"),
    "bad comment": ("<config>\n<!-- a -- b --></config>", "2: '--' is not allowed"),
    "open comment": ("<config>\n<!-- a </config>", "a comment is never closed"),
    "prefix": ("<config>\n<q:domain name='a'/></config>", "2: the prefix q: is not defined"),
    "control character": (b"<config>\n<domain name='a\x01'/></config>", "2: "),
    "null byte": (b"\x00\x01\x02", "1: "),
    "latin-1 as UTF-8": (
        "<config>\n<!-- é --></config>".encode("latin-1"),
        "2: the text is not in the encoding",
    ),
    "unknown encoding": (b'<?xml version="1.0" encoding="klingon"?><config/>', "1: the encoding klingon"),
    "false UTF-16": (
        b'<?xml version="1.0" encoding="UTF-16"?><config/>',
        "1: the file declares the encoding UTF-16",
    ),
    "XML version": (b'<?xml version="9"?><config/>', "1: "),
    "too deep": ("<config>" + "<a>" * 400, "1: elements are nested too deeply"),
    "internal entity": (
        '<!DOCTYPE config [<!ENTITY h "x">]>\n<config name="&h;"/>',
        "1: the DOCTYPE holds definitions",
    ),
    "external entity": (
        '<!DOCTYPE config [<!ENTITY h SYSTEM "file:///etc/hostname">]>\n<config>&h;</config>',
        "1: the DOCTYPE holds definitions",
    ),
    "parameter entity": (
        '<!DOCTYPE config [<!ENTITY % p SYSTEM "http://127.0.0.1:9/x.dtd"> %p;]>\n<config/>',
        "1: the DOCTYPE holds definitions",
    ),
    "entity of a foreign DTD": (
        '<!DOCTYPE config SYSTEM "http://127.0.0.1:9/x.dtd">\n<config name="&h;"/>',
        "2: &h; is an entity",
    ),
    "billion laughs": (
        "<!DOCTYPE config [<!ENTITY a0 'ha'>"
        + "".join(f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>" for i in range(1, 10))
        + "]>\n<config name='&a9;'/>",
        "entities expand too much",
    ),
    "XInclude": (
        '<config xmlns:xi="http://www.w3.org/2001/XInclude">\n<xi:include href="/etc/hostname"/></config>',
        "2: XInclude is not supported",
    ),
}


@pytest.mark.parametrize("kind", SYNTAX)
def test_a_file_that_is_not_sound_xml_is_explained(kind: str, bad: Bad) -> None:
    content, expected = SYNTAX[kind]
    problems = bad(content)
    assert any(expected in problem for problem in problems), problems


STRUCTURE = {
    "another root": ("<beans/>", "1: the root element is <beans>; it must be <config>"),
    "namespace": ('<config xmlns="urn:x"/>', "it must be <config>: remove the xmlns attribute"),
    "misspelt element": (
        one("<netwrok domain='a' port='1'/>"),
        "3: <netwrok> is not an element of <server>; did you mean",
    ),
    "unknown element": (one("<zoo/>"), "3: <zoo> is not an element of <server>; remove it: it may hold"),
    "misplaced": (one("<domain name='a'/>"), "3: <domain> cannot stand in <server>; move it into <config>"),
    "child of an empty element": (
        one("<property name='a' value='b'><x/></property>"),
        "3: <x> is not an element",
    ),
    "config in config": ("<config><config/></config>", "1: <config> cannot stand in <config>"),
    "cluster in cluster": (cluster(extra="<cluster id='1'/>"), "3: <cluster> cannot stand in <cluster>"),
    "misspelt attribute": (
        one("<network domain='D1' prot='1'/>"),
        "3: <network> has no attribute prot; did you mean port?",
    ),
    "unknown attribute": (
        one(attributes="id='0' hostname='a' colour='red'"),
        "2: <server> has no attribute colour",
    ),
    "missing attribute": (one(attributes="id='0'"), "2: <server> needs the attribute hostname"),
    "wrong choice": (cluster('ack="SOME"'), "2: ack must be ALL or MAJORITY, not 'SOME'"),
    "wrong durability": (cluster('durability="stone"'), "2: durability must be disk or memory"),
    "wrong mode": (cluster('mode="magic"'), "2: mode must be ha, group or mesh"),
    "text": (one("a word"), "2: <server> holds the text 'a word'"),
    "CDATA": (one("<![CDATA[<x>]]>"), "2: <server> holds the text '<x>'"),
}


def causal(second: str, *servers: str) -> str:
    """Domains A, with causal order, and B and C; each server is the letters of its domains."""
    declared = "".join(
        f"<server id='{id}' hostname='h{id}'>"
        + "".join(f"<network domain='{domain}' port='{port}'/>" for port, domain in enumerate(domains, 1))
        + "</server>"
        for id, domains in enumerate(servers)
    )
    return (
        "<config><property name='insecure_network' value='true'/><domain name='A' ordering='causal'/>\n"
        f"<domain name='B'{second}/>\n<domain name='C'{second}/>{declared}</config>"
    )


MEANING = {
    "causal domain with two ways": (
        causal("", "AB", "AB", "C", "BC"),
        "2: s0 and s1 are both in the domains 'A' and 'B', and ordering=\"causal\" needs a single way",
    ),
    "circle of causal domains": (
        causal(" ordering='causal'", "AB", "BC", "CA"),
        "3: the domain 'C' closes a circle of domains",
    ),
    "no server": ("<config/>", "1: no server is declared"),
    "id not a number": (one(attributes="id='zero' hostname='a'"), "2: the id 'zero' is not usable"),
    "id too large": (one(attributes="id='65536' hostname='a'"), "2: the id '65536' is not usable"),
    "negative id": (one(attributes="id='-1' hostname='a'"), "2: the id '-1' is not usable"),
    "superscript id": (one(attributes="id='²' hostname='a'"), "2: the id '²' is not usable"),
    "name with @": (
        one(attributes="id='0' name='a@b' hostname='a'"),
        "2: the name 'a@b' of <server> is not usable",
    ),
    "name of digits": (one(attributes="id='0' name='12' hostname='a'"), "2: the name '12'"),
    "empty name": (one(attributes="id='0' name='' hostname='a'"), "2: the name ''"),
    "bad host": (one(attributes="id='0' hostname='a b'"), "2: the hostname 'a b' is not usable"),
    "empty host": (one(attributes="id='0' hostname=''"), "2: the hostname ''"),
    "bad IP address": (one(attributes="id='0' hostname='1.2.3.400'"), "2: the hostname '1.2.3.400'"),
    "unspecified host": (one(attributes="id='0' hostname='0.0.0.0'"), "2: the hostname '0.0.0.0'"),
    "port and host in one": (
        one(attributes="id='0' hostname='localhost:80'"),
        "2: the hostname 'localhost:80'",
    ),
    "port not a number": (
        two("<server id='1' hostname='a'><network domain='D1' port='x'/></server>"),
        "4: the port 'x'",
    ),
    "encrypted domain": (
        one().replace("<config>", "<config><domain name='D1' network='fr.dyade.aaa.agent.HttpsNetwork'/>"),
        "1: network='fr.dyade.aaa.agent.HttpsNetwork' encrypts the connections of the domain",
    ),
    "port 0": (
        two("<server id='1' hostname='a'><network domain='D1' port='0'/></server>"),
        "4: the port '0' is not usable since others must know it before they connect",
    ),
    "port too large": (
        two("<server id='1' hostname='a'><network domain='D1' port='65536'/></server>"),
        "4: the port",
    ),
    "port taken": (
        two("<server id='1' hostname='A'><network domain='D1' port='10'/></server>"),
        "4: port 10 on A is taken by the network of line 2",
    ),
    "port taken by a service": (
        one(f'<network domain="D" port="5"/>\n{CM}{TCP.format(5)}').replace(
            "<config>", '<config><domain name="D"/>'
        ),
        "4: port 5 on localhost is taken by the network of line 3",
    ),
    "loopback is one host, and all may stand on one line": (
        '<config><domain name="D"/>'
        '<server id="0" hostname="localhost"><network domain="D" port="5"/></server>'
        '<server id="1" hostname="127.0.0.1"><network domain="D" port="5"/></server></config>',
        "1: port 5 on 127.0.0.1 is taken by the network of line 1",
    ),
    "same id": (
        two("<server id='0' hostname='b'><network domain='D1' port='1'/></server>"),
        "4: the id 0 is that of s0",
    ),
    "same name": (
        two("<server id='1' name='s0' hostname='b'><network domain='D1' port='1'/></server>"),
        "4: the name 's0' is taken (line 1)",
    ),
    "a cluster and a server of one id": (
        two(
            "<cluster id='0' name='c'><server id='0' hostname='b'>"
            "<network domain='D1' port='1'/></server></cluster>"
        ),
        "4: the id 0 is that of s0",
    ),
    "same replica id": (
        cluster(extra="<server id='1' hostname='x'><network domain='D1' port='1'/></server>"),
        "5: replica 1",
    ),
    "unknown domain": (
        two(
            "<server id='1' hostname='b'>"
            "<network domain='D2' port='1'/><network domain='D1' port='2'/></server>"
        ),
        "4: the domain 'D2' is not declared",
    ),
    "misspelt domain of a server": (
        two("<server id='1' hostname='b'><network domain='D2' port='1'/></server>"),
        "4: the domain 'D2' is not declared",
    ),
    "misspelt domain of a replica": (
        cluster().replace('h2"><network domain="D1"', 'h2"><network domain="D2"'),
        "6: the domain 'D2' is not declared",
    ),
    "refused name of a domain that is used": (
        cluster().replace('"D1"', '"D 1"'),
        "1: the name 'D 1' of <domain> is not usable",
    ),
    "domain twice": (
        cluster().replace("<cluster", "<domain name='D1'/><cluster"),
        "2: the domain 'D1' is declared on line 1",
    ),
    "domain twice on one line": (
        cluster().replace("\n<cluster", "<domain name='D1'/>\n<cluster"),
        "1: the domain 'D1' is declared on line 1",
    ),
    "bad domain name": (
        cluster().replace("<cluster", "<domain name='a b'/><cluster"),
        "2: the name 'a b' of <domain>",
    ),
    "two networks in a domain": (
        cluster(
            extra="<server id='9' hostname='x'>"
            "<network domain='D1' port='1'/><network domain='D1' port='2'/></server>"
        ),
        "3: a second network in the domain 'D1'",
    ),
    "no replicas": (cluster(replicas=0), "2: the cluster s0 has no replicas"),
    "too many replicas": (cluster(replicas=16), "2: s0 has 16 replicas; at most 15"),
    "replica without network": (
        cluster(extra="<server id='9' hostname='x'/>"),
        "3: replica 9 of s0 has no network",
    ),
    "server without network": (two("<server id='1' hostname='b'/>"), "4: s1 has no network"),
    "other domains in one cluster": (
        cluster()
        .replace('h2"><network domain="D1"', 'h2"><network domain="D2"')
        .replace("<config>", "<config><domain name='D2'/>"),
        "6: replica 2 of s0 is in domain D2, replica 0 in domain D1",
    ),
    "other services in one cluster": (
        cluster().replace('h2">', f'h2">{CM}'),
        "6: replicas 0 and 2 of s0 differ in ConnectionManager",
    ),
    "unreachable": (
        two(
            "<server id='1' hostname='b'><network domain='D2' port='1'/></server>",
            "<domain name='D1'/><domain name='D2'/>",
        ),
        "4: s1 cannot be reached from s0",
    ),
    "expected half": (
        cluster('nbClusterExpected="2"', replicas=4),
        "2: nbClusterExpected is 2, but s0 has 4 replicas; give from 3 to 4",
    ),
    "expected too many": (
        cluster('nbClusterExpected="4"'),
        "2: nbClusterExpected is 4, but s0 has 3 replicas; give from 2 to 3",
    ),
    "expected zero": (cluster('nbClusterExpected="0"'), "2: nbClusterExpected must be a number of replicas"),
    "expected a word": (
        cluster(extra='<property name="nbClusterExpected" value="all"/>'),
        "3: nbClusterExpected must be",
    ),
    "expected in common": (
        cluster().replace("<cluster", '<property name="nbClusterExpected" value="1"/><cluster'),
        "2: nbClusterExpected is 1",
    ),
    "expected differs": (
        cluster('nbClusterExpected="2"', extra='<property name="nbClusterExpected" value="3"/>'),
        "3: nbClusterExpected is 3 here and 2 on line 2",
    ),
    "expected on a plain server": (
        one(attributes='id="0" hostname="a" nbClusterExpected="3"'),
        "2: nbClusterExpected is 3, but s0 has 1 replica; give 1",
    ),
    "ack on a replica": (cluster().replace('h1"', 'h1" ack="ALL"'), "5: ack is the same for all replicas"),
    "local context": (
        cluster('mode="group" context="local" durability="memory"'),
        '2: context="local" keeps what clients have not got on the disks',
    ),
    "context without groups": (cluster('context="replicated"'), '2: context belongs to mode="group"'),
    "property twice": (
        one("<property name='a' value='1'/>\n<property name='a' value='2'/>"),
        "4: the property 'a' is set twice",
    ),
    "an attribute as a property": (
        cluster(extra='<property name="min_copies" value="2"/>'),
        "3: min_copies is not a property but an attribute of <cluster>: write it there",
    ),
    "property with a bad number": (
        one("<property name='heartbeat_s' value='soon'/>"),
        "3: the property heartbeat_s must be a number of seconds from 0.001 to 86399, not 'soon'",
    ),
    "property out of range": (
        one("<property name='max_frame' value='1'/>"),
        "3: the property max_frame must be a whole number from 4096 to",
    ),
    **{
        f"property {name} of 0": (
            one(f"<property name='{name}' value='0'/>"),
            f"3: the property {name} must be a whole number from 1 to",
        )
        for name in ("batch_notes", "high_water", "max_turn", "max_waiting", "snapshot_bytes")
    },
    "heartbeats rarer than the patience": (
        one("<property name='suspect_s' value='3'/>\n<property name='heartbeat_s' value='1'/>"),
        "4: suspect_s is 3 and heartbeat_s is 1: live replicas would be suspected; give suspect_s at least 4",
    ),
    "a patience shorter than the default heartbeats": (
        cluster(extra="<property name='suspect_s' value='0.1'/>"),
        "3: suspect_s is 0.1 and heartbeat_s is 0.05",
    ),
    "a lease shorter than two heartbeats": (
        cluster(extra="<property name='lease_s' value='0.06'/>"),
        "3: lease_s is 0.06 and heartbeat_s is 0.05: no lease could be prolonged; give lease_s at least 0.1",
    ),
    "more connections than a turn can tell": (
        one(f"{CM}\n{TCP.format(2560)}\n<property name='max_turn' value='10000'/>"),
        "5: max_turn is 10000 and max_connections is 10000",
    ),
    "property neither true nor false": (
        one("<property name='trace' value='maybe'/>"),
        "3: the property trace must",
    ),
    "empty secret": (one("<property name='secret' value=''/>"), "3: the property secret must not be empty"),
    "a property that replicas must share": (
        cluster(
            extra="<server id='9' hostname='x'><property name='max_turn' value='7'/>"
            "<network domain='D1' port='1'/></server>"
        ),
        "2: the replicas of s0 differ in the property max_turn",
    ),
    "property without a name": (one("<property name='' value='1'/>"), "3: a property has an empty name"),
    "nat of nobody": (one("<nat sname='s9' hostname='a' port='1'/>"), "3: there is no server 's9'"),
    "nat of a cluster": (
        cluster().replace(
            "</cluster>",
            "</cluster>"
            '<server id="7" hostname="z"><network domain="D1" port="1"/>\n'
            '<nat sname="s0" hostname="a" port="1"/></server>',
        ),
        "8: s0 has several replicas",
    ),
    "nat of no replica": (
        one("<nat sname='0' replica='4' hostname='a' port='1'/>"),
        "3: s0 has no replica 4",
    ),
    "nat with a bad port": (one("<nat sname='0' hostname='a' port='eighty'/>"), "3: the port 'eighty'"),
    "nat twice": (
        one("<nat sname='0' hostname='a' port='1'/>\n<nat sname='s0' hostname='b' port='1'/>"),
        "4: a second nat",
    ),
}


@pytest.mark.parametrize("kind", STRUCTURE)
def test_a_departure_from_the_dtd_is_reported_in_plain_words(kind: str, bad: Bad) -> None:
    content, expected = STRUCTURE[kind]
    problems = bad(content)
    assert any(expected in problem for problem in problems), problems


@pytest.mark.parametrize("kind", MEANING)
def test_each_mistake_is_reported_once_and_with_its_line(kind: str, bad: Bad) -> None:
    content, expected = MEANING[kind]
    problems = bad(content)
    assert len(problems) == 1, problems
    assert problems[0].startswith(expected), problems


def test_all_problems_of_a_file_come_at_once_in_the_order_of_the_lines(bad: Bad) -> None:
    problems = bad(
        '<config><domain name="D1"/>\n'
        '<cluster id="0" name="s0" ack="SOME">\n'
        '<server id="0" hostname="a b"><network domain="D1" port="x"/></server>\n'
        '<server id="0" hostname="c"><netwrok/></server>\n'
        "</cluster>\n"
        '<server id="0" name="s0"/></config>'
    )
    assert [problem.partition(":")[0] for problem in problems] == ["2", "3", "3", "4", "4", "6", "6"]


def test_a_thousand_problems_are_counted_and_not_printed(bad: Bad) -> None:
    problems = bad("<config>" + "\n<zoo/>" * 1000 + "</config>")
    assert len(problems) == 101
    assert problems[-1].startswith("0: 900 more problems")


def test_a_line_is_that_of_the_beginning_of_the_element(bad: Bad) -> None:
    problems = bad(
        "<!-- a\n comment <x> -->\n<config>\n<server id='0'\n hostname='a'\n colour='b'>\n</server></config>"
    )
    assert problems[0].startswith("4: <server> has no attribute colour")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "iso-8859-1"])
def test_lines_are_right_in_other_encodings(encoding: str, bad: Bad) -> None:
    declared = f'<?xml version="1.0" encoding="{encoding}"?>\n' if encoding == "iso-8859-1" else "\n"
    if encoding == "utf-16":
        declared = '<?xml version="1.0" encoding="utf-16"?>\n'
    text = f"{declared.strip()}<config>\n<!-- é -->\n<zoo/></config>"
    assert bad(text.encode(encoding))[0].startswith("3: <zoo>")


def _refused(path: Path | str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert len(caught.value.problems) == 1
    return str(caught.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    assert _refused(tmp_path / "no.xml") == f"{tmp_path / 'no.xml'}: there is no such file; check the path."


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert "this is a directory" in _refused(tmp_path)
    assert _refused("").startswith(".: this is a directory")


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in _refused(tmp_path / "pipe")


def test_a_path_below_a_file_is_refused(write: Callable[[str], Path]) -> None:
    assert "cannot be read" in _refused(write("<config/>") / "below")


def test_a_path_with_a_null_byte_is_refused() -> None:
    assert "not a usable path" in _refused(Path("a\0b"))


def test_an_unreadable_file_is_refused(write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("<config/>")

    def deny(*args: object, **kwargs: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", deny)  # the tests may run as root, who may read everything
    assert "permission denied" in _refused(path)


def test_a_huge_file_is_refused_before_it_is_parsed(write: Callable[[str], Path]) -> None:
    path = write("<config><!--" + "x" * MAX_FILE_BYTES + "--></config>")
    assert "larger than 1024 KiB" in _refused(path)


def test_check_prints_problems_on_the_standard_error_and_exits_1(write: Callable[[str], Path]) -> None:
    path = write("<config>\n<zoo/>\n<park/></config>")
    result = CliRunner().invoke(command, [str(path)])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert [line.split(": ")[0] for line in result.stderr.splitlines()] == [f"{path}:2", f"{path}:3"]


def test_check_prints_notes_beside_problems(write: Callable[[str], Path]) -> None:
    path = write('<config>\n<property name="Transaction" value="x"/>\n<zoo/></config>')
    result = CliRunner().invoke(command, [str(path)])
    assert result.exit_code == 1
    assert result.stdout.startswith(f"note: {path}:2: ")
    assert result.stderr.startswith(f"{path}:3: ")


PIECES = st.sampled_from(
    [
        *(
            "<config>",
            "</config>",
            "<server id='0' hostname='a'>",
            "</server>",
            "<domain name='D1'/>",
            "\n",
            " ",
        ),
        *(
            "<cluster id='1'>",
            "</cluster>",
            "<network domain='D1' port='1'/>",
            "<!--",
            "-->",
            "<![CDATA[",
            "]]>",
        ),
        *(
            "<!DOCTYPE config [",
            "]>",
            "<!ENTITY a 'b'>",
            "&a;",
            "&",
            "<",
            "'",
            "\x00",
            "é",
            "<?xml version='1.0'?>",
        ),
        *(
            "<service class='a.b'/>",
            "<nat sname='s0' hostname='a' port='2'/>",
            "<property name='a' value=''/>",
        ),
    ]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PIECES, max_size=14).map("".join) | st.binary(max_size=60))
def test_no_bytes_make_the_loader_fail_in_another_way(
    write: Callable[..., Path], content: str | bytes
) -> None:
    try:
        load(write(content), check_imports=False)
    except ConfigError as error:
        assert error.problems  # noqa: PT017
