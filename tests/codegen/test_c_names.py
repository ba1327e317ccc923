from __future__ import annotations

import re
import shutil
import string
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetool.codegen import c_names
from edgetool.codegen.c_names import RESERVED_WORDS, is_reserved
from tests.codegen.header_specs import HOSTILE_NAMES

HASHED = re.compile(r"t(_[A-Za-z0-9]+)*_[0-9a-f]{8}")
C_HEADERS = (
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic"
    " stdbool stddef stdint stdio stdlib stdnoreturn string tgmath time uchar wchar wctype"
).split()

any_text = st.text(st.characters(codec=None), max_size=80)
names = st.one_of(any_text, st.sampled_from([*HOSTILE_NAMES, *sorted(RESERVED_WORDS)]))
portable_names = st.from_regex(r"[A-Za-z](_?[A-Za-z0-9]){0,15}", fullmatch=True).filter(
    lambda name: not is_reserved(name)
)


@given(portable_names)
def test_a_portable_name_passes_unchanged(name: str) -> None:
    assert c_names.identifier(name, "t") == name


@given(names)
def test_any_name_becomes_a_portable_one(name: str) -> None:
    result = c_names.identifier(name, "t")
    assert len(result) <= 31
    assert "__" not in result
    assert set(result) <= set(string.ascii_letters + string.digits + "_")
    assert result[0] in string.ascii_letters
    assert result not in RESERVED_WORDS
    assert result == name or HASHED.fullmatch(result)
    assert c_names.identifier(result, "t") == result


@given(names)
def test_a_macro_is_portable_and_in_capitals(name: str) -> None:
    macro = c_names.macro_name(name, "model")
    assert c_names.is_portable(macro)
    assert macro == macro.upper()


@pytest.mark.parametrize("name", sorted({*C_HEADERS, *c_names.SYSTEM_NAMES}))
def test_no_file_of_a_model_hides_a_header_of_the_system(name: str) -> None:
    for spelled in (name, name.capitalize(), name.upper()):
        identifier = c_names.model_identifier(spelled)
        assert identifier.lower() != name
        assert c_names.is_portable(identifier)
        assert c_names.model_identifier(identifier) == identifier


@given(st.lists(names.filter(lambda name: not c_names.is_portable(name)), unique=True, max_size=20))
def test_different_invalid_names_get_different_identifiers(several: list[str]) -> None:
    assert len({c_names.identifier(name, "t") for name in several}) == len(several)


@pytest.mark.parametrize(
    "name",
    [
        *("int restrict _Bool class co_await xor defined NULL int8_t uint_fast16_t errno main exp".split()),
        *("INT8_MAX PRIu32 FLT_MAX EDOM SIGINT _x __x a__b x_".split()),
        *("", "a" * 32, "a\n", "é", "٣"),
    ],
)
def test_invalid_names(name: str) -> None:
    assert HASHED.fullmatch(c_names.identifier(name, "t"))


@pytest.mark.parametrize("name", ["kws", "vww_96", "pretrainedResnet", "E1", "embedded", "a" * 31, "l2", "input_1"])
def test_valid_names(name: str) -> None:
    assert c_names.identifier(name, "t") == name
    assert c_names.macro_name(name, "t") == name.upper()


def test_known_results_stay() -> None:
    assert c_names.identifier("model/conv2d/Relu", "t") == "t_model_conv2d_Relu_1e589188"
    assert c_names.model_identifier("my-model") == "model_my_model_98ad223a"
    assert c_names.macro_name("null", "model") == "MODEL_NULL_74234E98"


@pytest.mark.parametrize("prefix", ["", "_t", "t_", "9", "a" * 22])
def test_a_prefix_that_cannot_be(prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        c_names.identifier("int", prefix)


@given(any_text, st.integers(3, 200))
def test_comment_text_is_harmless(text: str, limit: int) -> None:
    harmless = c_names.comment_text(text, limit)
    assert len(harmless) <= limit
    assert set(harmless) <= set(map(chr, range(32, 127)))
    for mark in ("*/", "/*", "//", "\\", "?", '"'):
        assert mark not in harmless


@given(st.text('*/\\?" ab\n', max_size=60))
def test_comment_text_of_nothing_but_marks(text: str) -> None:
    harmless = c_names.comment_text(text)
    assert not re.search(r'\*/|/\*|//|[\\?"]|[^ -~]', harmless)


@given(st.text(string.ascii_letters + string.digits + " _-.:;,()", max_size=120))
def test_comment_text_keeps_what_is_harmless(text: str) -> None:
    assert c_names.comment_text(text) == text


def test_comment_text_spells_out_the_rest() -> None:
    assert c_names.comment_text("a*/b\n\u202ec??/") == "a* /b<U+000A><U+202E>c<U+003F><U+003F>/"
    assert c_names.comment_text("x" * 300) == "x" * 117 + "..."


@pytest.mark.parametrize("standard", ["c99", "c17", "c2x"])
def test_every_macro_of_the_standard_headers_is_reserved(standard: str) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    source = "".join(f"#include <{header}.h>\n" for header in C_HEADERS if header not in ("iso646", "complex"))
    macros = subprocess.run(
        ["gcc", f"-std={standard}", "-dM", "-E", "-"], input=source, capture_output=True, text=True, check=True
    )
    defined = re.findall(r"^#define (\w+)", macros.stdout, re.MULTILINE)
    assert len(defined) > 300
    assert [name for name in defined if c_names.is_portable(name)] == []
