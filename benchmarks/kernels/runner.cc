// Runs many small .tflite models in one start of an emulated Cortex-M.
//
// The program is bare-metal and needs nothing but TensorFlow Lite Micro and the linker symbols named below. It talks to
// the host by ARM semihosting; its command line is
//
//   BATCH RESULT FIRST
//
// two host paths without spaces and the index of the first case to run. FIRST = 0 begins a new result file, any other
// number appends to one.
//
// Batch, little-endian:   "EKB1"  u32 count   { u32 model_bytes  u32 input_bytes  model  inputs }...
// Result, one per case:   u32 case  u32 status  u32 arena_used_bytes  u32 output_bytes   { u32 flags  outputs }[3]
//
// Every case runs three times, each time from scratch in memory that held another pattern before (all zero bits, all
// one bits, noise). Equal outputs then mean that the operator read nothing it had not been given. The arena, 4 KiB on
// either side of it, and everything in front of and behind the model hold the pattern, and are compared afterwards.
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>

#include "tensorflow/lite/micro/arena_allocator/single_arena_buffer_allocator.h"
#include "tensorflow/lite/micro/memory_planner/greedy_memory_planner.h"
#include "tensorflow/lite/micro/micro_allocator.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/micro/micro_resource_variable.h"
#include "tensorflow/lite/schema/schema_generated.h"

// From the linker script.
extern "C" {
extern uint8_t __code_start[];
extern uint8_t __bss_start[], __bss_end[];
extern uint8_t __thread_stack_low[], __thread_stack_top[], __handler_stack_top[];
extern void (*__init_array_start[])();
extern void (*__init_array_end[])();
}

#define INTEGER_ONLY __attribute__((target("general-regs-only")))

namespace {

// ---------------------------------------------------------------------------------------------------- the formats

enum Status : uint32_t {
  kOk = 0,
  kMalformed = 1,
  kAllocateFailed = 2,
  kInvokeFailed = 3,
  kTooLarge = 4,
  kInputSize = 5,
  kFault = 6,
};

enum Flag : uint32_t {
  kInputChanged = 1u << 0,
  kGapChanged = 1u << 1,
  kGuardChanged = 1u << 2,
  kModelChanged = 1u << 3,
  kTemporaryInInvoke = 1u << 4,   // the operator allocated temporary memory while it ran; only worth knowing
  kAroundModelChanged = 1u << 5,  // the pattern in front of or behind the model
  // Status kFault only: bits 8 to 15 hold the exception's number (3 hard fault, 4 memory management, 5 bus, 6 usage,
  // 15 the time limit) or 255 for abort(), in the fill where it happened.
  kFaultShift = 8,
};

constexpr uint32_t kAbort = 255;
constexpr int kFills = 3;
constexpr size_t kGuard = 4096;
constexpr size_t kArenaBytes = 512 * 1024;
constexpr size_t kSmallArenaBytes = 64 * 1024;  // tried first: less to compare
constexpr size_t kModelBytes = 512 * 1024;
constexpr size_t kInputBytes = 512 * 1024;
constexpr size_t kOutputBytes = 512 * 1024;
constexpr size_t kSmallestGap = 4096;
constexpr size_t kPlannerBytes = 16 * 1024;  // some 450 tensors and scratch buffers
constexpr size_t kHeaderWords = 4;

// ---------------------------------------------------------------------------------------------------- semihosting

enum SemihostingCall : int {
  kSysOpen = 0x01,
  kSysWrite0 = 0x04,
  kSysWrite = 0x05,
  kSysRead = 0x06,
  kSysSeek = 0x0a,
  kSysLength = 0x0c,
  kSysGetCommandLine = 0x15,
  kSysExitExtended = 0x20,
};

intptr_t Host(int call, const void* argument) {
  register intptr_t r0 asm("r0") = call;
  register const void* r1 asm("r1") = argument;
  asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory", "cc", "r2", "r3", "ip", "lr");
  return r0;
}

[[noreturn]] void Exit(int code) {
  const intptr_t block[] = {0x20026, code};
  Host(kSysExitExtended, block);
  for (;;) {
  }
}

intptr_t Open(const char* path, int mode) {
  const intptr_t block[] = {reinterpret_cast<intptr_t>(path), mode, static_cast<intptr_t>(strlen(path))};
  return Host(kSysOpen, block);
}

bool Read(intptr_t file, void* to, size_t bytes) {
  if (bytes == 0) return true;
  const intptr_t block[] = {file, reinterpret_cast<intptr_t>(to), static_cast<intptr_t>(bytes)};
  return Host(kSysRead, block) == 0;
}

bool Write(intptr_t file, const void* from, size_t bytes) {
  const intptr_t block[] = {file, reinterpret_cast<intptr_t>(from), static_cast<intptr_t>(bytes)};
  return Host(kSysWrite, block) == 0;
}

bool Seek(intptr_t file, uint32_t position) {
  const intptr_t block[] = {file, static_cast<intptr_t>(position)};
  return Host(kSysSeek, block) == 0;
}

// ------------------------------------------------------------------------------------------------------ processor

volatile uint32_t& Register(uintptr_t address) { return *reinterpret_cast<volatile uint32_t*>(address); }

constexpr uintptr_t kSysTickControl = 0xe000e010;
constexpr uintptr_t kSysTickReload = 0xe000e014;
constexpr uintptr_t kSysTickValue = 0xe000e018;
constexpr uintptr_t kVectorTable = 0xe000ed08;
constexpr uintptr_t kHandlerControl = 0xe000ed24;
constexpr uintptr_t kFaultStatus = 0xe000ed28;
constexpr uintptr_t kHardFaultStatus = 0xe000ed2c;
constexpr uintptr_t kFaultAddress = 0xe000ed38;

// SysTick counts 2^24 cycles of the 25 or 32 MHz board clock, about half a second.
constexpr int32_t kTicksPerFill = 120;
volatile int32_t ticks_left;

// -------------------------------------------------------------------------------------------------------- memory

struct Arena {
  uint8_t before[kGuard];
  uint8_t body[kArenaBytes];
  uint8_t after[kGuard];
};

struct ModelSpace {
  uint8_t before[kGuard];
  uint8_t body[kModelBytes];
  uint8_t after[kGuard];
};

// One of each for every fill: all of it holds its own pattern between the cases, so that a case has to put back only
// what it touched.
#define BIG __attribute__((section(".big"), aligned(4096)))
BIG Arena arenas[kFills];
BIG ModelSpace model_spaces[kFills];
BIG uint8_t patterns[kFills][kGuard];
BIG uint8_t staged_model[kModelBytes];
BIG uint8_t staged_inputs[kInputBytes];
BIG uint8_t record[4 * kHeaderWords + kFills * (4 + kOutputBytes)];

void MakePatterns() {
  memset(patterns[0], 0x00, kGuard);
  memset(patterns[1], 0xff, kGuard);
  uint32_t state = 2463534242u;
  for (size_t i = 0; i < kGuard; i += 4) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    memcpy(&patterns[2][i], &state, 4);
  }
}

