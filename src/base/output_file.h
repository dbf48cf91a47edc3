// A file that appears only when it is complete.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace krafla {

/// Writes a file without a name, which the system forgets if the program ends in any way (where the file
/// system has no such files, one with a temporary name beside `path`); commit() makes it appear as `path`,
/// replacing a file of that name. A symbolic link to a file is followed. Every failure is ML_E_IO with the
/// path and the system's reason; so is a `path` that is there and no regular file.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// The file will have `size` bytes; what is not written reads as zeros. For large files that are written in
  /// small parts: the page cache then holds them in huge pages, where the file system has such, and whoever
  /// maps them gets these.
  void set_size(std::uint64_t size);
  /// Appends `size` bytes.
  void write(const void* data, std::size_t size);
  /// Writes at an absolute offset, which may lie beyond what was written yet (the gap reads as zeros). Any
  /// thread may call it.
  void write_at(std::uint64_t offset, const void* data, std::size_t size);
  /// Bytes appended by write().
  std::uint64_t size() const { return size_; }
  /// Flushes to the disk and makes the file appear.
  void commit();
  /// The same for files that belong together: all are on the disk before the first appears, and if one then
  /// cannot, none of them stays.
  static void commit_together(std::span<OutputFile* const> files);

 private:
  void open_named();
  void make_parts(std::uint64_t offset, std::size_t size);
  void write_all(std::uint64_t offset, const void* data, std::size_t size);
  void flush();   // to the disk, under a temporary name
  void appear();  // under its own
  std::string folder() const;

  std::string path_;       // as given, for messages
  std::string real_;       // where the file will be
  std::string temporary_;  // empty: the file has no name yet
  int fd_ = -1;
  std::uint64_t size_ = 0;

  // set_size(): which parts of a huge page's size are in the page cache.
  std::mutex mutex_;
  std::vector<std::atomic<bool>> made_;
};

}  // namespace krafla
