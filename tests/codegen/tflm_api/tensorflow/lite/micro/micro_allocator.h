#ifndef TFLM_API_ALLOCATOR_H
#define TFLM_API_ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

namespace tflite {

enum class MemoryPlannerType { kGreedy, kLinear };

class MicroAllocator {
  public:
    static MicroAllocator *Create(uint8_t *tensor_arena, size_t arena_size,
                                  MemoryPlannerType memory_planner_type = MemoryPlannerType::kGreedy);
    static MicroAllocator *Create(uint8_t *persistent_tensor_arena, size_t persistent_arena_size,
                                  uint8_t *non_persistent_tensor_arena, size_t non_persistent_arena_size,
                                  MemoryPlannerType memory_planner_type = MemoryPlannerType::kGreedy);
    static size_t GetDefaultTailUsage(bool is_memory_planner_given);
    size_t used_bytes() const;

  protected:
    MicroAllocator();
    virtual ~MicroAllocator();
};

}  // namespace tflite

#endif