// The pattern repeats every 4 KiB of a space, counted from the space's start.
void Paint(int fill, uint8_t* space, size_t from, size_t to) {
  while (from < to) {
    const size_t at = from % kGuard;
    const size_t n = to - from < kGuard - at ? to - from : kGuard - at;
    memcpy(space + from, patterns[fill] + at, n);
    from += n;
  }
}

bool Same(const uint8_t* a, const uint8_t* b, size_t n) {
  if (((reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) & 3) == 0) {
    const uint32_t* x = reinterpret_cast<const uint32_t*>(a);
    const uint32_t* y = reinterpret_cast<const uint32_t*>(b);
    uint32_t different = 0;
    size_t words = n / 4;
    for (; words >= 8; words -= 8, x += 8, y += 8) {
      different |= (x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]) | (x[4] ^ y[4]) | (x[5] ^ y[5]) |
                   (x[6] ^ y[6]) | (x[7] ^ y[7]);
    }
    if (different != 0) return false;
    a = reinterpret_cast<const uint8_t*>(x);
    b = reinterpret_cast<const uint8_t*>(y);
    n = words * 4 + n % 4;
  }
  return memcmp(a, b, n) == 0;
}

bool Untouched(int fill, const uint8_t* space, size_t from, size_t to) {
  while (from < to) {
    const size_t at = from % kGuard;
    const size_t n = to - from < kGuard - at ? to - from : kGuard - at;
    if (!Same(space + from, patterns[fill] + at, n)) return false;
    from += n;
  }
  return true;
}

uint8_t* Space(Arena& arena) { return reinterpret_cast<uint8_t*>(&arena); }
uint8_t* Space(ModelSpace& model) { return reinterpret_cast<uint8_t*>(&model); }

void PaintEverything(int fill) {
  Paint(fill, Space(arenas[fill]), 0, sizeof(Arena));
  Paint(fill, Space(model_spaces[fill]), 0, sizeof(ModelSpace));
}

enum class Access { kReadAndExecute, kRead, kReadAndWrite };

