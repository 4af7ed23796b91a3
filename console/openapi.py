"""The description of the HTTP API, as OpenAPI 3.1 has it. Pure."""

import inspect
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from .operations import NUMBERS, Operation
from .problems import PROBLEM_TYPE, ProblemDetails

__all__ = ["description"]

REF: Final = "#/components/schemas/{name}"
TEXT: Final = """The administration of a replica of Quorate.

Log in with `POST /session` as an administrator, or use a token that `quorate token` has made; send it in the
header `Authorization: Bearer TOKEN`. Operations that need the master are refused by other replicas with the
code `not-master` and the address of the master. Problems are as RFC 9457 has them."""


def description(operations: Sequence[Operation], version: str, base: str) -> dict[str, Any]:
    """Return the description. base: the path in which all paths are."""
    types: list[Any] = [ProblemDetails]
    for each in operations:
        types += [kind for kind in (each.body, each.result) if kind is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    by_type = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, by_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Quorate", "version": version, "description": TEXT},
        "servers": [{"url": base}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    where = "" if operation.anywhere else " Only the master does so."
    found: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": f"{operation.summary}{where}",
        "parameters": [*_path_parameters(operation), *_query_parameters(operation)],
        "responses": _responses(operation, schemas),
    }
    if operation.body is not None:
        schema = schemas[repr(operation.body)]
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if operation.open:
        found["security"] = []
    return found


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    number = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
    text = {"type": "string", "minLength": 1}
    return [
        {"name": name, "in": "path", "required": True, "schema": number if name in NUMBERS else text}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    (schema,), components = msgspec.json.schema_components([operation.query], ref_template="{name}")
    properties: dict[str, Any] = components[schema["$ref"]]["properties"]
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": each.pop("description", ""),
            "schema": each,
        }
        for name, each in properties.items()
    ]


def _responses(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    problem = {
        "description": "It was not done; the body says why.",
        "content": {PROBLEM_TYPE: {"schema": schemas[repr(ProblemDetails)]}},
    }
    found: dict[str, Any] = {}
    if operation.result is not None:
        text = inspect.getdoc(operation.result) if isinstance(operation.result, type) else None
        documented = text if text and issubclass(operation.result, msgspec.Struct) else operation.summary
        found["200"] = {
            "description": documented,
            "content": {"application/json": {"schema": schemas[repr(operation.result)]}},
        }
    if operation.result is None or not isinstance(operation.result, type):
        found["204"] = {"description": "It was done."}
    return {**found, "default": problem}
