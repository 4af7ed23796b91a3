"""A Spark session, on this machine or on a cluster."""

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile

from .errors import ReplayError, require
from .java import find_java, wrapper_home
from .local import available_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_source", "spark_session", "submitted"]

MAX_SHUFFLE_PARTITIONS = 64
ARROW_BATCH_BYTES = 32 * 1024 * 1024
LINE_SHOWN = 300
FILTERS = "spark.sql.python.filterPushdown.enabled"
"""The setting that lets Spark ask a data source in Python for some rows only."""

# What an installed Spark of another version, or a notebook's settings, would do to a local session.
FOREIGN = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_REMOTE",
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_DRIVER_PYTHON",
    "SPARK_CONNECT_MODE_ENABLED",
)

GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Set by ``spark-submit``, whose options then decide where the work is done."""

LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
"""


def spark_session(
    name: str = "quorate replay",
    *,
    cores: int | None = None,
    memory: str = "1g",
    brief: bool = False,
    master: str | None = None,
    py_files: Sequence[str] = (),
) -> "SparkSession":
    """Return a quiet Spark session; a session that is already active is returned as it is.

    It is a context manager: leaving the ``with`` block stops Spark. Without a ``master`` it is local: it
    needs no network, and listens on the loopback interface only. ``cores`` is how many it uses (default:
    all), ``memory`` the size of its heap. ``brief`` is for work of about a minute: Java compiles quickly
    then, and not as well.

    ``master`` is a cluster, such as ``spark://host:7077``; below ``spark-submit`` it is that of its options.
    This package and the ``py_files`` (modules, zip files, wheels) are sent to the workers, which need the
    same version of Python with the libraries of ``quorate[replay]``, and see the traces under the same paths.
    Raises SparkMissing or JavaNotFound (both ReplayError) with a sentence that says what to install.
    """
    spark_type, running = spark_api()
    active: SparkSession | None = spark_type.getActiveSession()
    if active is not None:
        return active
    missing = [each for each in py_files if "://" not in each and not Path(each).is_file()]
    if missing:
        raise ReplayError(f"there is no file {missing[0]} to send to the workers.")
    here = master is None and not submitted()
    place = work_directory()
    log = place / "spark.log"
    environment = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    if here:
        environment = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    if not running and not submitted():
        check_user()
        environment["JAVA_HOME"] = str(wrapper_home(find_java(), place / "java", log))
    builder: Any = spark_type.builder.appName(name)
    if not submitted():
        builder = builder.master(master or f"local[{cores or available_cores()}]")
        for key, value in settings(place, log, memory, brief=brief).items():
            builder = builder.config(key, value)
    if here:
        for key, value in local_settings(place, cores or available_cores()).items():
            builder = builder.config(key, value)
    for key, value in SQL_SETTINGS.items():
        builder = builder.config(key, value)
    with changed_environment(environment, hidden=() if submitted() else FOREIGN):
        try:
            session: SparkSession = builder.getOrCreate()
        except Exception as error:
            raise ReplayError(f"Spark did not start: {failure_line(log) or error}") from error
    if not here:
        ship(session, place, py_files)
    register_source(session)
    return session


def submitted() -> bool:
    """Return whether this process was started by ``spark-submit``."""
    return GATEWAY in os.environ


def ship(spark: "SparkSession", place: Path, py_files: Sequence[str]) -> None:
    """Send this package and some files to the workers."""
    context: Any = spark.sparkContext
    context.addPyFile(str(packed_package(place)))
    for each in py_files:
        context.addPyFile(each)


def packed_package(place: Path) -> Path:
    """Write this package to a zip file, and return its path."""
    package = Path(__file__).parent.parent
    packed = place / "quorate_package.zip"
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        for directory, names, files in os.walk(package, followlinks=True):
            names[:] = [name for name in names if name != "__pycache__"]
            for name in files:
                if not name.endswith(".pyc"):
                    path = Path(directory, name)
                    archive.write(path, Path("quorate", path.relative_to(package)))
    return packed


def register_source(spark: "SparkSession") -> None:
    """Let a session read traces: ``spark.read.format("quorate")`` and ``spark.readStream.format("quorate")``.

    The workers need this package too. Sessions of `spark_session` have it already.
    """
    source: Any = import_module("quorate.replay.data_source")
    spark.dataSource.register(source.QuorateDataSource)
    spark.conf.set(FILTERS, "true")


def spark_api() -> tuple[Any, bool]:
    """Return the class SparkSession, and whether this process already has a Java runtime for it."""
    # PySpark 4 warns of pandas 3, of which nothing is used here.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    require("pandas", "pyarrow", "pyspark", "pyspark.sql")
    core: Any = import_module("pyspark")
    sql: Any = import_module("pyspark.sql")
    return sql.SparkSession, core.SparkContext._gateway is not None


def settings(place: Path, log: Path, memory: str, *, brief: bool) -> dict[str, str]:
    """Return how the Java process of a session is started, with its files in ``place``."""
    log4j = place / "log4j2.properties"
    log4j.write_text(LOG4J.format(log=log), encoding="utf-8")
    options = f'"-Dlog4j2.configurationFile=file:{log4j}" -XX:+UseParallelGC "-Djava.io.tmpdir={place}"'
    if brief:
        options += " -XX:TieredStopAtLevel=1"
    return {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": options,
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "false",
    }


def local_settings(place: Path, threads: int) -> dict[str, str]:
    """Return what a session on this machine has besides."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(place),
        "spark.sql.shuffle.partitions": str(min(MAX_SHUFFLE_PARTITIONS, 2 * threads)),
    }


SQL_SETTINGS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BATCH_BYTES),
    # Spark guesses the size of a table from that of its files, and traces are compressed well.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.session.timeZone": "UTC",
    FILTERS: "true",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}


_places: dict[int, Path] = {}


def work_directory() -> Path:
    """Return this process's directory for Spark's files, which is removed at exit."""
    process = os.getpid()
    if process not in _places:
        place = Path(tempfile.mkdtemp(prefix="quorate-replay-"))
        _places[process] = place
        atexit.register(remove, place, process)
    return _places[process]


def remove(place: Path, process: int) -> None:
    """Remove a directory, unless this is a child of the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def changed_environment(changes: dict[str, str], hidden: Sequence[str] = FOREIGN) -> Generator[None]:
    """Change environment variables for the start of Spark only; foreign Spark settings are hidden from it."""
    before = {name: os.environ.get(name) for name in (*changes, *hidden)}
    for name in hidden:
        os.environ.pop(name, None)
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def failure_line(log: Path) -> str:
    """Return the last line of the log that names an error, or its last line; it explains a failed start."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    messages = [
        line.strip() for line in lines if line.strip() and not line.strip().startswith(("at ", "..."))
    ]
    blamed = [line for line in messages if "Exception" in line or "Error" in line]
    return (blamed or messages or [""])[-1][:LINE_SHOWN]


def check_user() -> None:
    """Raise ReplayError when the user has no name, which Spark's login does not survive."""
    try:
        pwd = import_module("pwd")
    except ImportError:
        return
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise ReplayError(
            f"Spark needs a user with a name, and user {os.getuid()} has none: "
            "run this as a user that is in /etc/passwd."
        ) from None