// A region whose size is a power of two and whose base is a multiple of that.
void SetRegion(uint32_t number, uint32_t base, uint32_t size_log2, Access access) {
  constexpr uintptr_t kMpuNumber = 0xe000ed98;
  constexpr uintptr_t kMpuBase = 0xe000ed9c;
  constexpr uintptr_t kMpuSize = 0xe000eda0;  // the limit in Armv8-M
  const uint32_t writable = access == Access::kReadAndWrite;
  const uint32_t never_executed = access != Access::kReadAndExecute;
  base &= ~((1u << size_log2) - 1);
  Register(kMpuNumber) = number;
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
  Register(kMpuBase) = base | (writable != 0 ? 1u : 3u) << 1 | never_executed;
  Register(kMpuSize) = ((base + (1u << size_log2) - 1) & ~0x1fu) | 1u;
#else
  Register(kMpuBase) = base;
  Register(kMpuSize) = never_executed << 28 | (writable != 0 ? 3u : 6u) << 24 | 1u << 17 | (size_log2 - 1) << 1 | 1u;
#endif
}

// A kernel that writes through a null pointer must not overwrite the program, which lies there on two of the boards,
// and one that jumps somewhere must not run far.
void ProtectMemory() {
  constexpr uintptr_t kMpuControl = 0xe000ed94;
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
  constexpr uintptr_t kMpuAttributes = 0xe000edc0;
  Register(kMpuAttributes) = 0xff;  // normal memory
  SetRegion(0, reinterpret_cast<uint32_t>(__code_start), 21, Access::kReadAndExecute);
#else
  SetRegion(0, reinterpret_cast<uint32_t>(__code_start), 22, Access::kReadAndExecute);
#endif
  SetRegion(1, 0, 12, Access::kRead);  // nothing but the first vector table
  SetRegion(2, reinterpret_cast<uint32_t>(__thread_stack_low), 22, Access::kReadAndWrite);
  SetRegion(3, reinterpret_cast<uint32_t>(arenas), 24, Access::kReadAndWrite);
  SetRegion(4, reinterpret_cast<uint32_t>(__thread_stack_low) - (1u << 20), 20, Access::kRead);  // for a stack overflow
  Register(kMpuControl) = 5;  // everything else as without
  asm volatile("dsb\n\tisb" ::: "memory");
}

// ------------------------------------------------------------------------------------------------------- allocator

uint8_t* highest_used;
uint8_t* lowest_kept;

// Remembers how far up and how far down the arena anything was handed out. It has no members of its own: it takes the
// same room in the arena as the allocator that applications use, so that arena_used_bytes() is theirs too.
class WatchedAllocator : public tflite::SingleArenaBufferAllocator {
 public:
  using SingleArenaBufferAllocator::SingleArenaBufferAllocator;
  TF_LITE_REMOVE_VIRTUAL_DELETE

  uint8_t* AllocateTemp(size_t size, size_t alignment) override {
    uint8_t* const memory = SingleArenaBufferAllocator::AllocateTemp(size, alignment);
    if (memory != nullptr) Note(memory + size);
    return memory;
  }

  TfLiteStatus ResizeBuffer(uint8_t* buffer, size_t size, size_t alignment) override {
    const TfLiteStatus status = SingleArenaBufferAllocator::ResizeBuffer(buffer, size, alignment);
    if (status == kTfLiteOk) Note(buffer + size);
    return status;
  }

  // The memory planner takes all there is for its tables, and spreads them over it.
  size_t GetAvailableMemory(size_t alignment) const override {
    const size_t available = SingleArenaBufferAllocator::GetAvailableMemory(alignment);
    return available < kPlannerBytes ? available : kPlannerBytes;
  }

  uint8_t* AllocatePersistentBuffer(size_t size, size_t alignment) override {
    uint8_t* const memory = SingleArenaBufferAllocator::AllocatePersistentBuffer(size, alignment);
    if (memory != nullptr && memory < lowest_kept) lowest_kept = memory;
    return memory;
  }

 private:
  static void Note(uint8_t* end) {
    if (end > highest_used) highest_used = end;
  }
};
static_assert(sizeof(WatchedAllocator) == sizeof(tflite::SingleArenaBufferAllocator), "would move the arena's tail");

// ------------------------------------------------------------------------------------------------------- operators

using Resolver = tflite::MicroMutableOpResolver<128>;
alignas(Resolver) uint8_t resolver_memory[sizeof(Resolver)];  // nobody runs its destructor
Resolver* resolver;

