"""Totals from the CSV by Spark SQL: no code of the agents takes part."""

from typing import Any

from .data import FlightFile
from .flights import HOURS, Numbers

_TYPES = {
    "carrier": "string",
    "tailnum": "string",
    "origin": "string",
    "dest": "string",
    "time_hour": "string",
}

Frame = Any
"""A Spark data frame; pyspark publishes no types that the checkers can follow."""


def totals_of_csv(spark: Any, flights: FlightFile) -> dict[str, Numbers]:
    """Totals of every airport and every carrier in the file, under the names the agents use."""
    header = flights.path.open().readline().strip().split(",")
    schema = ", ".join(f"{name} {_TYPES.get(name, 'bigint')}" for name in header)
    table = spark.read.csv(str(flights.path), schema=schema, header=True, nullValue="NA", mode="FAILFAST")
    airports = table.groupBy("origin").agg(
        *_counts(), *_delays("dep_delay"), *_hours(), _absent("dep_delay", "cancelled")
    )
    carriers = table.groupBy("carrier").agg(
        *_counts(),
        *_delays("arr_delay"),
        _absent("arr_delay", "not_flown"),
        _total("air_time", "air_time_sum"),
        _total("if(arr_delay is null, 0, distance)", "distance_sum"),
    )
    return _by_name(airports, "origin") | _by_name(carriers, "carrier")


def _expression(sql: str, name: str) -> Any:
    from pyspark.sql import functions

    return functions.expr(sql).alias(name)


def _total(sql: str, name: str) -> Any:
    return _expression(f"coalesce(sum({sql}), 0)", name)


def _absent(column: str, name: str) -> Any:
    return _expression(f"count_if({column} is null)", name)


def _counts() -> list[Any]:
    return [
        _expression("count(*)", "count"),
        _expression("max(row)", "last"),
        _expression("count(*) - count(distinct row)", "repeated"),
        _expression("sum(row)", "rows_sum"),
        _expression("sum(row * row)", "rows_squared_sum"),
    ]


def _delays(column: str) -> list[Any]:
    return [
        _total(column, "delay_sum"),
        _expression(f"min({column})", "delay_min"),
        _expression(f"max({column})", "delay_max"),
    ]


def _hours() -> list[Any]:
    columns: list[Any] = []
    for hour in range(HOURS):
        columns.append(
            _expression(f"count_if(hour = {hour} and dep_delay is not null)", f"flights_by_hour.{hour:02}")
        )
        columns.append(_total(f"if(hour = {hour}, dep_delay, 0)", f"delay_by_hour.{hour:02}"))
    return columns


def _by_name(frame: Frame, key: str) -> dict[str, Numbers]:
    rows = [row.asDict() for row in frame.collect()]
    return {str(row.pop(key)): row for row in rows}
