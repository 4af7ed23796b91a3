"""Agents in a configuration: what is read, and what is refused with its line."""

from collections.abc import Callable

import pytest

from quorate.server.config import Config, DeclaredAgent

from .config_texts import cluster, one

Good = Callable[[str], Config]
Bad = Callable[[str | bytes], list[str]]

ALICE = '<agent class="examples.bank:Account" name="alice" args=\'{"balance": 5}\'/>'


def test_agents_of_a_server_and_of_a_cluster_are_read(good: Good) -> None:
    bob = '<agent class="examples.bank.Account" name="bob"/>'
    alice = DeclaredAgent("examples.bank:Account", "alice", '{"balance": 5}')
    assert good(one(ALICE + bob)).servers[0].agents == (
        alice,
        DeclaredAgent("examples.bank:Account", "bob", "{}"),
    )
    assert good(cluster(extra=ALICE)).servers[0].agents == (alice,)


@pytest.mark.parametrize(
    ("element", "problem"),
    [
        ('class="examples.bank:Account" name="a@b"', "is not usable; use up to 255"),
        ('class="examples.bank:Account" name=""', "is not usable; use up to 255"),
        ('class="bank" name="a"', "is not the name of a class; write package.module:Class"),
        ('class="nowhere.bank:Account" name="a"', "there is no module 'nowhere' here"),
        ('class="examples.bank:Konto" name="a"', "correct the name of the class"),
        ('class="examples.bank:Deposit" name="a"', "is not a class of agents; derive it from quorate.Agent"),
        ('class="examples.bank:Account" name="a" args="5"', "is a JSON object of its first attributes"),
        (
            'class="examples.bank:Account" name="a" args="{\'b\': 5}"',
            "is a JSON object of its first attributes",
        ),
        ('class="examples.bank:Account" name="a" args=\'{"balance": "x"}\'', "Expected `int`, got `str`"),
        ('class="examples.bank:Account"', "name"),
    ],
)
def test_an_agent_that_cannot_be_created_is_a_problem_of_its_line(
    bad: Bad, element: str, problem: str
) -> None:
    (found,) = bad(one(f"<agent {element}/>"))
    assert found.startswith("3: ")
    assert problem in found


def test_a_name_is_declared_once(bad: Bad) -> None:
    assert bad(one(f"{ALICE}\n{ALICE}")) == ["4: the agent 'alice' stands on line 3 already; keep one."]


def test_an_agent_in_a_replica_is_to_be_moved_to_the_cluster(bad: Bad) -> None:
    text = cluster().replace('port="10"/></server>', f'port="10"/>{ALICE}</server>', 1)
    assert bad(text) == ["4: agents are the same on all replicas; move <agent> into the <cluster>."]
