"""The C++ of NAME_profile.cc that is the same for every model: the profiler, the log and the program.

@NAME@ and @MACRO@ stand for the model's names. TFLM's part was written from micro_profiler_interface.h and
micro_interpreter_graph.cc: every operator calls BeginEvent before and EndEvent after it, control flow around those of
the subgraphs that it runs.
"""

from __future__ import annotations

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
