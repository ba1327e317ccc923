"""`init`: models, targets and repositories as they are, files that their readers take, and nothing replaced unasked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.errors import InvalidModelError, OutputError, TargetError, UsageError
from edgetool.pipeline import init
from edgetool.pipeline import init as finding
from edgetool.pipeline.check import check_models
from edgetool.pipeline.init import HOOKS, SETTINGS, WORKFLOW, InitRequest, plan_init, quoted, with_hook, write_init
from edgetool.pipeline.targets import resolve_target
from tests.hostile_names import write_models
from tests.in_process import captured
from tests.model.builders import conv_model_bytes

TARGET = InitRequest(targets=("rpi-pico",))
EXISTING = """\
# Ours, as it's always been
default_language_version:
  python: python3
repos:
  - repo: https://example.org/a.git   # 'kept'
    rev: v1
    hooks:
      - id: a
        exclude: |
          (?x)^(
            a.*
            # b
          )$
      - id: b
        args: [--x, "y z"]

# of the end
exclude: ^third_party/
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a b.tflite").write_bytes(conv_model_bytes())
    return tmp_path


def yaml_of(text: str) -> Any:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML (the extra 'verify')")
    return yaml.safe_load(text)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_models_are_found_and_builds_environments_and_links_are_not_searched(project: Path) -> None:
    for folder in ("build", ".git", "node_modules", "my env", "src/deep"):
        (project / folder).mkdir(parents=True)
        (project / folder / "x.tflite").write_bytes(conv_model_bytes())
    (project / "my env" / "pyvenv.cfg").touch()
    (project / "link").symlink_to(project / "build")
    (project / "broken.tflite").write_bytes(b"no model")
    (project / "trained.h5").touch()
    (project / "saved").mkdir()
    (project / "saved" / "saved_model.pb").touch()
    plan = plan_init(project, TARGET)
    assert plan.models == ("models/a b.tflite", "src/deep/x.tflite")
    assert plan.keras_models == ("saved", "trained.h5")
    assert [note.partition(":")[0] for note in plan.notices] == ["skipped broken.tflite"]
    settings = plan.files[0].text
    assert '#   "trained.h5"' in settings
    assert tomllib.loads(settings) == {"target": "rpi-pico", "check": {"models": list(plan.models)}}


def test_a_search_has_bounds(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MAX_ENTRIES", 1)
    assert any("search ended" in note for note in plan_init(project, TARGET).notices)
    monkeypatch.setattr(finding, "MAX_MODELS", 0)
    with pytest.raises(UsageError, match="found 1 models"):
        plan_init(project, TARGET)


def test_without_a_model_init_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"found no \.tflite model"):
        plan_init(tmp_path, TARGET)
    (tmp_path / "m.keras").touch()
    with pytest.raises(UsageError, match="convert it with 'edgetool convert"):
        plan_init(tmp_path, TARGET)


def test_named_models_must_be_models_of_the_project(project: Path) -> None:
    def plan(path: Path) -> object:
        return plan_init(project, InitRequest(models=(path,), targets=("rpi-pico",))).models

    assert plan(project / "models" / "a b.tflite") == ("models/a b.tflite",)
    for path, message in ((project.parent, "outside"), (project / "none.tflite", "exist"), (project, "directory")):
        with pytest.raises(UsageError, match=message):
            plan(path)
    (project / "broken.tflite").write_bytes(b"no model at all")
    with pytest.raises(InvalidModelError):
        plan(project / "broken.tflite")


def test_a_target_is_never_guessed(project: Path) -> None:
    with pytest.raises(UsageError, match=r"no target is specified.*edgetool fit MODEL"):
        plan_init(project)
    with pytest.raises(TargetError, match="unknown target 'nosuch'"):
        plan_init(project, InitRequest(targets=("nosuch",)))
    assert contents(project).keys() == {"models/a b.tflite"}


@pytest.mark.parametrize(
    ("name", "text", "targets", "source"),
    [
        ("platformio.ini", "[env:a]\nboard = nucleo_l4r5zi\n[env:b]\nboard=pico", "nucleo-l4r5zi rpi-pico", ""),
        ("CMakeLists.txt", "set(PICO_BOARD pico2)\n", "rpi-pico2", ""),
        ("CMakeLists.txt", "# x\nset(BOARD nosuchboard)\n set(BOARD nrf52840_dk/nrf52840)", "nrf52840-dk", ""),
    ],
)
def test_the_build_system_names_the_board(project: Path, name: str, text: str, targets: str, source: str) -> None:
    (project / name).write_text(text, encoding="utf-8")
    plan = plan_init(project)
    assert plan.targets == tuple(targets.split())
    assert plan.target_source == f"taken from {name}"
    unknown = [f"{name} specifies nosuchboard, which has no profile"]
    assert list(plan.notices) == (unknown if "nosuchboard" in text else [])


