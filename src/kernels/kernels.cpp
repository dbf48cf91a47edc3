#include "kernels/kernels.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/cpu.h"
#include "base/error.h"

namespace krafla {

extern const Kernels kernels_scalar;
#ifdef KRAFLA_HAS_AVX2
extern const Kernels kernels_avx2;
#endif

namespace {

constexpr const char* kNames[] = {"scalar",
#ifdef KRAFLA_HAS_AVX2
                                  "avx2",
#endif
                                  nullptr};

}  // namespace

const char* const* kernel_names() { return kNames; }

const Kernels* find_kernels(const char* name) {
  if (std::strcmp(name, "scalar") == 0) return &kernels_scalar;
#ifdef KRAFLA_HAS_AVX2
  if (std::strcmp(name, "avx2") == 0 && cpu_features().avx2) return &kernels_avx2;
#endif
  return nullptr;
}

const Kernels& choose_kernels(const char* forced) {
  const char* source = "--isa";
  if (forced == nullptr || *forced == '\0') {
    forced = std::getenv("KRAFLA_ISA");
    source = "KRAFLA_ISA";
  }
  if (forced != nullptr && *forced != '\0') {
    if (const Kernels* found = find_kernels(forced)) return *found;
    std::string known;
    for (const char* const* name = kNames; *name != nullptr; ++name)
      if (find_kernels(*name) != nullptr) known += std::string(known.empty() ? "" : ", ") + *name;
    fail(ML_E_ISA, "{}={}: this instruction set is unknown or not on this CPU; available here: {}", source, forced, known);
  }
  const Kernels* best = &kernels_scalar;
  for (const char* const* name = kNames; *name != nullptr; ++name)
    if (const Kernels* found = find_kernels(*name)) best = found;
  return *best;
}

}  // namespace krafla
