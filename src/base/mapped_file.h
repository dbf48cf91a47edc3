// A file mapped read-only into memory.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/bytes.h"

namespace krafla {

/// Owns the mapping of a whole regular file. Movable. If the file is shortened by someone else while it is mapped,
/// touching the lost part raises SIGBUS: files in use must be replaced by rename, never rewritten in place.
class MappedFile {
 public:
  MappedFile() = default;

  /// Maps `path`. ML_E_IO if it cannot be opened or is not a regular file; an empty file gives an empty span.
  explicit MappedFile(const std::string& path);

  /// Memory that lies as a mapped file does, in shared pages, but belongs to no file: `size` zeros, written once by `fill` and read-only
  /// from then on. ML_E_MEMORY if there is no address space for it.
  static MappedFile in_memory(std::size_t size, const std::function<void(std::span<std::uint8_t>)>& fill);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  Bytes bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

/// Gives the pages that lie wholly inside `bytes`, a part of a MappedFile (of nothing else), back to the system: they count as this
/// process's memory no more, and are there again when they are touched.
void release_pages(Bytes bytes);

}  // namespace krafla