def test_a_model_s_report_names_the_board(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    model = project / "models" / "a b.tflite"
    done = captured("check", model, "-t", "teensy41", "--json", "--lock", tmp_path_factory.mktemp("x") / "none.lock")
    model.with_suffix(".json").write_text(done.stdout, encoding="utf-8")
    (project / "platformio.ini").write_text("[env:a]\nboard = pico\n", encoding="utf-8")
    plan = plan_init(project)
    assert (plan.targets, plan.target_source) == (("teensy41",), "taken from the models' reports")


@pytest.mark.parametrize("name", [*(f"{path}" for path in finding.BOARD_IDS.values())])
def test_every_board_identifier_leads_to_a_profile(name: str) -> None:
    assert resolve_target(name).name == name


def test_a_profile_of_the_user_is_named_by_its_path_in_the_project(project: Path) -> None:
    (project / "boards").mkdir()
    (project / "boards" / "ours.toml").write_text('name = "ours"\nextends = "rpi-pico"\n', encoding="utf-8")
    plan = plan_init(project, InitRequest(targets=(str(project / "boards" / "ours.toml"),)))
    assert plan.targets == ("boards/ours.toml",)


def test_a_core_without_memory_is_reported(project: Path) -> None:
    (notice,) = plan_init(project, InitRequest(targets=("cortex-m7",))).notices
    assert notice.startswith("the memory size of cortex-m7 is unknown")


def test_the_files_pass_their_schemas_and_have_no_placeholder(project: Path) -> None:
    pytest.importorskip("check_jsonschema", reason="needs check-jsonschema")
    (project / ".gitattributes").write_text("*.tflite filter=lfs diff=lfs merge=lfs -text\n", encoding="utf-8")
    write_init(project, plan_init(project, TARGET))
    for schema in ("vendor.github-workflows", "custom.github-workflows-require-timeout"):
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, project / WORKFLOW]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    clientlib = pytest.importorskip("pre_commit.clientlib", reason="needs pre-commit")
    assert clientlib.load_config(str(project / HOOKS))["repos"][0]["repo"] == "local"
    assert not any(b"OWNER" in content for content in contents(project).values())
    steps = yaml_of((project / WORKFLOW).read_text(encoding="utf-8"))["jobs"]["check"]["steps"]
    assert steps[0]["with"] == {"lfs": True}
    assert sum("pip install" in step.get("run", "") for step in steps) == 1


def test_nothing_is_replaced_without_force(project: Path) -> None:
    (project / WORKFLOW).parent.mkdir(parents=True)
    (project / WORKFLOW).write_text("mine")
    with pytest.raises(OutputError, match=r"edgetool\.yml: already exists"):
        plan_init(project, TARGET)
    plan = plan_init(project, InitRequest(targets=("rpi-pico",), force=True))
    assert [file.action for file in plan.files] == ["new", "replaced", "new"]
    write_init(project, plan)
    assert (project / WORKFLOW).read_text(encoding="utf-8").startswith("# Checks the models")


def test_all_files_or_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_init(project, TARGET)
    before = contents(project)
    real = init.write_files

    def failing(directory: Path, files: Any, **options: Any) -> Any:
        if SETTINGS in files:
            raise OutputError("cannot be written", where=str(directory))
        return real(directory, files, **options)

    monkeypatch.setattr(init, "write_files", failing)
    with pytest.raises(OutputError):
        write_init(project, plan)
    assert contents(project) == before
    assert not (project / ".github").exists()


def test_a_file_that_appears_meanwhile_is_kept(project: Path) -> None:
    plan = plan_init(project, TARGET)
    (project / SETTINGS).write_text("mine")
    with pytest.raises(OutputError):
        write_init(project, plan)
    assert contents(project).keys() == {"models/a b.tflite", SETTINGS}
    assert (project / SETTINGS).read_text() == "mine"


def test_it_runs_at_the_top_of_a_repository(project: Path) -> None:
    (project / ".git").mkdir()
    with pytest.raises(UsageError, match="is not the root of the repository"):
        plan_init(project / "models", TARGET)
    plan = plan_init(project / "models", InitRequest(targets=("rpi-pico",), parts=("settings",)))
    assert [file.path for file in plan.files] == [SETTINGS]


def test_settings_in_pyproject_are_not_hidden(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.edgetool]\ntarget = "rpi-pico"\n')
    with pytest.raises(UsageError, match=r"an edgetool\.toml would override"):
        plan_init(project, TARGET)
    assert len(plan_init(project, InitRequest(targets=("rpi-pico",), parts=("ci", "pre-commit"))).files) == 2