// Left out: Rfft and Irfft (they need kissfft, which is a project of its own).
bool RegisterOperators(Resolver& r) {
  bool ok = true;
  const auto add = [&ok](TfLiteStatus status) { ok = ok && status == kTfLiteOk; };
  add(r.AddAbs());
  add(r.AddAdd());
  add(r.AddAddN());
  add(r.AddArgMax());
  add(r.AddArgMin());
  add(r.AddAssignVariable());
  add(r.AddAveragePool2D());
  add(r.AddBatchMatMul());
  add(r.AddBatchToSpaceNd());
  add(r.AddBroadcastArgs());
  add(r.AddBroadcastTo());
  add(r.AddCallOnce());
  add(r.AddCast());
  add(r.AddCeil());
  add(r.AddCircularBuffer());
  add(r.AddConcatenation());
  add(r.AddConv2D());
  add(r.AddCos());
  add(r.AddCumSum());
  add(r.AddDecode());
  add(r.AddDelay());
  add(r.AddDepthToSpace());
  add(r.AddDepthwiseConv2D());
  add(r.AddDequantize());
  add(r.AddDetectionPostprocess());
  add(r.AddDiv());
  add(r.AddDynamicUpdateSlice());
  add(r.AddElu());
  add(r.AddEmbeddingLookup());
  add(r.AddEnergy());
  add(r.AddEqual());
  add(r.AddEthosU());
  add(r.AddExp());
  add(r.AddExpandDims());
  add(r.AddFftAutoScale());
  add(r.AddFill());
  add(r.AddFilterBank());
  add(r.AddFilterBankLog());
  add(r.AddFilterBankSpectralSubtraction());
  add(r.AddFilterBankSquareRoot());
  add(r.AddFloor());
  add(r.AddFloorDiv());
  add(r.AddFloorMod());
  add(r.AddFramer());
  add(r.AddFullyConnected());
  add(r.AddGather());
  add(r.AddGatherNd());
  add(r.AddGreater());
  add(r.AddGreaterEqual());
  add(r.AddHardSwish());
  add(r.AddIf());
  add(r.AddL2Normalization());
  add(r.AddL2Pool2D());
  add(r.AddLeakyRelu());
  add(r.AddLess());
  add(r.AddLessEqual());
  add(r.AddLog());
  add(r.AddLogicalAnd());
  add(r.AddLogicalNot());
  add(r.AddLogicalOr());
  add(r.AddLogistic());
  add(r.AddLogSoftmax());
  add(r.AddMaximum());
  add(r.AddMaxPool2D());
  add(r.AddMean());
  add(r.AddMinimum());
  add(r.AddMirrorPad());
  add(r.AddMul());
  add(r.AddNeg());
  add(r.AddNotEqual());
  add(r.AddOverlapAdd());
  add(r.AddPack());
  add(r.AddPad());
  add(r.AddPadV2());
  add(r.AddPCAN());
  add(r.AddPrelu());
  add(r.AddQuantize());
  add(r.AddReadVariable());
  add(r.AddReduceAll());
  add(r.AddReduceMax());
  add(r.AddReduceMin());
  add(r.AddRelu());
  add(r.AddRelu6());
  add(r.AddReshape());
  add(r.AddResizeBilinear());
  add(r.AddResizeNearestNeighbor());
  add(r.AddReverseV2());
  add(r.AddRound());
  add(r.AddRsqrt());
  add(r.AddSelectV2());
  add(r.AddShape());
  add(r.AddSin());
  add(r.AddSlice());
  add(r.AddSoftmax());
  add(r.AddSpaceToBatchNd());
  add(r.AddSpaceToDepth());
  add(r.AddSplit());
  add(r.AddSplitV());
  add(r.AddSqrt());
  add(r.AddSquare());
  add(r.AddSquaredDifference());
  add(r.AddSqueeze());
  add(r.AddStacker());
  add(r.AddStridedSlice());
  add(r.AddSub());
  add(r.AddSum());
  add(r.AddSvdf());
  add(r.AddTanh());
  add(r.AddTranspose());
  add(r.AddTransposeConv());
  add(r.AddUnidirectionalSequenceLSTM());
  add(r.AddUnpack());
  add(r.AddVarHandle());
  add(r.AddWhile());
  add(r.AddWindow());
  add(r.AddZerosLike());
  return ok;
}

// ------------------------------------------------------------------------------------------------------ one case

// All of it is kept where a fault cannot unwind it.
intptr_t batch_file = -1;
intptr_t result_file = -1;
uint32_t case_count;
uint32_t case_index;
uint32_t next_position;  // in the batch file, of the case behind the current one
volatile bool in_case;
bool quiet;  // the library's messages are left out
volatile int current_fill;
volatile uint32_t fault_kind;
volatile uint32_t fault_program_counter;
volatile uint32_t fault_status;
volatile uint32_t fault_address;
char command_line[1024];

size_t arena_bytes;
uint32_t model_bytes;
uint32_t input_bytes;
uint32_t arena_used;
uint32_t output_bytes;
uint32_t flags[kFills];

