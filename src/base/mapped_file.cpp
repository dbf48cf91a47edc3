#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace krafla {

MappedFile::MappedFile(const std::string& path) {
  // Not blocking, so that a FIFO is refused and not waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(ML_E_IO, "{}: cannot be opened: {}", path, std::strerror(errno));
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    fail(ML_E_IO, "{}: {}; a file is needed", path, S_ISDIR(info.st_mode) ? "is a directory" : "is not a regular file");
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size == 0) {
    ::close(fd);
    return;
  }
  void* address = MAP_FAILED;
  if (size <= std::numeric_limits<std::size_t>::max())
    address = ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ, MAP_SHARED, fd, 0);
  const int map_errno = errno;
  ::close(fd);
  if (address == MAP_FAILED) fail(ML_E_IO, "{}: {} bytes cannot be mapped: {}", path, size, std::strerror(map_errno));
  bytes_ = Bytes(static_cast<const std::uint8_t*>(address), static_cast<std::size_t>(size));
}

MappedFile MappedFile::in_memory(std::size_t size, const std::function<void(std::span<std::uint8_t>)>& fill) {
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) fail(ML_E_MEMORY, "{} bytes of memory cannot be had: {}", size, std::strerror(errno));
  MappedFile made;
  made.bytes_ = Bytes(static_cast<const std::uint8_t*>(address), size);
  fill({static_cast<std::uint8_t*>(address), size});
  ::mprotect(address, size, PROT_READ);
  return made;
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

void release_pages(Bytes bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t skipped = (page - reinterpret_cast<std::uintptr_t>(bytes.data()) % page) % page;
  if (bytes.size() < skipped + page) return;
  const Bytes whole = bytes.subspan(skipped, (bytes.size() - skipped) / page * page);
  ::madvise(const_cast<std::uint8_t*>(whole.data()), whole.size(), MADV_DONTNEED);
}

}  // namespace krafla
