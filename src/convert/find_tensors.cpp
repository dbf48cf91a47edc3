#include "convert/find_tensors.h"

#include <limits>

#include "base/pluralized.h"
#include "convert/tensor_names.h"

namespace krafla {

std::set<std::string, std::less<>> find_tensors(const TensorContainer& container, PrepareRows prepare,
                                                ModelPlan& plan) {
  plan.header.layer_flags = !plan.flags.empty();
  MlbCanonical canonical = canonical_mlb(plan.header, plan.flags, container.settings);
  plan.header = canonical.header;
  plan.flags = std::move(canonical.flags);
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::vector<std::string> missing, wrong, unread;
  std::set<std::string, std::less<>> used;
  for (const MlbArray& a : mlb_layout(plan.header, plan.flags, kMost, container.settings)) {
    if (a.kind == MlbKind::flags) continue;
    const std::string name = container.name_of(a);
    const bool first = used.insert(name).second;  // wq and wg may come out of one tensor
    auto found = container.find(name, a);
    if (!found) {
      if (first) missing.push_back(name);
    } else if (!found->wrong_shape.empty()) {
      if (first) wrong.push_back(name + " is " + found->wrong_shape);
    } else if (!found->unreadable.empty()) {
      if (first) unread.push_back(name + " is " + found->unreadable);
    } else {
      plan.tensors.emplace(a.name(), prepare(std::move(found->rows), plan.header, *a.tensor));
    }
  }
  if (!missing.empty())
    fail(ML_E_FORMAT, "{}: missing: {}:{}", container.name, pluralized(missing.size(), "tensor"),
         listed(missing));
  if (!wrong.empty()) fail(ML_E_SHAPE, "{}: tensors have a wrong shape:{}", container.name, listed(wrong));
  if (!unread.empty())
    fail(ML_E_UNSUPPORTED, "{}: readable types are {}, but:{}", container.name, container.readable_types,
         listed(unread));
  return used;
}

}  // namespace krafla
