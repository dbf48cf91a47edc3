#include "convert/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>

#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "convert/arch/registry.h"
#include "convert/gguf_files.h"
#include "convert/plan.h"

namespace krafla {
namespace {

/// The sums of a tensor or a part of it.
struct Sums {
  double xx = 0, yy = 0, xy = 0, error = 0, max = 0;
  std::uint64_t weights = 0;
  bool equal = true, finite = true;  // finite: of the source

  void add(float stored, float wanted) {
    const auto x = static_cast<double>(wanted), y = static_cast<double>(stored);
    xx += x * x;
    yy += y * y;
    xy += x * y;
    error += (x - y) * (x - y);
    max = std::max(max, std::fabs(x - y));
    finite = finite && std::isfinite(wanted);
    equal = equal && std::bit_cast<std::uint32_t>(stored) == std::bit_cast<std::uint32_t>(wanted);
    ++weights;
  }
  void add(const Sums& other) {
    xx += other.xx;
    yy += other.yy;
    xy += other.xy;
    error += other.error;
    max = std::max(max, other.max);
    equal = equal && other.equal;
    finite = finite && other.finite;
    weights += other.weights;
  }
  TensorError report(std::string name, std::string source, const char* type) const {
    const double scale = std::sqrt(xx) * std::sqrt(yy);
    return {std::move(name),
            std::move(source),
            type,
            weights,
            error == 0 ? 0 : std::sqrt(error / xx),
            max,
            scale > 0  ? xy / scale
            : xx == yy ? 1.0
                       : 0.0};
  }
};

class Comparer {
 public:
  Comparer(Bytes file, const Mlb& mlb, std::vector<MlbArray> arrays, const ModelPlan& plan,
           const std::string& source, const Kernels& kernels)
      : source_(source),
        file_(file),
        header_(mlb.header),
        arrays_(std::move(arrays)),
        plan_(plan),
        kernels_(kernels) {}

  Comparison run(int threads) {
    Comparison out;
    out.header = header_differences();
    out.shapes = shape_differences();
    if (!out.shapes.empty()) return out;
    items_ = row_items(arrays_);
    sums_.resize(items_.size());
    ThreadPool pool(threads);
    pool.run(items_.size(), [&](std::size_t item, int) { compare(item); });
    report(out);
    return out;
  }

 private:
  std::vector<std::string> header_differences() const {
    const MlbHeader wanted = canonical_mlb(plan_.header, plan_.flags, "the source").header;
    std::vector<std::string> lines;
    for (const MlbField& field : mlb_fields()) {
      const std::string found = mlb_field_text(header_, field), source = mlb_field_text(wanted, field);
      if (found != source)
        lines.push_back(fmt::format("{}: {}; the source's is {}", field.name, found, source));
    }
    return lines;
  }

  std::vector<std::string> shape_differences() const {
    std::vector<std::string> lines;
    std::size_t known = 0;
    for (const MlbArray& a : arrays_) {
      const auto it = plan_.tensors.find(a.name());
      if (it == plan_.tensors.end()) {
        lines.push_back(fmt::format("{}: the source has no such tensor", a.name()));
        continue;
      }
      ++known;
      const SourceTensor& source = it->second;
      if (source.rows != a.rows || source.cols != a.cols)
        lines.push_back(fmt::format("{}: {} × {}; the source's {} is {} × {}", a.name(), a.rows, a.cols,
                                    source.name, source.rows, source.cols));
    }
    if (known == plan_.tensors.size()) return lines;
    for (const auto& [name, source] : plan_.tensors)
      if (std::none_of(arrays_.begin(), arrays_.end(),
                       [&, &key = name](const MlbArray& a) { return a.name() == key; }))
        lines.push_back(fmt::format("{}: is missing; the source has {}", name, source.name));
    return lines;
  }

  void compare(std::size_t index) {
    const RowItem& item = items_[index];
    const MlbArray& a = arrays_[item.array];
    const auto cols = static_cast<std::size_t>(a.cols);
    const SourceTensor& source = plan_.tensors.at(a.name());
    std::vector<float> x(cols), y(cols);
    for (auto row = static_cast<std::size_t>(item.row); row < item.row + item.rows; ++row) {
      source.read(row, x);
      read_stored(a, row, y);
      for (std::size_t c = 0; c < cols; ++c) sums_[index].add(y[c], x[c]);
    }
  }

  void read_stored(const MlbArray& a, std::size_t row, std::vector<float>& out) const {
    const std::uint8_t* data = file_.data() + a.offset;
    if (!a.quantized()) {
      const auto* floats = reinterpret_cast<const float*>(data) + row * out.size();
      std::copy_n(floats, out.size(), out.begin());
      return;
    }
    const bool f16 = header_.scale_f16 != 0;
    dequantize_rows(kernels_,
                    {a.type, 1, out.size(), data + row * quant_row_bytes(a.type, out.size()),
                     file_.data() + a.d_offset + row * scale_row_bytes(f16, out.size()), f16},
                    out.data());
  }

  void report(Comparison& out) const {
    std::vector<Sums> tensors(arrays_.size());
    for (std::size_t i = 0; i < items_.size(); ++i) tensors[items_[i].array].add(sums_[i]);
    std::vector<std::pair<const MlbArray*, Sums>> classes;  // in the order of their first tensors
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      const MlbArray& a = arrays_[i];
      const std::string& name = plan_.tensors.at(a.name()).name;
      if (!tensors[i].finite)
        fail(ML_E_FORMAT, "{}: {} ({}) has weights that are NaN or infinite; allowed: finite ones", source_,
             name, a.name());
      out.tensors.push_back(tensors[i].report(a.name(), name, a.type_name()));
      if (a.kind == MlbKind::f32 && !tensors[i].equal) out.unequal.push_back(a.name());
      const auto known = std::find_if(classes.begin(), classes.end(),
                                      [&](const auto& c) { return c.first->tensor == a.tensor; });
      (known == classes.end() ? classes.emplace_back(&a, Sums{}) : *known).second.add(tensors[i]);
    }
    for (const auto& [a, sums] : classes)
      out.classes.push_back(sums.report(std::string(a->tensor->name), "", a->type_name()));
  }

  const std::string& source_;
  Bytes file_;
  const MlbHeader& header_;
  std::vector<MlbArray> arrays_;
  const ModelPlan& plan_;
  const Kernels& kernels_;
  std::vector<RowItem> items_;
  std::vector<Sums> sums_;
};

}  // namespace

Comparison compare_model(const std::string& model, const std::string& source, int threads,
                         const Kernels& kernels) {
  const MappedFile file(model);
  const Mlb mlb = parse_mlb(file.bytes(), model);
  const MlbHeader& header = mlb.header;
  std::vector<MlbArray> arrays =
      mlb_layout(header, mlb_stored_flags(header, file.bytes(), model), file.bytes().size(), model);
  std::erase_if(arrays, [](const MlbArray& a) { return a.kind == MlbKind::flags; });
  const StorageChoice storage{header.weight_type(), header.scale_f16 != 0, header.q8_mask};
  const auto compare = [&](const ModelPlan& plan) {
    return Comparer(file.bytes(), mlb, std::move(arrays), plan, source, kernels).run(threads);
  };

  std::error_code ignored;
  if (std::filesystem::is_directory(source, ignored)) {
    const HfCheckpoint checkpoint(source);
    return compare(hf_family(checkpoint).plan_hf(checkpoint, storage));
  }
  const MappedFile gguf(source);
  const GgufFiles files(source, gguf.bytes());
  return compare(gguf_family(files.gguf()).plan_gguf(files.gguf(), storage));
}

}  // namespace krafla
