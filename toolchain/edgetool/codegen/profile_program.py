"""NAME_profile.cc: a firmware of its own that runs the model, times each operator, and prints a log.

The log is lines of "edgetool-profile NUMBER KIND key=value ... *CRC": numbered from 0, so that a lost line is missed,
each with the CRC-16 of everything before " *", so that a damaged one is. pipeline/device_log.py reads it.

The C++ of NAME_profile.cc that is the same for every model: the profiler, the log and the program.

@NAME@ and @MACRO@ stand for the model's names. TFLM's part was written from micro_profiler_interface.h and
micro_interpreter_graph.cc: every operator calls BeginEvent before and EndEvent after it, control flow around those of
the subgraphs that it runs.
"""

from __future__ import annotations

import re

from edgetool.codegen import c_names
from edgetool.codegen.c_names import comment, comment_text
from edgetool.codegen.cycle_counters import Counter, counter_of
from edgetool.codegen.program import ProgramSpec
from edgetool.model.types import DType

BODY = """\
#if @MACRO@_PROFILE_RUNS < 1 || @MACRO@_PROFILE_EVENTS < 1
#error "@MACRO@_PROFILE_RUNS and @MACRO@_PROFILE_EVENTS must be at least 1"
#endif

int @NAME@_profile();

namespace {

#ifdef @ARENA@
const size_t declared_bytes = @ARENA@;
#else
const size_t declared_bytes = 0; /* only defined for @NAME@_runner.cc */
#endif

uint32_t last_ticks = 0;
uint64_t all_ticks = 0;

/* Ticks since the start; the counter is read often enough to detect that it wraps. */
uint64_t ticks_so_far()
{
    const uint32_t ticks = read_ticks();
    all_ticks += static_cast<uint32_t>(ticks - last_ticks);
    last_ticks = ticks;
    return all_ticks;
}

/* An operator of an inference, and the ticks it took: in all runs, and in the fastest. */
struct Event {
    const char *tag;
    uint32_t depth;
    uint64_t begin;
    uint64_t sum;
    uint64_t least;
};

const uint32_t event_limit = @MACRO@_PROFILE_EVENTS;
Event events[event_limit];

/* Records the events of the first inference in start order, and adds the times of later inferences to them. */
class Profiler : public tflite::MicroProfilerInterface {
  public:
    void start_run(bool first)
    {
        first_ = first;
        recording_ = true;
        depth_ = 0;
        begun_ = 0;
        dropped_ = 0;
    }

    void end_run()
    {
        recording_ = false;
        if (first_) {
            kept_ = begun_;
        } else if (begun_ != kept_) {
            varies_ = true;
        }
        if (dropped_ > most_dropped_) {
            most_dropped_ = dropped_;
        }
    }

    uint32_t BeginEvent(const char *tag) override
    {
        if (!recording_) {
            return event_limit;
        }
        const uint32_t depth = depth_++;
        if (begun_ == event_limit) {
            ++dropped_;
            ticks_so_far();
            return event_limit;
        }
        Event &event = events[begun_];
        if (first_) {
            event.tag = tag;
            event.depth = depth;
            event.sum = 0;
            event.least = UINT64_MAX;
        } else if (begun_ >= kept_ || event.tag != tag || event.depth != depth) {
            varies_ = true;
        }
        event.begin = ticks_so_far();
        return begun_++;
    }

    void EndEvent(uint32_t handle) override
    {
        if (!recording_) {
            return;
        }
        const uint64_t end = ticks_so_far();
        --depth_;
        if (handle < event_limit) {
            Event &event = events[handle];
            const uint64_t ticks = end - event.begin;
            event.sum += ticks;
            if (ticks < event.least) {
                event.least = ticks;
            }
        }
    }

    uint32_t kept() const { return kept_; }
    uint32_t dropped() const { return most_dropped_; }
    bool varies() const { return varies_; }

    static void operator delete(void *) {} /* nothing is ever deleted, so no heap is linked */

  private:
    bool first_ = true;
    bool recording_ = false;
    bool varies_ = false;
    uint32_t depth_ = 0;
    uint32_t begun_ = 0;
    uint32_t kept_ = 0;
    uint32_t dropped_ = 0;
    uint32_t most_dropped_ = 0;
};

alignas(Profiler) unsigned char profiler_memory[sizeof(Profiler)];

/* One line of the log: its text and the CRC-16 of the text (polynomial 0x1021, initial value 0xFFFF). */
class Line {
  public:
    Line(uint32_t number, const char *kind)
    {
        text("edgetool-profile ");
        digits(number);
        text(" ");
        text(kind);
    }

    Line &value(const char *key, uint64_t number)
    {
        open(key);
        digits(number);
        return *this;
    }

    /* Blanks and non-printable characters are replaced by _. */
    Line &word(const char *key, const char *name, size_t limit = @WORD@)
    {
        open(key);
        if (name == nullptr || *name == '\\0') {
            name = "-";
        }
        for (size_t i = 0; i < limit && name[i] != '\\0'; ++i) {
            put(name[i] > ' ' && name[i] <= '~' ? name[i] : '_');
        }
        return *this;
    }

    void print()
    {
        uint32_t crc = 0xFFFFu;
        for (size_t i = 0; i < used_; ++i) {
            crc ^= static_cast<uint32_t>(static_cast<uint8_t>(text_[i])) << 8;
            for (int bit = 0; bit < 8; ++bit) {
                crc = (crc & 0x8000u) != 0 ? ((crc << 1) ^ 0x1021u) & 0xFFFFu : crc << 1;
            }
        }
        text(" *");
        for (int shift = 12; shift >= 0; shift -= 4) {
            put("0123456789abcdef"[(crc >> shift) & 15u]);
        }
        text_[used_] = '\\0';
        MicroPrintf("%s", text_);
    }

  private:
    void put(char character)
    {
        if (used_ + 1 < sizeof(text_)) {
            text_[used_++] = character;
        }
    }

    void text(const char *characters)
    {
        while (*characters != '\\0') {
            put(*characters++);
        }
    }

    void open(const char *key)
    {
        text(" ");
        text(key);
        text("=");
    }

    /* MicroPrintf does not support 64-bit numbers on all platforms. */
    void digits(uint64_t number)
    {
        char reversed[20];
        size_t count = 0;
        do {
            reversed[count++] = static_cast<char>('0' + static_cast<int>(number % 10u));
            number /= 10u;
        } while (number != 0);
        while (count != 0) {
            put(reversed[--count]);
        }
    }

    char text_[200];
    size_t used_ = 0;
};

@INPUTS@
int failed(uint32_t number, const char *step, @NAME@_status status)
{
    Line(number, "failed").word("step", step).value("status", static_cast<uint32_t>(status)).print();
    MicroPrintf("%s", @NAME@_status_text(status));
    return static_cast<int>(status);
}

}  // namespace

/* Prints the profile; returns 0, or the runner's status if it failed. */
int @NAME@_profile()
{
    uint32_t lines = 0;
    Line(lines++, "begin").value("version", @VERSION@).word("model", "@NAME@").word("tool", "@TOOL@").print();
    Line(lines++, "model").word("sha256", @MACRO@_MODEL_SHA256, 64).print();
    Line(lines++, "build").word("core", "@CORE@").word("kernels", "@KERNELS@").word("runtime", "@RUNTIME@").print();

    Profiler &profiler = *new (profiler_memory) Profiler; /* the runner keeps a pointer to it */
    @NAME@_status status = @NAME@_runner::init(&profiler);
    if (status != @NAME@_ok) {
        return failed(lines, "init", status);
    }
    fill_inputs();
    status = @NAME@_runner::invoke(); /* warms up the caches and runs everything that runs only once */

    const uint32_t runs = @MACRO@_PROFILE_RUNS;
    uint64_t sum = 0;
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    uint32_t run_overflows = 0;
    start_ticks();
    for (uint32_t run = 0; run < runs && status == @NAME@_ok; ++run) {
        fill_inputs();
        profiler.start_run(run == 0);
        last_ticks = read_ticks();
        const uint32_t overflows_before = overflows;
        const uint64_t begin = all_ticks;
        status = @NAME@_runner::invoke();
        const uint64_t ticks = ticks_so_far() - begin;
        profiler.end_run();
        sum += ticks;
        least = ticks < least ? ticks : least;
        most = ticks > most ? ticks : most;
        run_overflows += overflows - overflows_before;
    }
    stop_ticks();
    if (status != @NAME@_ok) {
        return failed(lines, "invoke", status);
    }

    Line(lines++, "time")
        .word("source", time_source)
        .value("ticks_hz", static_cast<uint32_t>(@MACRO@_PROFILE_TICKS_HZ))
        .value("clock_hz", static_cast<uint32_t>(@MACRO@_PROFILE_CLOCK_HZ))
        .value("runs", runs)
        .print();
    for (uint32_t i = 0; i < profiler.kept(); ++i) {
        Line(lines++, "event")
            .value("index", i)
            .value("depth", events[i].depth)
            .value("mean", events[i].sum / runs)
            .value("min", events[i].least)
            .word("name", events[i].tag)
            .print();
    }
    Line(lines++, "total").value("mean", sum / runs).value("min", least).value("max", most).print();
    Line(lines++, "events")
        .value("kept", profiler.kept())
        .value("dropped", profiler.dropped())
        .value("varies", profiler.varies() ? 1u : 0u)
        .value("overflows", run_overflows)
        .print();
    Line(lines++, "arena")
        .value("used", @NAME@_runner::arena_used_bytes())
        .value("declared", declared_bytes)
        .value("shared", @SHARED@)
        .print();
    Line(lines, "end").value("lines", lines + 1).print();
    if (sum == 0) {
        MicroPrintf("The counter (%s) does not run on this device.", time_source);
        MicroPrintf("Define @MACRO@_PROFILE_TICKS() and @MACRO@_PROFILE_TICKS_HZ.");
    }
    return 0;
}

#ifndef @MACRO@_PROFILE_NO_MAIN
int main()
{
    tflite::InitializeTarget();
    return @NAME@_profile();
}
#endif
"""

