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

/// Writes an unnamed file, which the system removes if the program ends in any way. If the file system does
/// not support unnamed files, the file has a temporary name beside `path`. commit() makes it appear as `path`
/// and replaces an existing file. A symbolic link to a file is followed. Every failure is ML_E_IO with the
/// path and the system's reason, also if `path` exists and is not a regular file.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  /// Sets the size in bytes; parts that are never written read as zeros. Call this for large files that are
  /// written in small parts: the page cache then holds them in huge pages, if the file system supports these,
  /// and later mappings of the file use them.
  void set_size(std::uint64_t size);
  /// Appends `size` bytes.
  void write(const void* data, std::size_t size);
  /// Writes at an absolute offset, which may lie beyond the end (the gap reads as zeros). Thread-safe.
  void write_at(std::uint64_t offset, const void* data, std::size_t size);
  /// The number of bytes appended by write().
  std::uint64_t size() const { return size_; }
  /// Flushes to the disk and makes the file appear.
  void commit();
  /// The same for files that belong together. All are on the disk before the first one appears. If one of
  /// them cannot appear, those that already did are removed.
  static void commit_together(std::span<OutputFile* const> files);

 private:
  void open_named();
  void make_parts(std::uint64_t offset, std::size_t size);
  void write_all(std::uint64_t offset, const void* data, std::size_t size);
  void flush();   // to the disk, under a temporary name
  void appear();  // under its final name
  std::string folder() const;

  std::string path_;       // as given, for messages
  std::string real_;       // where the file will be
  std::string temporary_;  // empty: the file has no name yet
  int fd_ = -1;
  std::uint64_t size_ = 0;

  // For set_size(): which parts, each of the size of a huge page, are in the page cache.
  std::mutex mutex_;
  std::vector<std::atomic<bool>> made_;
};

}  // namespace krafla
