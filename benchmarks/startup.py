"""Measure the CPU time of commands that must start quickly, compared with the bare interpreter, in one run.

    python benchmarks/startup.py [MODEL.tflite]

Each command runs as a whole process, whose user and system time is measured. The medians of RUNS rounds are printed;
within a round, the commands run one after the other, so that other work on the machine slows all of them.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

RUNS = 11
ROOT = Path(__file__).resolve().parents[1]
REAL_MODEL = ROOT.parent / "shared" / "data" / "models" / "mlperf" / "vww_96_int8.tflite"
EXAMPLE = ROOT / "examples" / "keyword_spotting" / "keyword_spotting.tflite"
LIMITS_S = {"edgetool --help": 0.15, "edgetool plan": 0.4}
FORBIDDEN = ("tensorflow", "keras", "ai_edge_litert", "numpy")


def cpu_seconds(command: list[str]) -> float:
    """Return the user and system seconds of one run of the command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ, PYTHONHASHSEED="0"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def imported_by_plan(model: Path) -> list[str]:
    """Return the large libraries that a plan imports."""
    code = (
        "import sys; from edgetool.cli.main import cli\n"
        f"cli.main(['plan', {str(model)!r}, '-q'], standalone_mode=False)\n"
        f"print(*[name for name in {FORBIDDEN!r} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return result.stdout.split()


def main() -> None:
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else REAL_MODEL
    measure(chosen if chosen.is_file() else EXAMPLE)


def measure(model: Path) -> None:
    edgetool = [sys.executable, "-m", "edgetool"]
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -c 'import click'": [sys.executable, "-c", "import click"],
        "edgetool --help": [*edgetool, "--help"],
        "edgetool inspect": [*edgetool, "inspect", str(model)],
        "edgetool plan": [*edgetool, "plan", str(model), "--target", "cortex-m7"],
        "edgetool estimate": [*edgetool, "estimate", str(model), "--target", "cortex-m7"],
        "edgetool fit": [*edgetool, "fit", str(model)],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for command in commands.values():
        cpu_seconds(command)
    for _ in range(RUNS):
        for name, command in commands.items():
            times[name].append(cpu_seconds(command))
    base = median(times["python -c pass"])
    print(f"{model.name}, medians of {RUNS} runs")
    print(f"{'command':<26}{'CPU s':>8}{'min':>8}{'max':>8}{'x bare python':>15}{'limit':>8}")
    for name, seconds in times.items():
        limit = f"{LIMITS_S[name]:.2f}" if name in LIMITS_S else "-"
        middle = median(seconds)
        print(f"{name:<26}{middle:>8.3f}{min(seconds):>8.3f}{max(seconds):>8.3f}{middle / base:>15.1f}{limit:>8}")
    print("heavy libraries imported by plan:", ", ".join(imported_by_plan(model)) or "none")


if __name__ == "__main__":
    main()