void WriteRecord(Status status) {
  if (status != kOk) output_bytes = 0;
  const uint32_t header[kHeaderWords] = {case_index, status, arena_used, output_bytes};
  memcpy(record, header, sizeof header);
  uint8_t* to = record + sizeof header;
  for (int fill = 0; fill < kFills; ++fill) {
    memcpy(to, &flags[fill], 4);  // the outputs behind it are there already
    to += 4 + output_bytes;
  }
  if (!Write(result_file, record, static_cast<size_t>(to - record))) Exit(8);
}

uint8_t* OutputOfFill(int fill) {
  return record + 4 * kHeaderWords + 4 + static_cast<size_t>(fill) * (4 + output_bytes);
}

const tflite::Model* CheckedModel(const uint8_t* bytes, uint32_t size) {
  flatbuffers::Verifier verifier(bytes, size);
  if (!tflite::VerifyModelBuffer(verifier)) return nullptr;
  const tflite::Model* model = tflite::GetModel(bytes);
  if (model->version() != TFLITE_SCHEMA_VERSION) return nullptr;
  if (model->subgraphs() == nullptr || model->subgraphs()->size() == 0) return nullptr;
  if (model->operator_codes() == nullptr || model->buffers() == nullptr) return nullptr;
  for (const tflite::SubGraph* subgraph : *model->subgraphs()) {
    if (subgraph->inputs() == nullptr || subgraph->outputs() == nullptr || subgraph->tensors() == nullptr) {
      return nullptr;
    }
  }
  return model;
}

// How many operators make a resource variable: a model without any must not pay for the table in its arena.
int CountVariableHandles(const tflite::Model* model) {
  int count = 0;
  for (const tflite::SubGraph* subgraph : *model->subgraphs()) {
    if (subgraph->operators() == nullptr) continue;
    for (const tflite::Operator* op : *subgraph->operators()) {
      if (op->opcode_index() >= model->operator_codes()->size()) continue;
      const tflite::OperatorCode* code = model->operator_codes()->Get(op->opcode_index());
      if (code->builtin_code() == tflite::BuiltinOperator_VAR_HANDLE) ++count;
    }
  }
  return count;
}

bool IsAlsoAnOutput(tflite::MicroInterpreter& interpreter, const void* data) {
  for (size_t i = 0; i < interpreter.outputs_size(); ++i) {
    if (interpreter.output(i)->data.data == data) return true;
  }
  return false;
}

Status Interpret(int fill, const tflite::Model* model) {
  uint8_t* const arena = arenas[fill].body;
  uint8_t* const arena_end = arena + arena_bytes;

  // The same four steps in the same order as MicroAllocator::Create(arena, size), with the watched allocator.
  WatchedAllocator first(arena, arena_bytes);
  void* const place = first.AllocatePersistentBuffer(sizeof(WatchedAllocator), alignof(WatchedAllocator));
  WatchedAllocator* const memory = new (place) WatchedAllocator(first);
  tflite::GreedyMemoryPlanner* const planner = new (memory->AllocatePersistentBuffer(
      sizeof(tflite::GreedyMemoryPlanner), alignof(tflite::GreedyMemoryPlanner))) tflite::GreedyMemoryPlanner();
  tflite::MicroAllocator* const allocator = tflite::MicroAllocator::Create(memory, planner);
  const int handles = CountVariableHandles(model);
  tflite::MicroResourceVariables* const variables =
      handles == 0 ? nullptr : tflite::MicroResourceVariables::Create(allocator, handles);

  tflite::MicroInterpreter interpreter(model, *resolver, allocator, variables);
  if (interpreter.AllocateTensors() != kTfLiteOk) return kAllocateFailed;
  quiet = false;
  if (fill == 0) arena_used = interpreter.arena_used_bytes();

  // Activations and scratch buffers live below the head's end, everything that lasts above the tail's start.
  uint8_t* const head_end = arena + memory->GetNonPersistentUsedBytes();
  uint8_t* const tail_start = arena_end - memory->GetPersistentUsedBytes();
  if (head_end + kSmallestGap > tail_start) return kTooLarge;

  size_t in = 0;
  size_t out = 0;
  for (size_t i = 0; i < interpreter.inputs_size(); ++i) in += interpreter.input(i)->bytes;
  for (size_t i = 0; i < interpreter.outputs_size(); ++i) out += interpreter.output(i)->bytes;
  if (in != input_bytes) return kInputSize;
  if (out > kOutputBytes) return kTooLarge;
  if (fill == 0) output_bytes = out;
  if (out != output_bytes) return kInvokeFailed;

  uint8_t* const space = Space(arenas[fill]);
  const uint8_t* used = highest_used > head_end ? highest_used : head_end;
  if (used > tail_start) used = tail_start;  // what lasts may lie where something temporary was
  Paint(fill, space, kGuard, static_cast<size_t>(used - space));
  const uint8_t* from = staged_inputs;
  for (size_t i = 0; i < interpreter.inputs_size(); ++i) {
    TfLiteTensor* const tensor = interpreter.input(i);
    if (tensor->data.data != nullptr) memcpy(tensor->data.data, from, tensor->bytes);
    from += tensor->bytes;
  }

  uint8_t* const used_before = highest_used;
  highest_used = head_end;
  const TfLiteStatus invoked = interpreter.Invoke();
  const uint8_t* const gap_start = highest_used;
  if (highest_used > head_end) flags[fill] |= kTemporaryInInvoke;
  if (highest_used < used_before) highest_used = used_before;

  uint8_t* to = OutputOfFill(fill);
  for (size_t i = 0; i < interpreter.outputs_size(); ++i) {
    const TfLiteTensor* const tensor = interpreter.output(i);
    if (tensor->data.data != nullptr) {
      memcpy(to, tensor->data.data, tensor->bytes);
    } else {
      memset(to, 0, tensor->bytes);
    }
    to += tensor->bytes;
  }

  from = staged_inputs;
  for (size_t i = 0; i < interpreter.inputs_size(); ++i) {
    const TfLiteTensor* const tensor = interpreter.input(i);
    if (tensor->data.data != nullptr && !IsAlsoAnOutput(interpreter, tensor->data.data) &&
        !Same(static_cast<const uint8_t*>(tensor->data.data), from, tensor->bytes)) {
      flags[fill] |= kInputChanged;
    }
    from += tensor->bytes;
  }
  if (!Untouched(fill, space, static_cast<size_t>(gap_start - space), static_cast<size_t>(tail_start - space))) {
    flags[fill] |= kGapChanged;
  }
  return invoked == kTfLiteOk ? kOk : kInvokeFailed;
}