# The helpers that inputs are filled with, by name; each after what it needs.
RANDOM_BITS = """\
uint32_t random_state = 0;

uint32_t random_bits()
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

"""
FILLS = {
    "random_bytes": """\
void random_bytes(void *input, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i) {
        static_cast<uint8_t *>(input)[i] = static_cast<uint8_t>(random_bits() >> 24);
    }
}

""",
    "random_reals": """\
/* Values from 0 to 1. */
template <typename Real>
void random_reals(Real *input, size_t elements)
{
    for (size_t i = 0; i < elements; ++i) {
        input[i] = static_cast<Real>(random_bits() >> 8) / static_cast<Real>(16777216);
    }
}

""",
    "zeros": """\
void zeros(void *input, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i) {
        static_cast<uint8_t *>(input)[i] = 0;
    }
}

""",
}


LOG_VERSION = 1
WORD_LENGTH = 48
DEFAULT_RUNS = 10
# Events that are kept, of 32 bytes each: where their number depends on the data, and at most, for loops of many turns.
UNKNOWN_EVENTS, MOST_EVENTS = 128, 1024

# What an input is filled with. Of integers the whole range, so that no kernel finds a special case; where a value may
# be an index or a count, 0.
_RANDOM_BYTES = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.UINT16})
_RANDOM_REALS = frozenset({DType.FLOAT32, DType.FLOAT64})
_NOT_IN_A_WORD = re.compile(r"[^!-~]")


