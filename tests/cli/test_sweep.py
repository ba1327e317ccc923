"""`edgetool sweep` as a user meets it, on stores made by hand.

docs/sweep.md names what there is: options, keys of a sweep.toml, columns, axes and functions.
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from edgetool.cli.main import cli
from edgetool.cli.sweep import COMMANDS, axes_help
from edgetool.errors import SettingsError
from edgetool.sweep.front import AXES
from edgetool.sweep.metrics import PRECISIONS
from edgetool.sweep.spec import TargetSpec, read_spec
from edgetool.sweep.store import open_store
from edgetool.sweep.table import COLUMNS
from tests.cli.program import edgetool
from tests.cli.sweeps import Done, marked, record, row, stored, sweep, sweep_rows
from tests.model.builders import conv_model_bytes


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    return stored(folder / "sweep.sqlite", sweep_rows(), tflite=conv_model_bytes())


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "sweep.sqlite"))


def numbers(done: Done) -> list[int]:
    return [variant["number"] for variant in json.loads(done.out)["sweep"]["variants"]]


# Help.


def test_every_command_has_help() -> None:
    shown = sweep("--help").out
    for name in COMMANDS:
        assert f"  {name} " in shown
        done = sweep(name, "--help")
        assert done.code == 0
        assert "Usage:" in done.out
        command = cli.get_command(click.Context(cli), "sweep")
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        for parameter in found.params:
            assert not isinstance(parameter, click.Option) or parameter.help, parameter.name


def test_help_is_instant() -> None:
    for arguments in (["sweep", "--help"], ["sweep", "run", "--help"], ["sweep", "pareto", "--help"]):
        script = (
            "import sys; sys.argv = ['edgetool', *sys.argv[1:]]\n"
            "import edgetool.cli.main as main, contextlib\n"
            "with contextlib.suppress(SystemExit): main.main()\n"
            "print(sorted({'numpy', 'sqlite3', 'dask', 'optuna', 'matplotlib'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]", done.stdout


def test_help_names_every_axis() -> None:
    assert re.findall(r"[a-z_]+", axes_help.replace(" or ", " ")) == list(AXES)


# Which store.


@pytest.mark.parametrize("name", ["show", "pareto"])
def test_the_store_is_beside_the_sweep_toml_or_given(name: str, store: Path) -> None:
    Path("sweep.toml").write_text("")
    Path("other.toml").write_text("")
    texts = {
        sweep(name, *arguments).out
        for arguments in ((), ("sweep.toml",), (store,), ("--store", store), ("other.toml", "--store", store))
    }
    assert len(texts) == 1
    assert "keyword-spotting" in texts.pop()


@pytest.mark.parametrize("name", ["show", "pareto", "best"])
def test_a_missing_store_is_reported_with_advice(name: str) -> None:
    done = sweep(name)
    assert (done.code, done.out) == (2, "")
    assert done.err == "edgetool: error: sweep.toml: does not exist; name a sweep.toml\n"
    Path("my.toml").write_text("")
    done = sweep(name, "my.toml")
    assert done.code == 2
    said = "my.sqlite: the store does not exist yet; run 'edgetool sweep run my.toml' first"
    assert done.err == f"edgetool: error: {said}\n"


@pytest.mark.parametrize("content", [b"PK\x03\x04\xff", b"this = is = no TOML", b"x" * 2**21])
def test_a_file_that_is_neither_a_sweep_toml_nor_a_store_is_reported(content: bytes) -> None:
    Path("cnn.keras").write_bytes(content)
    done = sweep("show", "cnn.keras")
    assert done.code == 2
    assert done.err.startswith("edgetool: error: cnn.keras: is neither a sweep.toml (")
    assert "first" not in done.err


def test_suggested_commands_can_be_typed(store: Path) -> None:
    Path("my sweep.toml").write_text("")
    said = sweep("show", "my sweep.toml", "--store", "my own.sqlite").err
    assert "run 'edgetool sweep run 'my sweep.toml' --store 'my own.sqlite'' first" in said
    store.rename("my own.sqlite")
    assert "--store 'my own.sqlite'" in sweep("run", "my own.sqlite").err


def test_the_error_about_an_existing_picture_names_its_option(store: Path) -> None:
    Path("p.svg").write_bytes(b"")
    assert "or choose another --plot" in sweep("pareto", store, "--plot", "p.svg").err


def test_run_takes_no_store_and_two_stores_are_refused(store: Path) -> None:
    assert "is a store, not a sweep.toml" in sweep("run", store).err
    assert "different stores" in sweep("show", store, "--store", "other.sqlite").err
    Path("sweep.toml").write_text("")
    done = sweep("run", "--jobs", "2", "--scheduler", "tcp://localhost:1")
    assert (done.code, "--jobs and --scheduler are mutually exclusive" in done.err) == (2, True)


@pytest.mark.parametrize("name", ["show", "pareto", "best", "run"])
@pytest.mark.parametrize("path", ["", ".", "/", ".."])
def test_a_directory_is_reported_as_such(name: str, path: str) -> None:
    done = sweep(name, path)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "is a directory, not a sweep.toml" in done.err


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite").write_bytes(b"hello")
    done = sweep("show", "--store", "x.sqlite")
    assert done.code == 2
    assert "x.sqlite" in done.err


def test_a_store_of_a_run_that_was_interrupted_early(tmp_path: Path) -> None:
    open_store(tmp_path / "s.sqlite", create=True).close()
    done = sweep("show", "s.sqlite")
    assert (done.code, done.out) == (2, "")
    assert "s.sqlite: contains no sweep" in done.err


def test_settings_of_other_commands_are_not_for_sweeps(store: Path) -> None:
    before = sweep("show", store).out
    Path("edgetool.toml").write_text('target = "cortex-m4"\nmemory_budgets = ["1KiB"]\n[check]\nreserve = "1KiB"\n')
    done = sweep("show", store)
    assert (done.code, done.out) == (0, before)
    Path("edgetool.toml").write_text("[sweep]\njobs = 2\n")
    done = sweep("show", store)
    assert (done.code, "edgetool.toml: sweep: unknown key" in done.err) == (2, True)


# show.


def test_show_filters_and_sorts(store: Path) -> None:
    rows = sweep_rows()
    accepted = [item.number for item in rows if item.judged is not None and item.judged.accepted]
    assert numbers(sweep("show", store, "--json")) == [item.number for item in rows]
    assert numbers(sweep("show", store, "--json", "--accepted")) == accepted
    assert numbers(sweep("show", store, "--json", "--front")) == [item.number for item in rows if item.on_front]
    pico = numbers(sweep("show", store, "--json", "--target", "pico"))
    assert pico == [item.number for item in rows if item.variant.target == "pico"]
    fastest = numbers(sweep("show", store, "--json", "--sort", "latency_ms"))
    assert fastest[:2] == [11, 12]
    assert fastest[-2:] == [15, 16]  # not known
    assert numbers(sweep("show", store, "--json", "--sort", "accuracy"))[:4] == [1, 2, 3, 4]
    assert numbers(sweep("show", store, "--json", "--sort", "precision"))[0] == 1


def test_show_says_which_names_there_are(store: Path) -> None:
    assert "use one of pico, nucleo" in sweep("show", store, "--target", "pic").err
    assert "use one of number, level, precision" in sweep("show", store, "--sort", "speed").err
    assert "mutually exclusive" in sweep("show", store, "--json", "--csv").err


def test_show_sorts_by_parameters_of_mixed_types(tmp_path: Path) -> None:
    rows = [row(n, parameters=(("kind", value),)) for n, value in enumerate(("b", 2, "a", 1.5, True), 1)]
    path = stored(tmp_path / "p.sqlite", rows, record(parameter_names=("kind",)))
    assert numbers(sweep("show", path, "--json", "--sort", "param_kind")) == [5, 4, 2, 3, 1]
    assert "use one of number, level" in sweep("show", path, "--sort", "kind").err


def test_csv_is_a_line_per_variant(store: Path) -> None:
    lines = list(csv.DictReader(io.StringIO(sweep("show", store, "--csv").out)))
    assert [int(line["number"]) for line in lines] == [item.number for item in sweep_rows()]
    assert lines[2]["arena_bytes"] == "20000"
    assert lines[15]["status"] == "failed"


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_output_goes_to_a_file(store: Path, tmp_path: Path, form: list[str]) -> None:
    printed = sweep("show", store, *form).out
    done = sweep("show", store, *form, "-o", "out.txt")
    assert (done.code, done.out, done.err) == (0, "", "wrote out.txt\n")
    assert (tmp_path / "out.txt").read_text() == printed
    assert "already exists" in sweep("show", store, *form, "-o", "out.txt").err
    assert sweep("show", store, *form, "-o", "out.txt", "--force", "-q").err == ""


def test_a_result_never_replaces_the_store(store: Path) -> None:
    before = store.read_bytes()
    assert "would overwrite the input" in sweep("show", store, "--json", "-o", store, "--force").err
    link = store.with_name("link.svg")
    link.symlink_to(store)
    assert "would overwrite the input" in sweep("pareto", store, "--plot", link, "--force").err
    assert store.read_bytes() == before


def test_quiet_prints_nothing(store: Path) -> None:
    for name in ("show", "pareto"):
        done = sweep(name, store, "-q")
        assert (done.code, done.out, done.err) == (0, "", "")


def test_colour_is_used_only_on_terminals(store: Path) -> None:
    for arguments in (("show",), ("pareto",)):
        result = edgetool("sweep", *arguments, store)
        assert result.returncode == 0, result.stderr
        assert "\x1b" not in result.stdout


# pareto.


@pytest.mark.parametrize(("x", "y"), [("latency_ms", "accuracy"), ("arena_bytes", "model_bytes"), ("macs", "sqnr_db")])
def test_pareto_is_the_front_of_its_axes(store: Path, x: str, y: str) -> None:
    done = sweep("pareto", store, "--x", x, "--y", y, "--json")
    assert numbers(done) == [item.number for item in marked(sweep_rows(), (x, y)) if item.on_front]
    assert json.loads(done.out)["sweep"]["axes"] == [x, y]


def test_pareto_takes_further_axes_and_a_target(store: Path) -> None:
    done = sweep("pareto", store, "--axis", "arena_bytes", "--axis", "macs", "--target", "nucleo")
    assert "Pareto front for latency, accuracy, arena and MACs" in done.out
    assert "pico" not in done.out
    lines = sweep("pareto", store, "--csv").out.splitlines()
    assert len(lines) == 1 + len([item for item in marked(sweep_rows(), ("latency_ms", "accuracy")) if item.on_front])


def test_pareto_refuses_what_it_cannot_draw(store: Path) -> None:
    assert "'speed' is not one of accuracy, " in sweep("pareto", store, "--x", "speed").err
    assert "choose two different axes" in sweep("pareto", store, "--x", "accuracy").err
    done = sweep("pareto", store, "--plot", "front.pdf")
    assert (done.code, done.out) == (2, "")
    assert "front.pdf: a plot must be an .svg or .png file" in done.err


@pytest.mark.parametrize(("name", "head"), [("front.svg", b"<?xml"), ("front.PNG", b"\x89PNG")])
def test_pareto_draws(store: Path, tmp_path: Path, name: str, head: bytes) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("needs the extra 'sweep'")
    done = sweep("pareto", store, "--plot", name)
    assert (done.code, done.err) == (0, f"wrote {name}\n")
    assert (tmp_path / name).read_bytes().startswith(head)
    assert "already exists" in sweep("pareto", store, "--plot", name).err


# best.


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the packaged target rpi-pico and of the user's own."""
    targets = (TargetSpec("pico", "rpi-pico"), TargetSpec("nucleo", "nucleo-l4r5zi"))
    folder = tmp_path_factory.mktemp("devices")
    return stored(folder / "sweep.sqlite", sweep_rows(), record(targets=targets), tflite=conv_model_bytes())


