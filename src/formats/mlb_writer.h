// The canonical writer of .mlb models: same values, same bytes, whoever writes and in whatever order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_file.h"
#include "formats/mlb.h"

namespace krafla {

/// Writes one model. Tensors are handed over in any order, from any thread, whole or by groups of rows, and
/// go straight to the file: memory does not grow with the model. The file appears at its path only with
/// commit().
class MlbWriter {
 public:
  /// `header` and `flags` are brought into canonical form (canonical_mlb) and checked. ML_E_IO if `path`
  /// cannot be created.
  MlbWriter(const std::string& path, const MlbHeader& header, std::span<const std::uint8_t> flags);

  /// The canonical header, as written.
  const MlbHeader& header() const { return canonical_.header; }
  /// All arrays in file order; the index of an array here is its handle in the calls below. layer_flags, if
  /// there, is written already.
  std::span<const MlbArray> arrays() const { return arrays_; }
  /// Bytes of the finished file.
  std::uint64_t size() const { return size_; }

  /// Quants and scales of the rows [row, row + rows) of the quantized array `index`, in the file's types: q
  /// and d are exactly the bytes of those rows. ML_E_ARG if they are not; ML_E_FORMAT for a Q8_0 quant of
  /// -128.
  void write_rows(std::size_t index, std::uint64_t row, std::uint64_t rows, Bytes q, Bytes d);
  /// All values of the F32 array `index`. ML_E_ARG if the count is wrong; ML_E_FORMAT for NaN or inf.
  void write_floats(std::size_t index, std::span<const float> values);

  /// Makes the file appear, after its companions and only with all of them (OutputFile::commit_together). The
  /// caller has handed over every row of every array; what was left out reads as zeros.
  void commit(std::span<OutputFile* const> companions = {});

 private:
  std::string path_;
  MlbCanonical canonical_;
  std::vector<MlbArray> arrays_;
  std::uint64_t size_ = 0;
  OutputFile file_;
};

/// The header's 256 bytes in file order.
std::vector<std::uint8_t> mlb_header_bytes(const MlbHeader& header);

}  // namespace krafla
