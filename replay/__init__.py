"""The trace of an agent server and its replay on Spark.

Every replica of a server writes a trace: one row per reaction (see ``docs/replay.md`` for the columns).
With the functions here a program reads those traces::

    from quorate.replay import reactions, rerun, spark_session, verify

    with spark_session() as spark:
        report = verify(spark, "data")                 # is every replica's trace whole, and do they agree?
        assert report.ok, report.problems
        frame = reactions(spark, "data", server="s0")  # a DataFrame, one row per reaction, replicas merged
        result = rerun(spark, "data", server="s0")     # every agent's reactions run again
        result.state("#0.0.1025")                      # {"balance": 12}

Nothing here imports pyspark before one of the functions is called.
"""

from .chains import Chain, Hop, SlowChain, SlowestReport, TypeLatency, chain, slowest
from .clients import ClientFlaw, Clients
from .errors import JavaNotFound, NoTrace, ReplayError, SparkMissing
from .exactly_once import Account, ExactlyOnceReport, Flaw, exactly_once
from .failovers import Failover, FailoverReport, failovers
from .garbage import DeadLetters, GarbageReport, IdleAgent, Keep, garbage
from .hot import HotAgent, HotReport, Load, Moment, hot
from .local import LocalSession, local_session
from .mesh_audit import DaemonAccount, MeshAudit, TopicAccount, audit_mesh
from .monitoring import monitor
from .order import Disorder, OrderReport, order
from .push import PushReport, push
from .regression import AgentChange, BisectReport, Breach, RegressionReport, bisect, regress
from .reports import AgentResult, Divergence, Report, RerunReport, ServerReport, Totals
from .rerun_job import rerun, state_at
from .session import register_source, spark_session
from .totals import reactions, totals
from .verification import verify
from .workload import WorkloadReport, workload

__all__ = [
    "Account",
    "AgentChange",
    "AgentResult",
    "BisectReport",
    "Breach",
    "Chain",
    "ClientFlaw",
    "Clients",
    "DaemonAccount",
    "DeadLetters",
    "Disorder",
    "Divergence",
    "ExactlyOnceReport",
    "Failover",
    "FailoverReport",
    "Flaw",
    "GarbageReport",
    "Hop",
    "HotAgent",
    "HotReport",
    "IdleAgent",
    "JavaNotFound",
    "Keep",
    "Load",
    "LocalSession",
    "MeshAudit",
    "Moment",
    "NoTrace",
    "OrderReport",
    "PushReport",
    "RegressionReport",
    "ReplayError",
    "Report",
    "RerunReport",
    "ServerReport",
    "SlowChain",
    "SlowestReport",
    "SparkMissing",
    "TopicAccount",
    "Totals",
    "TypeLatency",
    "WorkloadReport",
    "audit_mesh",
    "bisect",
    "chain",
    "exactly_once",
    "failovers",
    "garbage",
    "hot",
    "local_session",
    "monitor",
    "order",
    "push",
    "reactions",
    "register_source",
    "regress",
    "rerun",
    "slowest",
    "spark_session",
    "state_at",
    "totals",
    "verify",
    "workload",
]
