#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/aligned.h"
#include "base/error.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;

/// The final location of the file, with symbolic links resolved.
std::string follow(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  return error ? path : real.string();
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path), real_(follow(path)) {
  struct stat info{};
  if (::stat(real_.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    fail(ML_E_IO, "{}: cannot be written: it is there and is {}", path,
         S_ISDIR(info.st_mode) ? "a directory" : "no regular file");
#ifdef O_TMPFILE
  fd_ = ::open(folder().c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
#endif
  if (fd_ < 0) open_named();
}

std::string OutputFile::folder() const {
  const fs::path parent = fs::path(real_).parent_path();
  return parent.empty() ? "." : parent.string();
}

void OutputFile::open_named() {
  temporary_ = folder() + "/.krafla.XXXXXX";
  fd_ = ::mkstemp(temporary_.data());
  if (fd_ < 0) fail(ML_E_IO, "{}: cannot be created: {}", path_, std::strerror(errno));
  const mode_t mask = ::umask(0);  // mkstemp makes the file private; give it the mode of an ordinary new file
  ::umask(mask);
  ::fchmod(fd_, 0666 & ~mask);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(const void* data, std::size_t size) {
  write_at(size_, data, size);
  size_ += size;
}

void OutputFile::set_size(std::uint64_t size) {
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0)
    fail(ML_E_IO, "{}: cannot be written: {}", path_, std::strerror(errno));
  // A remainder at the end, smaller than a huge page, is not counted.
  made_ = std::vector<std::atomic<bool>>(static_cast<std::size_t>(size / kHugePage));
}

// The page cache creates pages no larger than a single write. So each part is first written as a whole, with
// zeros.
void OutputFile::make_parts(std::uint64_t offset, std::size_t size) {
  const auto last = static_cast<std::size_t>((offset + size - 1) / kHugePage);
  for (auto part = static_cast<std::size_t>(offset / kHugePage); part <= last && part < made_.size();
       ++part) {
    if (made_[part].load(std::memory_order_acquire)) continue;
    const std::lock_guard lock(mutex_);
    if (made_[part].load(std::memory_order_relaxed)) continue;
    static const std::vector<char> zeros(kHugePage);
    write_all(std::uint64_t{part} * kHugePage, zeros.data(), kHugePage);
    made_[part].store(true, std::memory_order_release);
  }
}

void OutputFile::write_at(std::uint64_t offset, const void* data, std::size_t size) {
  if (size > 0) make_parts(offset, size);
  write_all(offset, data, size);
}

void OutputFile::write_all(std::uint64_t offset, const void* data, std::size_t size) {
  const char* p = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::pwrite(fd_, p, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(ML_E_IO, "{}: cannot be written: {}", path_, std::strerror(errno));
    p += n;
    offset += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
}

void OutputFile::flush() {
  const auto check = [&](bool ok) {
    if (!ok) fail(ML_E_IO, "{}: cannot be written: {}", path_, std::strerror(errno));
  };
  check(::fsync(fd_) == 0);
  if (!temporary_.empty()) return;
  // A link cannot replace a file, but a rename can; so the file gets a temporary name first.
  static std::atomic<unsigned> count{0};
  const std::string name = fmt::format("{}/.krafla.{}.{}", folder(), ::getpid(), count++);
  const std::string self = fmt::format("/proc/self/fd/{}", fd_);
  check(::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0);
  temporary_ = name;
}

void OutputFile::appear() {
  if (::rename(temporary_.c_str(), real_.c_str()) != 0)
    fail(ML_E_IO, "{}: cannot be written: {}", path_, std::strerror(errno));
  temporary_.clear();
}

void OutputFile::commit() {
  OutputFile* const self = this;
  commit_together({&self, 1});
}

void OutputFile::commit_together(std::span<OutputFile* const> files) {
  for (OutputFile* file : files) file->flush();
  for (std::size_t i = 0; i < files.size(); ++i) {
    try {
      files[i]->appear();
    } catch (...) {
      for (OutputFile* gone : files.first(i)) ::unlink(gone->real_.c_str());
      throw;
    }
  }
}

}  // namespace krafla
