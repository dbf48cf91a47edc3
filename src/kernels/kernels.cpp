#include "kernels/kernels.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/cpu.h"
#include "base/error.h"

namespace krafla {

#define KRAFLA_ISA(name, needs) extern const Kernels kernels_##name;
#include "isa_list.inc"
#undef KRAFLA_ISA

namespace {

/// The instruction sets of this build (CMakeLists.txt's list), fastest last.
struct Isa {
  const char* name;
  const Kernels* kernels;
  bool CpuFeatures::* needs;
};
constexpr Isa kIsas[] = {
#define KRAFLA_ISA(name, needs) {#name, &kernels_##name, &CpuFeatures::needs},
#include "isa_list.inc"
#undef KRAFLA_ISA
};

constexpr const char* kNames[] = {
#define KRAFLA_ISA(name, needs) #name,
#include "isa_list.inc"
#undef KRAFLA_ISA
    nullptr};

}  // namespace

const char* const* kernel_names() { return kNames; }

const Kernels* find_kernels(const char* name) {
  static const CpuFeatures cpu = cpu_features();
  for (const Isa& isa : kIsas)
    if (std::strcmp(name, isa.name) == 0 && cpu.*isa.needs) return isa.kernels;
  return nullptr;
}

const Kernels& choose_kernels(const char* forced) {
  if (forced == nullptr || *forced == '\0') forced = std::getenv("KRAFLA_ISA");
  const bool is_forced = forced != nullptr && *forced != '\0';
  if (is_forced)
    if (const Kernels* found = find_kernels(forced)) return *found;
  const Kernels* best = nullptr;
  std::vector<const char*> available;
  for (const Isa& isa : kIsas)
    if (const Kernels* found = find_kernels(isa.name)) {
      best = found;
      available.push_back(isa.name);
    }
  if (is_forced)
    fail(ML_E_ISA, "instruction set {}: it is unknown or not on this CPU; available here: {}", forced,
         fmt::join(available, ", "));
  return *best;
}

}  // namespace krafla
