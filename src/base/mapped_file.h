// A file mapped read-only into memory.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/bytes.h"

namespace krafla {

/// What holds a file's bytes: the system's page cache, which all processes share, or memory of this process's
/// own in huge pages, if the system gives them: a copy, read before anything else, for machines whose TLB is
/// the limit.
enum class FileMemory { shared, huge_pages };

/// Owns the mapping of a whole regular file. Movable. If the file is shortened by someone else while it is
/// mapped, touching the lost part raises SIGBUS: files in use must be replaced by rename, never rewritten in
/// place.
class MappedFile {
 public:
  MappedFile() = default;

  /// Maps `path`. ML_E_IO if it cannot be opened or is not a regular file; an empty file gives an empty span.
  /// huge_pages: also ML_E_IO if it cannot be read, ML_E_MEMORY if there is no memory for it.
  explicit MappedFile(const std::string& path, FileMemory memory = FileMemory::shared);

  /// Memory that belongs to no file, in huge pages as a mapped one would be: `size` zeros, written once by
  /// `fill` and read-only from then on. ML_E_MEMORY, naming `name`, if there is no address space for it.
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

/// Gives the pages that lie wholly inside `bytes`, a part of a MappedFile (of nothing else), back to the
/// system: they count as this process's memory no more, and are there again when they are touched.
void release_pages(Bytes bytes);

}  // namespace krafla