def test_the_hook_is_added_and_the_rest_stays() -> None:
    after = with_hook(EXISTING)
    assert after is not None
    before_value, value = yaml_of(EXISTING), yaml_of(after)
    hook = value["repos"].pop()
    assert value == before_value
    assert (hook["repo"], hook["hooks"][0]["id"]) == ("local", "edgetool-check")
    kept = after.splitlines()
    for line in EXISTING.splitlines():
        kept.remove(line) if line else None
    assert with_hook(EXISTING.replace("\n", "\r\n")) == after.replace("\n", "\r\n")


@pytest.mark.parametrize(
    "text",
    [
        "repos: []\n", "repos: [\n]\n", "", "exclude: x\n", "repos:\n", "repos:\n- {repo: local,\n  hooks: []}\n",
        "repos:\n  - repo: x\n    rev: 'a\n\n    b'\n", "---\nrepos:\n- repo: x\n---\nrepos:\n- repo: y\n",
        "repos: &a\n- repo: x\n", "repos:\n\t- repo: x\n", "repos:\n  - a\n x\n",
    ],
)  # fmt: skip
def test_unusual_forms_are_left_to_the_user(text: str, project: Path) -> None:
    assert with_hook(text) is None
    (project / HOOKS).write_text(text, encoding="utf-8")
    plan = plan_init(project, TARGET)
    assert plan.by_hand is not None
    assert HOOKS not in {file.path for file in plan.files}


SCALARS = st.one_of(
    st.sampled_from(
        [
            "x",
            "don t",
            "'y: z'",
            "'it''s'",
            '"a # b"',
            "^(a|b)$",
            "[a, b]",
            "{a: 1}",
            "|\n{}    # c\n{}    d",
            ">-\n{}    e",
        ]
    )
)


@st.composite
def configurations(draw: st.DrawFn) -> str:
    """Configurations in block form, with comments and blank lines anywhere."""
    indent = " " * draw(st.integers(0, 3))
    noise = st.sampled_from(["", "\n", "# it's a comment\n", "    # deep\n"])
    lines = ["---\n"] if draw(st.booleans()) else []
    lines += [draw(noise), "fail_fast: true\n"] if draw(st.booleans()) else []
    lines += ["repos:\n" if draw(st.booleans()) else "repos: # all\n"]
    for number in range(draw(st.integers(1, 3))):
        scalar = draw(SCALARS).replace("{}", f"{indent}      ")
        hooks = f"{indent}  hooks:\n{indent}  - id: h{number}\n{indent}    files: {scalar}\n"
        lines += [draw(noise), f"{indent}- repo: r{number}\n", draw(noise), f"{indent}  rev: v1\n", hooks]
    lines += [draw(noise), "exclude: x\n"] if draw(st.booleans()) else []
    text = "".join(lines) + draw(noise)
    return text if draw(st.booleans()) else text.rstrip("\n")


@given(text=configurations())
def test_an_extended_configuration_has_one_entry_more(text: str) -> None:
    before = yaml_of(text)
    after = with_hook(text)
    assert after is not None
    value = yaml_of(after)
    assert value["repos"].pop()["repo"] == "local"
    # A scalar at the end of a file without a newline has none itself.
    assert json.dumps(value).replace("\\n", "") == json.dumps(before).replace("\\n", "")


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_text_is_one_toml_string_on_one_visible_line(text: str) -> None:
    written = quoted(text)
    assert tomllib.loads(f"a = {written} # c\n") == {"a": text}
    assert written.isprintable()
    assert "##" not in written


def test_hostile_names_stand_in_the_settings_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "MAX_MODELS", 1000)
    monkeypatch.chdir(tmp_path)
    paths = write_models(tmp_path, conv_model_bytes())
    plan = plan_init(tmp_path, TARGET)
    write_init(tmp_path, plan)
    models = tomllib.loads((tmp_path / SETTINGS).read_text(encoding="utf-8"))["check"]["models"]
    text = {path.name for path in paths if os.fsencode(path.name).decode("utf-8", "replace") == path.name}
    hidden = {name for name in text if name.startswith(".")}
    assert set(models) == text - hidden or set(models) == text
    assert len(plan.notices) == len(paths) - len(models) > 0
    assert not (tmp_path / "injected").exists()
    done = captured("check", "--json")
    assert done.returncode == 0, done.stderr
    assert {item["check"]["path"] for item in json.loads(done.stdout)["reports"]} == set(models)


def test_check_works_at_once(project: Path) -> None:
    write_init(project, plan_init(project, TARGET))
    settings = tomllib.loads((project / SETTINGS).read_text(encoding="utf-8"))
    paths = [project / name for name in settings["check"]["models"]]
    assert check_models(paths, [resolve_target(settings["target"])]).passed
