"""How a request over HTTP leads to an operation, and the description of all of them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from quorate.console.api.agents import AgentsQuery
from quorate.console.api.fields import PageQuery, address_of
from quorate.console.console import OPERATIONS
from quorate.console.openapi import description
from quorate.console.operations import MethodProblem, Routes, parsed
from quorate.console.problems import TITLES, Problem

ROUTES = Routes(OPERATIONS)


def test_a_path_leads_to_an_operation_and_its_parts() -> None:
    operation, parts = ROUTES.find("DELETE", ["agents", "a/b", "timers", "7"])
    assert (operation.name, parts) == ("cancelTimer", {"agent": "a/b", "number": "7"})
    assert ROUTES.find("HEAD", ["agents"])[0].name == "listAgents"
    assert ROUTES.find("POST", ["transactions", "commit"])[0].name == "commitTransaction"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", [""], 404),
        ("GET", ["agents", ""], 404),
        ("GET", ["nothing"], 404),
        ("DELETE", ["agents", "a", "timers", "-1"], 400),
        ("DELETE", ["agents", "a", "timers", "1e3"], 400),
        ("DELETE", ["dead-letters", "9" * 30], 400),
        ("PATCH", ["agents"], 405),
    ],
)
def test_wrong_paths_are_refused(method: str, path: list[str], status: int) -> None:
    with pytest.raises(Problem) as found:
        ROUTES.find(method, path)
    assert found.value.status == status


def test_the_methods_of_a_path_are_named() -> None:
    with pytest.raises(MethodProblem) as found:
        ROUTES.find("PUT", ["agents"])
    assert found.value.allowed == ["GET", "HEAD", "POST"]
    assert str(found.value) == "This path has the methods GET, HEAD, POST."


def test_parameters_of_a_query() -> None:
    assert parsed(PageQuery, [("limit", "5")]) == PageQuery(0, 5)
    assert parsed(AgentsQuery, [("class", "a:B"), ("platform", "true")]) == AgentsQuery("a:B", platform=True)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ([("limit", "0")], "The parameters are wrong: Expected `int` >= 1 - at `$.limit`."),
        ([("limit", "x")], "The parameters are wrong: Expected `int`, got `str` - at `$.limit`."),
        ([("limit", "1"), ("limit", "2")], "The parameter 'limit' is there twice."),
        ([("page", "1")], "There is no parameter 'page'; it takes after, limit."),
    ],
)
def test_wrong_parameters_are_refused(query: list[tuple[str, str]], sentence: str) -> None:
    with pytest.raises(Problem) as found:
        parsed(PageQuery, query)
    assert str(found.value) == sentence


@pytest.mark.parametrize(
    ("text", "address"),
    [("alice", "alice"), ("0.0.1025", "#0.0.1025"), ("#0.0.1025", "#0.0.1025"), ("1.2", "1.2")],
)
def test_addresses_of_agents(text: str, address: str) -> None:
    assert str(address_of(text)) == address


def test_a_wrong_id_is_refused() -> None:
    with pytest.raises(Problem):
        address_of("#0.x")


DESCRIBED: dict[str, Any] = json.loads(json.dumps(description(OPERATIONS, "1.0", "/api/v1")))


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DESCRIBED["paths"].items():
        for method, each in methods.items():
            yield path, method, each


def test_every_operation_has_its_own_name() -> None:
    names = [each["operationId"] for _, _, each in operations()]
    assert len({*names}) == len(names) == len(OPERATIONS)


def test_every_parameter_in_a_path_is_described() -> None:
    for path, _, each in operations():
        described = [given["name"] for given in each["parameters"] if given["in"] == "path"]
        assert described == re.findall(r"{(\w+)}", path)


def test_every_reference_leads_to_a_schema() -> None:
    found = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DESCRIBED))
    assert found
    assert {*found} == DESCRIBED["components"]["schemas"].keys()


def test_what_changes_something_is_no_reading() -> None:
    for each in OPERATIONS:
        if each.method != "GET" and each.name not in ("logIn", "logOut"):
            assert not each.for_readers, each.name


@pytest.mark.parametrize("code", TITLES)
def test_problems_have_titles(code: str) -> None:
    details = Problem(400, code, "It is so.").details
    assert (details.title, details.detail) == (TITLES[code], "It is so.")
