#include "formats/mlb_writer.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/round_up.h"

namespace krafla {

MlbWriter::MlbWriter(const std::string& path, const MlbHeader& header, std::span<const std::uint8_t> flags)
    : path_(path), canonical_(canonical_mlb(header, flags, path)), file_(path) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());  // of an off_t
  arrays_ = mlb_layout(canonical_.header, canonical_.flags, kMost, path_);
  const std::uint64_t end = arrays_.back().end();
  size_ = round_up<std::uint64_t>(end, kMlbAlign);
  file_.set_size(size_);  // padding is what is never written
  const std::vector<std::uint8_t> head = mlb_header_bytes(canonical_.header);
  file_.write_at(0, head.data(), head.size());
  if (!canonical_.flags.empty())
    file_.write_at(arrays_[0].offset, canonical_.flags.data(), canonical_.flags.size());
}

void MlbWriter::write_rows(std::size_t index, std::uint64_t row, std::uint64_t rows, Bytes q, Bytes d) {
  const MlbArray& a = arrays_[index];
  const std::uint64_t q_row = a.size / a.rows;
  const std::uint64_t d_row = a.d_size / a.rows;
  if (!a.quantized() || row > a.rows || rows > a.rows - row || q.size() != rows * q_row ||
      d.size() != rows * d_row)
    fail(ML_E_ARG, "{}: {}: rows {} to {} with {} and {} bytes do not fit an array of {} × {}", path_,
         a.name(), row, row + rows, q.size(), d.size(), a.rows, a.cols);
  if (a.type == WeightType::q8_0) {
    const std::size_t at = find_minus_128(q);
    const auto cols = static_cast<std::size_t>(a.cols);
    if (at < q.size()) fail_minus_128({a.name(), cols, q}, at + static_cast<std::size_t>(row) * cols, path_);
  }
  file_.write_at(a.offset + row * q_row, q.data(), q.size());
  file_.write_at(a.d_offset + row * d_row, d.data(), d.size());
}

void MlbWriter::write_floats(std::size_t index, std::span<const float> values) {
  const MlbArray& a = arrays_[index];
  if (a.kind != MlbKind::f32 || values.size() * sizeof(float) != a.size)
    fail(ML_E_ARG, "{}: {}: {} floats do not fit an array of {} × {}", path_, a.name(), values.size(), a.rows,
         a.cols);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      fail(ML_E_FORMAT, "{}: {} row {}: weight {}; allowed: finite weights", path_, a.name(), i / a.cols,
           values[i]);
  file_.write_at(a.offset, values.data(), values.size() * sizeof(float));
}

void MlbWriter::commit(std::span<OutputFile* const> companions) {
  std::vector<OutputFile*> files(companions.begin(), companions.end());
  files.push_back(&file_);
  OutputFile::commit_together(files);
}

std::vector<std::uint8_t> mlb_header_bytes(const MlbHeader& header) {
  std::vector<std::uint8_t> bytes(kMlbHeaderBytes);
  constexpr std::uint32_t kVersion = 1;
  std::memcpy(bytes.data(), "MLB1", 4);
  std::memcpy(&bytes[4], &kVersion, 4);
  std::memcpy(&bytes[8], &header, sizeof header);
  return bytes;
}

}  // namespace krafla
