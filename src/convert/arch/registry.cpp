#include "convert/arch/registry.h"

#include <algorithm>
#include <string>
#include <vector>

namespace krafla {
namespace {

constexpr const Family* kFamilies[] = {&kLlama,  &kMistral, &kQwen2,  &kQwen3,
                                       &kQwen35, &kSmolLm3, &kGemma2, &kGemma3};

using Names = std::span<const std::string_view> Family::*;

const Family* find(std::string_view name, Names names) {
  for (const Family* family : kFamilies) {
    const std::span<const std::string_view> all = family->*names;
    if (std::find(all.begin(), all.end(), name) != all.end()) return family;
  }
  return nullptr;
}

std::string known(Names names) {
  std::vector<std::string_view> all;
  for (const Family* family : kFamilies)
    all.insert(all.end(), (family->*names).begin(), (family->*names).end());
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace

const Family& gguf_family(const Gguf& gguf) {
  const auto name = gguf.text("general.architecture");
  if (!name) fail(ML_E_FORMAT, "{}: the key general.architecture is missing", gguf.name);
  if (const Family* family = find(*name, &Family::gguf)) return *family;
  fail(ML_E_UNSUPPORTED, "{}: general.architecture is \"{}\"; supported: {}", gguf.name, printable(*name),
       known(&Family::gguf));
}

const Family& hf_family(const HfCheckpoint& checkpoint) {
  const HfConfig& config = checkpoint.config();
  if (const Family* family = find(config.model_type(), &Family::hf)) return *family;
  fail(ML_E_UNSUPPORTED, "{}: model_type is \"{}\"; supported: {}", config.name(),
       printable(config.model_type()), known(&Family::hf));
}

}  // namespace krafla
