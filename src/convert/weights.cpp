// The weights of a planned model, quantized on all threads and streamed into the .mlb: work is groups of
// rows.
#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>
#include <optional>
#include <set>

#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "convert/convert.h"
#include "formats/mlb_writer.h"
#include "formats/mli.h"

namespace krafla {
namespace {

/// Sums of squares for ClassError.
struct Deviation {
  double error = 0;
  double weight = 0;
};

/// The importance of input channels, as the quantizer wants it, for each slot of an importance matrix.
class Importance {
 public:
  Importance(const std::string& path, const MlbHeader& header, std::span<const std::uint8_t> flags) {
    const MappedFile file(path);
    const Mli mli = parse_mli(file.bytes(), path);
    check_mli_model(mli, header, flags, path);
    for (std::size_t i = 0; i < mli.n_layers; ++i)
      for (const MliSlot slot : {MliSlot::qkv, MliSlot::o, MliSlot::up, MliSlot::down})
        slots_.push_back(relative_importance(mli.layer(i, slot), mli.layer_tokens));
    classifier_ = relative_importance(mli.classifier(), mli.classifier_tokens);
    shared_ = header.shared_classifier != 0;
  }

  /// Of the columns of a matrix; empty for a tok_emb that is not the classifier: nothing is multiplied by
  /// it.
  std::span<const float> of(const MlbArray& a) const {
    if (const auto& slot = a.tensor->slot)
      return slots_[static_cast<std::size_t>(a.layer) * 4 + static_cast<std::size_t>(*slot)];
    return a.tensor->q8_class == kClassCls || shared_ ? std::span<const float>(classifier_)
                                                      : std::span<const float>();
  }

 private:
  std::vector<std::vector<float>> slots_;
  std::vector<float> classifier_;
  bool shared_ = false;
};

class WeightsJob {
 public:
  WeightsJob(const ModelPlan& plan, const std::string& path, const ConvertOptions& options)
      : plan_(plan),
        options_(options),
        kernels_(options.kernels != nullptr ? *options.kernels : choose_kernels(nullptr)),
        rule_(options.q4_rule.value_or(options.imatrix.empty() ? plan.q4_rule : Q4Rule::search)),
        writer_(path, plan.header, plan.flags),
        items_(row_items(writer_.arrays())) {
    if (!options.imatrix.empty()) {
      if (rule_ == Q4Rule::round)
        fail(ML_E_ARG, "{}: the Q4_0 rule round weights nothing; an importance matrix needs search",
             options.imatrix);
      importance_.emplace(options.imatrix, plan.header, plan.flags);
    }
    deviations_.resize(items_.size());
    left_.resize(writer_.arrays().size());
    for (const RowItem& item : items_) {
      total_ += item.rows * writer_.arrays()[item.array].cols;
      ++left_[item.array];
    }
  }

  ConvertSummary run(std::span<OutputFile* const> companions) {
    ThreadPool pool(options_.threads);
    buffers_.resize(static_cast<std::size_t>(pool.size()));
    pool.run(items_.size(), [&](std::size_t item, int thread) {
      guarded(item, buffers_[static_cast<std::size_t>(thread)]);
    });
    if (error_) std::rethrow_exception(error_);
    if (options_.progress) options_.progress({total_, total_});
    writer_.commit(companions);
    return summary();
  }

 private:
  struct Buffers {
    std::vector<float> x, y;
    std::vector<std::uint8_t> q, d;
  };

  /// The error that is reported is the one of the first item in file order, whatever the threads did.
  void guarded(std::size_t item, Buffers& buffers) {
    {
      const std::lock_guard lock(mutex_);
      if (error_ && item > error_item_) return;
    }
    try {
      if (options_.cancelled && options_.cancelled())
        fail(ML_E_CANCELLED, "the conversion was cancelled; nothing was written");
      convert(item, buffers);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_ || item < error_item_) {
        error_ = std::current_exception();
        error_item_ = item;
      }
    }
  }

  void convert(std::size_t index, Buffers& b) {
    const RowItem& item = items_[index];
    const MlbArray& a = writer_.arrays()[item.array];
    const SourceTensor& source = plan_.tensors.at(a.name());
    const auto cols = static_cast<std::size_t>(a.cols);
    const auto rows = static_cast<std::size_t>(item.rows);
    const auto first = static_cast<std::size_t>(item.row);
    b.x.resize(rows * cols);
    for (std::size_t r = 0; r < rows; ++r) source.read(first + r, {b.x.data() + r * cols, cols});
    if (a.kind == MlbKind::f32) {
      check_floats(source, a, b.x);
      writer_.write_floats(item.array, b.x);
    } else {
      quantize(index, a, b);
    }
    finished(item, source, rows * cols);
  }

  std::string name_of(const SourceTensor& source, const MlbArray& a) const {
    return fmt::format("{}: {} ({})", plan_.source, source.name, a.name());
  }

