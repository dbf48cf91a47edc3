// Where the rows of a text's scored positions come from: a model that reads the text along, or a file of
// saved logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/mll.h"
#include "model/forward.h"

namespace krafla {

class RowSource {
 public:
  virtual ~RowSource() = default;
  /// A new window begins: nothing was read yet.
  virtual void begin_window() = 0;
  /// The next tokens of the window; the rows of the last `scored` of them will be asked for.
  virtual void feed(std::span<const std::int32_t> ids, std::size_t scored) = 0;
  /// Of the scored tokens of the last feed(), the rows [first, first + count); row i begins i * stride()
  /// floats after the first.
  virtual const float* rows(std::size_t first, std::size_t count) = 0;
  virtual std::size_t stride() const = 0;
};

/// A model's rows, vocab floats each.
class ModelRows : public RowSource {
 public:
  ModelRows(const Model& model, Context& context, KvType kv);
  void begin_window() override;
  void feed(std::span<const std::int32_t> ids, std::size_t scored) override;
  const float* rows(std::size_t first, std::size_t count) override;
  std::size_t stride() const override { return model_.config().vocab; }

 private:
  const Model& model_;
  Context& context_;
  PagePool pool_;
  Sequence sequence_;
  Batch batch_;
  std::size_t unscored_ = 0;  // the first so many rows of the last feed
  std::vector<float> logits_;
};

/// The rows of a file, where they lie.
class SavedRows : public RowSource {
 public:
  explicit SavedRows(const Mll& saved) : saved_(saved) {}
  void begin_window() override {}
  void feed(std::span<const std::int32_t>, std::size_t scored) override {
    begin_ = end_;
    end_ += scored;
  }
  const float* rows(std::size_t first, std::size_t) override { return saved_.row(begin_ + first).data(); }
  std::size_t stride() const override { return saved_.text.vocab; }

 private:
  const Mll& saved_;
  std::size_t begin_ = 0, end_ = 0;  // the scored rows of the last feed
};

}  // namespace krafla
