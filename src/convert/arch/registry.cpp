#include "convert/arch/registry.h"

#include <string>

namespace krafla {
namespace {

constexpr GgufFamily kGgufFamilies[] = {
    {"llama", plan_llama_gguf},
};

}  // namespace

const GgufFamily& gguf_family(const Gguf& gguf) {
  const auto name = gguf.text("general.architecture");
  if (!name) fail(ML_E_FORMAT, "{}: the key general.architecture is missing", gguf.name);
  std::string known;
  for (const GgufFamily& family : kGgufFamilies) {
    if (*name == family.architecture) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.architecture);
  }
  fail(ML_E_UNSUPPORTED, "{}: general.architecture is \"{}\"; supported: {}", gguf.name, printable(*name), known);
}

}  // namespace krafla
