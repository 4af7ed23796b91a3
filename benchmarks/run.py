"""Quorate's group, PySyncObj and a bare relay, measured in turns in one run. Compare the ratios only.

::

    pip install -r benchmarks/requirements.txt      # PySyncObj; without it those columns stay empty
    python benchmarks/run.py                        # about three minutes
    python benchmarks/run.py --seconds 0.5 --rounds 1 --windows 1 100 --json result.json

Every cell is the median of the rounds. For PySyncObj it is the better one of two tunings.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CONTENDERS: dict[str, list[list[str]]] = {
    "quorate": [["channel.py"]],
    "prototype": [["prototype.py"]],
    "pysyncobj": [["pysyncobj_raft.py", "--tuning", "prompt"], ["pysyncobj_raft.py", "--tuning", "batch"]],
}
NOT_INSTALLED = 3
SPARE_S = 180.0
"""Seconds that a contender may take beyond the time of its cells."""

Key = tuple[int, int, int]
Found = dict[str, dict[Key, list[dict[str, Any]]]]
NUMBERS = ("per_s", "p50_us", "p99_us", "cpu_us")


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="for each cell")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1024])
    parser.add_argument("--windows", type=int, nargs="+", default=[1, 100, 1000])
    parser.add_argument("--client", action="store_true", help="load from a process of its own; no PySyncObj")
    parser.add_argument("--reactor", default="default", help="default, epoll, poll, select or asyncio")
    parser.add_argument("--only", nargs="+", choices=tuple(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--json", type=Path, help="write all results there")
    return parser.parse_args()


def cells_of(options: argparse.Namespace) -> list[list[float]]:
    """Return all cells: every size and window, submitted one by one and a tenth of the window at a time."""
    return [
        [size, window, batch, options.seconds]
        for size in options.sizes
        for window in options.windows
        for batch in sorted({1, max(1, window // 10)})
    ]


def run(command: list[str], cells: list[list[float]], seconds: float) -> list[dict[str, Any]] | None:
    """Run a contender over the cells; None when it is not installed. Raises SystemExit when it fails."""
    program, *rest = command
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / program), *rest, "--cells", json.dumps(cells)],
            capture_output=True,
            text=True,
            timeout=seconds * len(cells) * 2 + SPARE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{program} took too long; try again on a quieter machine") from None
    if done.returncode == NOT_INSTALLED:
        return None
    results: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
    if done.returncode or len(results) != len(cells):
        raise SystemExit(f"{program} failed:\n{done.stderr[-2000:]}")
    return results


def key_of(result: dict[str, Any]) -> Key:
    """Return the cell of a result."""
    cell = result["cell"]
    return cell["size"], cell["window"], cell["batch"]


def gather(options: argparse.Namespace) -> Found:
    """Run all rounds, and return the results by contender and cell. The better tuning of a round counts."""
    found: Found = {name: {} for name in options.only}
    for turn in range(options.rounds):
        cells = cells_of(options)[:: -1 if turn % 2 else 1]
        for name in options.only:
            if options.client and name == "pysyncobj":
                continue
            best: dict[Key, dict[str, Any]] = {}
            for command in CONTENDERS[name]:
                extra = [] if name == "pysyncobj" else ["--reactor", options.reactor]
                extra += ["--client"] if options.client else []
                results = run(command + extra, cells, options.seconds)
                if results is None:
                    print(
                        f"{name} is not installed: pip install -r benchmarks/requirements.txt",
                        file=sys.stderr,
                    )
                    break
                for result in results:
                    before = best.get(key_of(result))
                    if before is None or before["per_s"] < result["per_s"]:
                        best[key_of(result)] = result
            for key, result in best.items():
                found[name].setdefault(key, []).append(result)
    return found


def medians(results: list[dict[str, Any]]) -> dict[str, float]:
    """Return the median of each number."""
    return {name: statistics.median(result[name] for result in results) for name in NUMBERS}


def ratio(one: dict[str, float], other: dict[str, float], name: str) -> str:
    """Return the ratio of a number as text."""
    return f"{one[name] / other[name]:.2f}" if one.get(name) and other.get(name) else "-"


def table(found: Found, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Print the table; return its rows."""
    head = ("operations/s", "p50 us", "p99 us", "CPU us")
    print(
        f"{'size':>5} {'window':>6} {'batch':>5} | {head[0]:>12} {head[1]:>8} {head[2]:>8} {head[3]:>8}",
        end="",
    )
    print(f" | {'/pysyncobj':>10} {'CPU':>6} | {'/prototype':>10} {'CPU':>6}")
    rows: list[dict[str, Any]] = []
    for size, window, batch, _ in cells_of(options):
        key = (int(size), int(window), int(batch))
        row = {name: medians(results[key]) if key in results else {} for name, results in found.items()}
        rows.append({"size": key[0], "window": key[1], "batch": key[2], **row})
        ours = row.get("quorate", {})
        numbers = [ours.get(name, 0.0) for name in NUMBERS]
        line = (
            f"{key[0]:>5} {key[1]:>6} {key[2]:>5} | {numbers[0]:>12.0f} {numbers[1]:>8.0f} {numbers[2]:>8.0f}"
        )
        line += f" {numbers[3]:>8.1f}"
        for name in ("pysyncobj", "prototype"):
            other = row.get(name, {})
            line += f" | {ratio(ours, other, 'per_s'):>10} {ratio(ours, other, 'cpu_us'):>6}"
        print(line)
    print("Ratios: of operations/s, more is better; of CPU time of all processes per operation, less.")
    return rows


def main() -> None:
    """Measure all contenders, and print the table."""
    options = read_options()
    found = gather(options)
    rows = table(found, options)
    if options.json is not None:
        options.json.write_text(json.dumps({"python": sys.version, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