def word(text: str) -> str:
    """The text as the log spells it: no blanks, ASCII, of at most 48 characters; "-" when nothing is left."""
    return _NOT_IN_A_WORD.sub("_", text.encode("utf-8", "surrogatepass").decode("latin-1"))[:WORD_LENGTH] or "-"


def profile_source(spec: ProgramSpec) -> str:
    """The text of NAME_profile.cc. It uses NAME_runner.h, and takes main.cc's place."""
    head = spec.header
    name, macro = c_names.model_identifier(head.name), c_names.model_macro(head.name)
    counter = counter_of(head.target.core)
    text = "\n".join(
        [
            _banner(spec, name, macro, counter),
            _CHECK,
            _includes(spec, name),
            _settings(spec, counter),
            _time(counter),
            BODY.replace("@INPUTS@", _inputs(spec)),
        ]
    )
    values = {
        "NAME": name,
        "MACRO": macro,
        "SHA256": head.model_sha256,
        "TOOL": _literal(head.tool_version),
        "CORE": _literal(head.target.core),
        "KERNELS": _literal(head.target.kernels),
        "RUNTIME": _literal(head.target.runtime or "-"),
        "VERSION": str(LOG_VERSION),
        "WORD": str(WORD_LENGTH),
        "ARENA": f"{macro if spec.shared_arena is None else c_names.model_macro(spec.shared_arena)}_ARENA_BYTES",
        "SHARED": "0u" if spec.shared_arena is None else "1u",
    }
    return re.sub(r"@([A-Z0-9]+)@", lambda found: values[found[1]], text)