Status RunFill(int fill) {
  Arena& arena = arenas[fill];
  ModelSpace& model_space = model_spaces[fill];
  memcpy(model_space.body, staged_model, model_bytes);
  highest_used = arena.body;
  lowest_kept = arena.body + arena_bytes;
  ticks_left = kTicksPerFill;

  const tflite::Model* const model = CheckedModel(model_space.body, model_bytes);
  const Status status = model == nullptr ? kMalformed : Interpret(fill, model);

  uint8_t* const space = Space(arena);
  const size_t arena_end = kGuard + arena_bytes;
  if (!Untouched(fill, space, 0, kGuard) || !Untouched(fill, space, arena_end, arena_end + kGuard)) {
    flags[fill] |= kGuardChanged;
  }
  if (!Same(model_space.body, staged_model, model_bytes)) flags[fill] |= kModelChanged;
  const size_t model_end = kGuard + model_bytes;
  if (!Untouched(fill, Space(model_space), 0, kGuard) ||
      !Untouched(fill, Space(model_space), model_end, model_end + kGuard)) {
    flags[fill] |= kAroundModelChanged;
  }

  // Puts the pattern back.
  if (status != kOk || (flags[fill] & ~(kInputChanged | kTemporaryInInvoke)) != 0) {
    PaintEverything(fill);
  } else {
    Paint(fill, space, kGuard, static_cast<size_t>(highest_used - space));
    Paint(fill, space, static_cast<size_t>(lowest_kept - space), arena_end);
    Paint(fill, Space(model_space), kGuard, model_end);
  }
  return status;
}

[[noreturn]] void RunCases() {
  for (; case_index < case_count; ++case_index) {
    uint32_t sizes[2];
    if (!Seek(batch_file, next_position) || !Read(batch_file, sizes, sizeof sizes)) Exit(3);
    model_bytes = sizes[0];
    input_bytes = sizes[1];
    next_position += sizeof sizes + model_bytes + input_bytes;
    arena_used = output_bytes = 0;
    memset(flags, 0, sizeof flags);
    if (model_bytes > kModelBytes || input_bytes > kInputBytes) {
      WriteRecord(kTooLarge);
      continue;
    }
    if (!Read(batch_file, staged_model, model_bytes) || !Read(batch_file, staged_inputs, input_bytes)) Exit(3);
    Status status = kOk;
    in_case = true;
    arena_bytes = kSmallArenaBytes;
    quiet = true;
    current_fill = 0;
    status = RunFill(0);
    quiet = false;
    if (status == kAllocateFailed || status == kTooLarge) {
      arena_bytes = kArenaBytes;
      memset(flags, 0, sizeof flags);
      for (int fill = 0; fill < kFills; ++fill) PaintEverything(fill);
      status = RunFill(0);
    }
    for (int fill = 1; fill < kFills && status == kOk; ++fill) {
      current_fill = fill;
      status = RunFill(fill);
    }
    in_case = false;
    WriteRecord(status);
  }
  Exit(0);
}

// ----------------------------------------------------------------------------------------------------- after a fault

