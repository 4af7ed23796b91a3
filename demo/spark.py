"""Totals from the CSV by Spark SQL, without any code of the agents."""

from typing import Any

from .data import FlightFile
from .flights import HOURS, Number, Numbers

_TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})

_PARTS = """
select origin, carrier, hour,
       count(*) as flights, max(row) as last, sum(row) as rows_sum, sum(row * row) as rows_squared_sum,
       count(dep_delay) as departed, sum(dep_delay) as dep_sum,
       min(dep_delay) as dep_min, max(dep_delay) as dep_max,
       count(arr_delay) as arrived, sum(arr_delay) as arr_sum,
       min(arr_delay) as arr_min, max(arr_delay) as arr_max,
       sum(air_time) as air_time_sum, sum(if(arr_delay is null, 0, distance)) as distance_sum
from {flights} group by origin, carrier, hour
"""
_AIRPORTS = """
select origin as agent,
       sum(flights) as count, max(last) as last, 0 as repeated,
       sum(rows_sum) as rows_sum, sum(rows_squared_sum) as rows_squared_sum,
       sum(flights - departed) as cancelled,
       coalesce(sum(dep_sum), 0) as delay_sum, min(dep_min) as delay_min, max(dep_max) as delay_max
from {parts} group by origin
"""
_HOURS = """
select origin as agent, hour, sum(departed) as flights, coalesce(sum(dep_sum), 0) as delay
from {parts} group by origin, hour
"""
_CARRIERS = """
select carrier as agent,
       sum(flights) as count, max(last) as last, 0 as repeated,
       sum(rows_sum) as rows_sum, sum(rows_squared_sum) as rows_squared_sum,
       sum(flights - arrived) as not_flown,
       coalesce(sum(arr_sum), 0) as delay_sum, min(arr_min) as delay_min, max(arr_max) as delay_max,
       coalesce(sum(air_time_sum), 0) as air_time_sum, sum(distance_sum) as distance_sum
from {parts} group by carrier
"""


def totals_of_csv(spark: Any, flights: FlightFile) -> dict[str, Numbers]:
    """Return the totals of every airport and carrier in the file, under the names that the agents use.

    `spark` is a SparkSession. A line that cannot be read is an error of Spark.
    """
    with flights.path.open() as lines:
        columns = lines.readline().strip().split(",")
    schema = ", ".join(f"{name} {'string' if name in _TEXTS else 'bigint'}" for name in columns)
    table = spark.read.csv(str(flights.path), schema=schema, header=True, nullValue="NA", mode="FAILFAST")
    parts = spark.sql(_PARTS, flights=table).cache()
    totals: dict[str, Numbers] = {}
    for query in (_AIRPORTS, _CARRIERS):
        for row in spark.sql(query, parts=parts).collect():
            numbers: dict[str, Any] = row.asDict()
            totals[str(numbers.pop("agent"))] = numbers
    for airport in flights.origins:
        zeros: dict[str, Number] = dict.fromkeys(
            [f"{name}.{hour:02}" for name in ("flights_by_hour", "delay_by_hour") for hour in range(HOURS)], 0
        )
        totals[airport].update(zeros)
    for row in spark.sql(_HOURS, parts=parts).collect():
        totals[row["agent"]][f"flights_by_hour.{row['hour']:02}"] = row["flights"]
        totals[row["agent"]][f"delay_by_hour.{row['hour']:02}"] = row["delay"]
    return totals