  /// Names the checkpoint's tensor where the writer would name the .mlb's.
  void check_floats(const SourceTensor& source, const MlbArray& a, std::span<const float> x) const {
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!std::isfinite(x[i]))
        fail(ML_E_FORMAT, "{} row {}: weight {} in column {}; allowed: finite weights", name_of(source, a),
             source.source_row(i / source.cols), x[i], i % source.cols);
  }

  void quantize(std::size_t index, const MlbArray& a, Buffers& b) {
    const RowItem& item = items_[index];
    const auto cols = static_cast<std::size_t>(a.cols);
    const auto rows = static_cast<std::size_t>(item.rows);
    const bool f16 = writer_.header().scale_f16 != 0;
    QuantRule rule{.type = a.type, .d_f16 = f16, .q4_rule = rule_, .importance = {}};
    if (importance_ && rule.type == WeightType::q4_0) rule.importance = importance_->of(a);
    b.q.resize(rows * quant_row_bytes(rule.type, cols));
    b.d.resize(rows * scale_row_bytes(f16, cols));
    b.y.resize(rows * cols);
    const SourceTensor& source = plan_.tensors.at(a.name());
    const std::string name = name_of(source, a);
    try {
      quantize_rows(kernels_, rule, b.x.data(), rows, cols, b.q.data(), b.d.data(), name, 0);
    } catch (const Error&) {  // once more row by row, to name the checkpoint's row
      for (std::size_t r = 0; r < rows; ++r)
        quantize_rows(kernels_, rule, b.x.data() + r * cols, 1, cols, b.q.data(), b.d.data(), name,
                      source.source_row(static_cast<std::size_t>(item.row) + r));
      throw;
    }
    dequantize_rows(kernels_, {a.type, rows, cols, b.q.data(), b.d.data(), f16}, b.y.data());
    deviations_[index] = deviation(b.x, b.y);
    writer_.write_rows(item.array, item.row, item.rows, b.q, b.d);
  }

  static Deviation deviation(std::span<const float> x, std::span<const float> y) {
    double error[4] = {}, weight[4] = {};  // four chains, so that additions need not wait for each other
    for (std::size_t i = 0; i + 4 <= x.size(); i += 4)
      for (std::size_t j = 0; j < 4; ++j) {
        const double v = static_cast<double>(x[i + j]);
        const double e = v - static_cast<double>(y[i + j]);
        error[j] += e * e;
        weight[j] += v * v;
      }
    return {(error[0] + error[1]) + (error[2] + error[3]), (weight[0] + weight[1]) + (weight[2] + weight[3])};
  }

  void finished(const RowItem& item, const SourceTensor& source, std::uint64_t weights) {
    const std::lock_guard lock(mutex_);
    if (--left_[item.array] == 0 && source.release) source.release();
    done_ += weights;
    if (options_.progress) options_.progress({done_, total_});
  }

  ConvertSummary summary() const {
    ConvertSummary s;
    s.header = writer_.header();
    s.bytes = writer_.size();
    s.weights = total_;
    s.notes = plan_.notes;
    s.errors = class_errors();
    return s;
  }

  /// The deviations of each class that the model has, in file order.
  std::vector<ClassError> class_errors() const {
    std::vector<ClassError> errors;
    std::set<MlbClass> done;
    for (const MlbTensor& t : mlb_tensors()) {
      if (t.kind != MlbKind::quantized || !done.insert(t.q8_class).second) continue;
      ClassError e;
      Deviation sum;
      std::vector<std::string_view> names;
      for (std::size_t i = 0; i < items_.size(); ++i) {
        const MlbArray& a = writer_.arrays()[items_[i].array];
        if (!a.quantized() || a.tensor->q8_class != t.q8_class) continue;
        if (std::find(names.begin(), names.end(), a.tensor->name) == names.end())
          names.push_back(a.tensor->name);
        e.type = a.type;
        e.weights += items_[i].rows * a.cols;
        sum.error += deviations_[i].error;
        sum.weight += deviations_[i].weight;
      }
      e.name = fmt::format("{}", fmt::join(names, " "));
      e.relative_rms = sum.weight > 0 ? std::sqrt(sum.error / sum.weight) : 0;
      if (e.weights > 0) errors.push_back(e);
    }
    return errors;
  }

  const ModelPlan& plan_;
  const ConvertOptions& options_;
  const Kernels& kernels_;
  const Q4Rule rule_;
  std::optional<Importance> importance_;
  MlbWriter writer_;
  std::vector<RowItem> items_;
  std::vector<std::size_t> left_;  // items of each array that are not done
  std::vector<Deviation> deviations_;
  std::vector<Buffers> buffers_;
  std::uint64_t total_ = 0;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
  std::exception_ptr error_;
  std::size_t error_item_ = 0;
};

}  // namespace

ConvertSummary convert_weights(const ModelPlan& plan, const std::string& path, const ConvertOptions& options,
                               std::span<OutputFile* const> companions) {
  return WeightsJob(plan, path, options).run(companions);
}

}  // namespace krafla