// Continues in thread mode with an empty stack.
extern "C" [[noreturn]] __attribute__((used)) void recover() {
#if defined(__ARM_FEATURE_MVE)
  asm volatile("lctp\n\tmovs r0, #0\n\tvmsr p0, r0" ::: "r0", "memory");
#endif
  static char text[160];
  snprintf(text, sizeof text, "[%lu] fault %lu in fill %d: pc %08lx status %08lx address %08lx\n",
           static_cast<unsigned long>(case_index), static_cast<unsigned long>(fault_kind), current_fill,
           static_cast<unsigned long>(fault_program_counter), static_cast<unsigned long>(fault_status),
           static_cast<unsigned long>(fault_address));
  Host(kSysWrite0, text);
  if (!in_case) Exit(7);
  in_case = false;
  if (current_fill < kFills) flags[current_fill] |= fault_kind << kFaultShift;
  WriteRecord(kFault);
  // Nobody knows what was written where.
  MakePatterns();
  for (int fill = 0; fill < kFills; ++fill) PaintEverything(fill);
  ++case_index;
  RunCases();
}

// An exception frame for recover() at the top of the thread's stack, which nobody needs any more.
extern "C" [[noreturn]] INTEGER_ONLY __attribute__((used)) void leave_handler() {
  uintptr_t top = reinterpret_cast<uintptr_t>(__thread_stack_top);
  asm("" : "+r"(top));  // an address, not the object of that name
  uint32_t* const frame = reinterpret_cast<uint32_t*>(top) - 8;
  for (int i = 0; i < 5; ++i) frame[i] = 0;
  frame[5] = 0xffffffff;
  frame[6] = reinterpret_cast<uint32_t>(&recover) & ~1u;
  frame[7] = 0x01000000;
  asm volatile(
      "msr psp, %0\n\t"
      "msr msp, %1\n\t"
      "mvn lr, #2\n\t"  // 0xfffffffd: to thread mode, on the process stack, without a floating-point frame
      "dsb\n\tisb\n\t"
      "bx lr"
      :
      : "r"(frame), "r"(__handler_stack_top)
      : "memory");
  __builtin_unreachable();
}

extern "C" [[noreturn]] INTEGER_ONLY __attribute__((used)) void on_fault() {
  uint32_t number, stack;
  asm volatile("mrs %0, ipsr\n\tmrs %1, psp" : "=r"(number), "=r"(stack));
  fault_kind = number & 0xff;
  fault_status = Register(kFaultStatus);
  fault_address = Register(kFaultAddress);
  const uint32_t low = reinterpret_cast<uint32_t>(__thread_stack_low);
  const uint32_t top = reinterpret_cast<uint32_t>(__thread_stack_top);
  fault_program_counter = stack >= low && stack <= top - 32 ? reinterpret_cast<const uint32_t*>(stack)[6] : 0;
  Register(kFaultStatus) = 0xffffffff;
  Register(kHardFaultStatus) = 0xffffffff;
  leave_handler();
}

extern "C" INTEGER_ONLY __attribute__((used)) void on_tick() {
  if (!in_case) return;
  const int32_t left = ticks_left - 1;
  ticks_left = left;
  if (left <= 0) on_fault();
}

extern "C" INTEGER_ONLY __attribute__((used)) void on_nothing() {}

}  // namespace

// TFLite's checks end here.
extern "C" [[noreturn]] void abort() {
  fault_kind = kAbort;
  fault_program_counter = reinterpret_cast<uint32_t>(__builtin_return_address(0));
  fault_status = fault_address = 0;
  asm volatile("msr psp, %0\n\tisb\n\tb recover" : : "r"(__thread_stack_top) : "memory");
  __builtin_unreachable();
}

// What the library has to say, once per case.
extern "C" void DebugLog(const char* format, va_list arguments) {
  // TFLM prints this and then loops forever (TFLITE_ABORT, compatibility.h).
  if (strncmp(format, "HALTED", 6) == 0) abort();
  if (quiet || current_fill != 0) return;
  static char text[320];
  static bool at_line_start = true;
  int used = 0;
  if (at_line_start) used = snprintf(text, sizeof text, "[%lu] ", static_cast<unsigned long>(case_index));
  vsnprintf(text + used, sizeof text - static_cast<size_t>(used), format, arguments);
  for (char* p = text; *p != 0; ++p) {
    if (*p == '\r') *p = ' ';
  }
  at_line_start = strchr(text, '\n') != nullptr;
  Host(kSysWrite0, text);
}

extern "C" int DebugVsnprintf(char* buffer, size_t size, const char* format, va_list arguments) {
  return vsnprintf(buffer, size, format, arguments);
}

// --------------------------------------------------------------------------------------------------------- start-up

