// A file that appears only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace krafla {

/// Writes to a temporary name beside `path`; commit() makes it appear under its name, the destructor removes it if
/// commit() was not reached. Every failure is ML_E_IO with the path and the system's reason.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// Appends `size` bytes.
  void write(const void* data, std::size_t size);
  /// Writes at an absolute offset, which may lie beyond what was written yet (the gap reads as zeros). Any thread may call it.
  void write_at(std::uint64_t offset, const void* data, std::size_t size);
  /// Bytes appended by write().
  std::uint64_t size() const { return size_; }
  /// Flushes, gives the file the permissions of a new file and renames it to `path`.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace krafla
