#include "base/output_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace krafla {

OutputFile::OutputFile(const std::string& path) : path_(path), temporary_(path + ".XXXXXX") {
  fd_ = ::mkstemp(temporary_.data());
  if (fd_ < 0) fail(ML_E_IO, "{}: cannot be created: {}", path_, std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void OutputFile::write(const void* data, std::size_t size) {
  write_at(size_, data, size);
  size_ += size;
}

void OutputFile::write_at(std::uint64_t offset, const void* data, std::size_t size) {
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

void OutputFile::commit() {
  const mode_t mask = ::umask(0);  // mkstemp made the file private; give it what a plain new file would have
  ::umask(mask);
  const bool ok = ::fchmod(fd_, 0666 & ~mask) == 0 && ::fsync(fd_) == 0 && ::rename(temporary_.c_str(), path_.c_str()) == 0;
  if (!ok) fail(ML_E_IO, "{}: cannot be written: {}", path_, std::strerror(errno));
  ::close(fd_);
  fd_ = -1;
}

}  // namespace krafla