def test_best_writes_firmware_and_says_why(devices: Path, tmp_path: Path) -> None:
    done = sweep("best", devices, "--target", "pico", "-o", "firmware")
    assert (done.code, done.err) == (0, "")
    first, *lines = done.out.splitlines()
    assert first == "pico: variant 3 (not pruned, int8), the highest accuracy of 4 accepted"
    shown = [int(line.lstrip("* ").split()[0]) for line in lines if re.match(r"[* ] +\d+ +\d+ %", line)]
    assert shown == [3, 7, 11, 13]
    assert "Wrote firmware/" in done.out
    names = {path.name for path in (tmp_path / "firmware").iterdir()}
    assert {"keyword_spotting.tflite", "keyword_spotting.h", "keyword_spotting.json", "main.cc"} <= names
    assert "already exists" in sweep("best", devices, "--target", "pico", "-o", "firmware").err


def test_best_by_another_axis_with_other_files(devices: Path, tmp_path: Path) -> None:
    arguments = ("--target", "pico", "--by", "latency_ms", "--project", "header", "--name", "words", "-o", "f")
    done = sweep("best", devices, *arguments, "--depfile", "d", "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["provenance"]["options"]["variant"] == 11
    assert document["model"]["output"]["bytes"] == (tmp_path / "f" / "words.tflite").stat().st_size
    assert {path.name for path in (tmp_path / "f").iterdir()} >= {"words.h", "words_model.c", "words.json"}
    assert not (tmp_path / "f" / "main.cc").exists()
    assert "sweep.sqlite" in (tmp_path / "d").read_text()


def test_best_asks_for_the_target_of_several(devices: Path) -> None:
    assert "specify --target with one of pico, nucleo" in sweep("best", devices).err
    assert "use one of pico, nucleo" in sweep("best", devices, "--target", "esp32").err


def test_best_exits_with_1_if_none_is_accepted(tmp_path: Path) -> None:
    rows = [row(1, precision="float32"), row(2, status="pending")]
    targets = (TargetSpec("pico", "rpi-pico"),)
    done = sweep("best", stored(tmp_path / "s.sqlite", rows, record(targets=targets)))
    assert (done.code, done.out) == (1, "")
    assert "pico: none of the 2 variants is accepted" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["s.sqlite"]


TEXT = (Path(__file__).resolve().parents[2] / "docs" / "sweep.md").read_text(encoding="utf-8")
SPECS = re.findall(r"```toml\n(# sweep\.toml\n.*?)```", TEXT, re.DOTALL)
NO_OPTIONS_OF_OURS = {"--nthreads"}


def named(section: str) -> set[str]:
    """What the first column of the tables below a heading names."""
    body = TEXT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    first = re.findall(r"^\| (`[^|]*) \|", body, re.MULTILINE)
    return {name for cell in first for name in re.findall(r"`([^`]+)`", cell)}


def test_every_option_is_one_of_the_commands() -> None:
    context = click.Context(cli)
    group = cli.get_command(context, "sweep")
    convert = cli.get_command(context, "convert")
    assert isinstance(group, click.Group)
    assert convert is not None
    commands = [group.get_command(context, name) for name in COMMANDS]
    known = {
        option
        for command in (*commands, convert)
        if command is not None
        for parameter in command.params
        for option in parameter.opts
    }
    assert set(re.findall(r"`?(--[a-z][a-z-]+)", TEXT)) - NO_OPTIONS_OF_OURS <= known
    own = {option for command in commands if command is not None for item in command.params for option in item.opts}
    ubiquitous = {"--force", "--quiet", "--verbose", "--output"}
    for option in sorted(own - ubiquitous):
        assert not option.startswith("--") or option in TEXT, option


@pytest.mark.parametrize("text", SPECS)
def test_its_sweeps_can_be_read(text: str, tmp_path: Path) -> None:
    for name in re.findall(r'"(\w+\.(?:h5|npz))"', text):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "model.py").write_text("")
    (tmp_path / "sweep.toml").write_text(text)
    spec = read_spec(tmp_path / "sweep.toml", trust_model_code=True)
    assert spec.targets