def _literal(text: str) -> str:
    """A word for the inside of a string literal."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", word(text))


def _banner(spec: ProgramSpec, name: str, macro: str, counter: Counter) -> str:
    head = spec.header
    rate = "one tick is one core cycle" if counter.counts_cycles else "its rate is tflite::ticks_per_second()"
    return comment(
        [
            f"{comment_text(head.name)}: firmware that times every operator, for TensorFlow Lite Micro.",
            f"Generated by edgetool {comment_text(head.tool_version)}; do not edit.",
            "",
            f"model   SHA-256 {head.model_sha256}",
            f"target  {comment_text(f'{head.target.name} ({head.target.core}, {head.target.kernels} kernels)')}",
            "",
            "Build it instead of main.cc, but otherwise exactly like the firmware you ship: with the same flags,",
            "kernels, clock and memories. Save its output to a file, and create a profile of your board from that:",
            "  edgetool calibrate --target TARGET --log FILE -o my-board.toml",
            "",
            f"It calls {name}_profile(); define {macro}_PROFILE_NO_MAIN to call that function from your own program.",
            f"{macro}_PROFILE_RUNS      inferences to time, after one that is not timed",
            f"{macro}_PROFILE_EVENTS    operators to record, including those of called subgraphs",
            f"{macro}_PROFILE_CLOCK_HZ  the clock of the core: a number, or an expression such as SystemCoreClock",
            f"{macro}_PROFILE_TICKS()   your own 32-bit up-counter, which wraps to 0;",
            f"{macro}_PROFILE_TICKS_HZ  the frequency of that counter",
            "Headers that these expressions require can be included with the compiler option -include.",
            f"By default the counter is {counter.name}; {rate}.",
            "Intervals of 2^32 ticks or more (9 s at 480 MHz in one operator) wrap around undetected.",
        ]
    )


_CHECK = """\
#ifdef TF_LITE_STRIP_ERROR_STRINGS
#error "with TF_LITE_STRIP_ERROR_STRINGS, TFLM does not call a profiler or print: build the profile without it"
#endif
"""


def _includes(spec: ProgramSpec, name: str) -> str:
    own = [f"{name}.h", f"{name}_runner.h"]
    if spec.shared_arena is not None:
        own.append(f"{c_names.model_identifier(spec.shared_arena)}_arena.h")
    tflm = ("micro_log.h", "micro_profiler_interface.h", "system_setup.h")
    lines = [*own, *(f"tensorflow/lite/micro/{file}" for file in tflm)]
    return "#include <stddef.h>\n#include <stdint.h>\n\n#include <new>\n\n" + "".join(
        f'#include "{line}"\n' for line in lines
    )


def _settings(spec: ProgramSpec, counter: Counter) -> str:
    events = UNKNOWN_EVENTS if spec.events is None else max(1, min(spec.events, MOST_EVENTS))
    text = ""
    for key, value in (("RUNS", DEFAULT_RUNS), ("EVENTS", events), ("CLOCK_HZ", spec.clock_hz or 0)):
        text += f"#ifndef @MACRO@_PROFILE_{key}\n#define @MACRO@_PROFILE_{key} {value}\n#endif\n"
    rate = "@MACRO@_PROFILE_CLOCK_HZ" if counter.counts_cycles else "tflite::ticks_per_second()"
    return text + _TICKS_HZ.replace("@RATE@", rate)


_TICKS_HZ = """\
#ifndef @MACRO@_PROFILE_TICKS_HZ
#ifdef @MACRO@_PROFILE_TICKS
#error "define @MACRO@_PROFILE_TICKS_HZ as the frequency of @MACRO@_PROFILE_TICKS()"
#endif
#define @MACRO@_PROFILE_TICKS_HZ @RATE@
#endif
"""


def _time(counter: Counter) -> str:
    guard = ""
    if counter.architecture is not None:
        guard = (
            f"#if !({counter.architecture})\n"
            '#error "generated for @CORE@: define @MACRO@_PROFILE_TICKS() to time it on another core"\n'
            "#endif\n"
        )
    return (
        _OWN_TICKS
        + guard
        + counter.includes
        + f'\nnamespace {{\n\nconst char *const time_source = "{counter.name}";\nuint32_t overflows = 0;\n\n'
        + counter.code
        + "\n}  // namespace\n#endif\n"
    )


_OWN_TICKS = """\
#ifdef @MACRO@_PROFILE_TICKS
namespace {

const char *const time_source = "own";
uint32_t overflows = 0;

void start_ticks()
{
}

uint32_t read_ticks()
{
    return static_cast<uint32_t>(@MACRO@_PROFILE_TICKS());
}

void stop_ticks()
{
}

}  // namespace
#else
"""


def _inputs(spec: ProgramSpec) -> str:
    """The function that fills the inputs, and what it needs."""
    used, calls = set(), ""
    for position, tensor in enumerate(spec.header.inputs):
        if not tensor.size_bytes:
            continue
        kind = "zeros"
        if tensor.dtype in _RANDOM_BYTES:
            kind = "random_bytes"
        elif tensor.dtype in _RANDOM_REALS:
            kind = "random_reals"
        used.add(kind)
        # TFLM gives each INT4 a byte (memory_helpers.cc).
        counted = "ELEMENTS" if kind == "random_reals" or tensor.dtype is DType.INT4 else "BYTES"
        calls += f"    {kind}(@NAME@_runner::input_{position}(), @MACRO@_INPUT_{position}_{counted});\n"
    bits = RANDOM_BITS if used - {"zeros"} else ""
    seed = "    random_state = 2463534242u;\n" if bits else ""
    return (
        bits
        + "".join(text for kind, text in FILLS.items() if kind in used)
        + "/* The same inputs for every run: TFLM may have overwritten them with other tensors. */\n"
        + f"void fill_inputs()\n{{\n{seed}{calls}}}\n"
    )