namespace {

[[noreturn]] void Usage() {
  Host(kSysWrite0, "usage: BATCH RESULT FIRST\n");
  Exit(2);
}

}  // namespace

extern "C" [[noreturn]] __attribute__((used)) void start() {
  memset(__bss_start, 0, static_cast<size_t>(__bss_end - __bss_start));
  for (void (**f)() = __init_array_start; f != __init_array_end; ++f) (*f)();

  const intptr_t block[] = {reinterpret_cast<intptr_t>(command_line), sizeof command_line};
  if (Host(kSysGetCommandLine, block) != 0) Usage();
  char* words[3] = {};
  int count = 0;
  for (char* word = strtok(command_line, " "); word != nullptr && count < 3; word = strtok(nullptr, " ")) {
    words[count++] = word;
  }
  if (count != 3) Usage();
  uint32_t first = 0;
  for (const char* p = words[2]; *p != 0; ++p) {
    if (*p < '0' || *p > '9') Usage();
    first = first * 10 + static_cast<uint32_t>(*p - '0');
  }
  resolver = new (resolver_memory) Resolver;
  if (!RegisterOperators(*resolver)) Exit(4);

  batch_file = Open(words[0], 1);                     // "rb"
  result_file = Open(words[1], first == 0 ? 5 : 9);   // "wb", "ab"
  uint32_t header[2];
  if (batch_file < 0 || result_file < 0 || !Read(batch_file, header, sizeof header)) Exit(3);
  if (memcmp(header, "EKB1", 4) != 0) Exit(3);
  if (first != 0) {  // QEMU opens a file to append at its beginning
    const intptr_t length = Host(kSysLength, &result_file);
    if (length < 0 || !Seek(result_file, static_cast<uint32_t>(length))) Exit(3);
  }
  case_count = header[1];
  next_position = sizeof header;
  for (case_index = 0; case_index < first && case_index < case_count; ++case_index) {
    uint32_t sizes[2];
    if (!Seek(batch_file, next_position) || !Read(batch_file, sizes, sizeof sizes)) Exit(3);
    next_position += sizeof sizes + sizes[0] + sizes[1];
  }

  ProtectMemory();
  MakePatterns();
  for (int fill = 0; fill < kFills; ++fill) PaintEverything(fill);
  Register(kSysTickReload) = 0xffffff;
  Register(kSysTickValue) = 0;
  Register(kSysTickControl) = 7;
  RunCases();
}

extern "C" __attribute__((naked, used)) void reset() {
  asm volatile(
      "cpsid i\n\t"
      "ldr r0, =0xe000ed08\n\t"  // the second table: a write through a null pointer must not disable the fault handlers
      "ldr r1, =second_vectors\n\t"
      "str r1, [r0]\n\t"
      "ldr r0, =0xe000ed24\n\t"  // memory management, bus and usage faults on
      "ldr r1, [r0]\n\t"
      "orr r1, r1, #0x70000\n\t"
      "str r1, [r0]\n\t"
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
      "ldr r0, =0xe000ed88\n\t"  // access to the coprocessors 10 and 11
      "ldr r1, [r0]\n\t"
      "orr r1, r1, #0xf00000\n\t"
      "str r1, [r0]\n\t"
      "dsb\n\tisb\n\t"
      "ldr r0, =0xe000ef34\n\t"  // no floating-point frames: no handler here uses those registers
      "ldr r1, [r0]\n\t"
      "bic r1, r1, #0xc0000000\n\t"
      "str r1, [r0]\n\t"
#endif
      "dsb\n\tisb\n\t"
      "ldr r0, =__thread_stack_top\n\t"
      "msr psp, r0\n\t"
      "movs r0, #2\n\t"
      "msr control, r0\n\t"
      "isb\n\t"
      "cpsie i\n\t"
      "b start\n\t"
      ".ltorg");
}

using Vector = const void*;
#define VECTOR(f) reinterpret_cast<Vector>(&f)
#define VECTORS                                                                                                        \
  {                                                                                                                    \
    __handler_stack_top, VECTOR(reset), VECTOR(on_fault), VECTOR(on_fault), VECTOR(on_fault), VECTOR(on_fault),        \
        VECTOR(on_fault), VECTOR(on_fault), nullptr, nullptr, nullptr, VECTOR(on_fault), VECTOR(on_fault), nullptr,    \
        VECTOR(on_nothing), VECTOR(on_tick)                                                                            \
  }
extern "C" {
extern Vector const vectors[16];
extern Vector const second_vectors[16];
__attribute__((section(".vectors"), used)) Vector const vectors[16] = VECTORS;
__attribute__((section(".rodata.second_vectors"), used, aligned(1024))) Vector const second_vectors[16] = VECTORS;
}