def test_every_documented_key_exists(tmp_path: Path) -> None:
    """An unknown key is refused as such; one that is known, only for its value."""
    keys = named("sweep.toml")
    tables = {
        "pruning": {"levels", "method", "exclude"},
        "fine_tune": {"data", "epochs", "learning_rate", "batch_size", "loss"},
        "search": {"trials", "batch", "objectives"},
    }
    assert keys >= set().union(*tables.values())
    (tmp_path / "sweep.toml").write_text("nothing = 1\n" + "".join(f"{key} = true\n" for key in sorted(keys)))
    with pytest.raises(SettingsError, match=r"sweep\.toml") as caught:
        read_spec(tmp_path / "sweep.toml")
    reported = [str(caught.value), *caught.value.details]
    unknown = {
        match[1]
        for line in reported
        if (match := re.search(r"(?:^|: )(\w+): (?:is )?(?:an )?unknown", line)) is not None
    }
    assert unknown == {"nothing", *set().union(*tables.values())}


def test_columns_axes_and_precisions_are_all_there() -> None:
    columns = named("Tables for other programs")
    assert {name for name in columns if not name.startswith("violates_")} == set(COLUMNS)
    assert named("The front") == set(AXES)
    assert named("Precisions") == set(PRECISIONS)


def test_functions_are_where_it_says() -> None:
    for module, names in re.findall(r"^from (edgetool\.sweep\.\w+) import (.+)$", TEXT, re.MULTILINE):
        for name in names.split(", "):
            assert callable(getattr(importlib.import_module(module), name))
    for line in re.findall(r"^\| (`sweep\.[^|]*) \|", TEXT, re.MULTILINE):
        first, *others = re.findall(r"`([\w.]+)\(", line)
        module, _, name = first.rpartition(".")
        for function in (name, *others):
            assert callable(getattr(importlib.import_module(f"edgetool.{module}"), function)), function


def test_toml_and_python_blocks_are_valid() -> None:
    for text in re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL):
        tomllib.loads(text)
    for text in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        compile(text, "docs/sweep.md", "exec")
