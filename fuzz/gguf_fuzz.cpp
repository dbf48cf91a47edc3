// Any bytes as a GGUF: an Error, or tensors inside the file; then the family's plan of it: an Error, or a
// valid header and rows that can be read. The corpus has a file of every family.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "convert/arch/registry.h"
#include "convert/gguf_tokenizer.h"
#include "formats/gguf.h"
#include "quant/gguf_dequantize.h"

namespace {

void read_everything(const krafla::Gguf& g) {
  for (const krafla::GgufEntry& e : g.metadata) {
    if (g.find(e.key) != &e.value) std::abort();
    for (std::size_t i = 0; i < e.value.count; ++i)
      if (e.value.number(i).value_or(0) != e.value.number(i).value_or(0) && e.value.integer(i)) std::abort();
  }
  for (const krafla::GgufTensor& t : g.tensors) {
    if (g.tensor(t.name) != &t || t.rows() * t.row_bytes() != t.data.size()) std::abort();
    if (!krafla::can_dequantize(*t.type)) continue;
    std::vector<float> row(t.cols());
    krafla::dequantize_row(*t.type, t.row(t.rows() - 1), row, t.name);
  }
}

void read_plan(const krafla::ModelPlan& plan) {
  krafla::check_mlb_header(plan.header, "fuzz.gguf");
  for (const auto& [name, t] : plan.tensors) {
    std::vector<float> row(t.cols);
    t.read(t.rows - 1, row);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const krafla::Gguf g = krafla::parse_gguf({data, size}, "fuzz.gguf");
    read_everything(g);
    const krafla::StorageChoice storage;
    read_plan(krafla::gguf_family(g).plan_gguf(g, storage));
    krafla::convert_gguf_tokenizer(krafla::read_gguf_tokenizer(g));
  } catch (const krafla::Error& e) {
    if (e.status() != ML_E_FORMAT && e.status() != ML_E_SHAPE && e.status() != ML_E_UNSUPPORTED) std::abort();
  }
  return 0;
}
