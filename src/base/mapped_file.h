// A file mapped read-only into memory.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/bytes.h"

namespace krafla {

/// Where a file's bytes are kept: in the system's page cache, which all processes share; or in a private copy
/// that is read at once and uses huge pages if the system provides them. The copy helps where the TLB limits
/// the speed.
enum class FileMemory { shared, huge_pages };

/// Owns the mapping of a whole regular file. Movable. If another program shortens the file while it is
/// mapped, access to the lost part raises SIGBUS. So files in use must be replaced by rename, never rewritten
/// in place.
class MappedFile {
 public:
  MappedFile() = default;

  /// Maps `path`. ML_E_IO if it cannot be opened or is not a regular file. An empty file gives an empty span.
  /// With huge_pages, also ML_E_IO if it cannot be read, and ML_E_MEMORY if there is not enough memory.
  explicit MappedFile(const std::string& path, FileMemory memory = FileMemory::shared);

  /// Memory without a file, in huge pages if possible: `size` zeros, which `fill` overwrites and which are
  /// read-only afterwards. ML_E_MEMORY, naming `name`, if there is not enough address space.
  static MappedFile in_memory(const std::string& name, std::size_t size,
                              const std::function<void(std::span<std::uint8_t>)>& fill);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  Bytes bytes() const { return bytes_; }

  /// Keeps the whole file in memory (mlock). ML_E_MEMORY, with the limit, if the system does not allow it;
  /// `path` is for the message.
  void lock(const std::string& path) const;

 private:
  Bytes bytes_;
};

/// Returns the pages that lie completely inside `bytes` to the system. They no longer count as memory of this
/// process, and are read again on the next access. `bytes` must be part of a MappedFile.
void release_pages(Bytes bytes);

}  // namespace krafla
