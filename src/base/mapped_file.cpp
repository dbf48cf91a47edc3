#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "base/aligned.h"

namespace krafla {

namespace {

/// An open regular file.
struct File {
  explicit File(const std::string& path)
      // O_NONBLOCK: a FIFO is refused at once, instead of waiting for a writer.
      : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd < 0) fail(ML_E_IO, "{}: cannot be opened: {}", path, std::strerror(errno));
    struct stat info{};
    const bool known = ::fstat(fd, &info) == 0;
    const bool regular = known && S_ISREG(info.st_mode);
    size = static_cast<std::uint64_t>(info.st_size);
    if (regular) return;
    ::close(fd);
    fail(ML_E_IO, "{}: {}; a file is needed", path,
         known && S_ISDIR(info.st_mode) ? "is a directory" : "is not a regular file");
  }
  ~File() { ::close(fd); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd;
  std::uint64_t size = 0;
};

void read_whole(const std::string& path, int fd, std::uint8_t* out, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::pread(fd, out + done, size - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      fail(ML_E_IO, "{}: cannot be read at byte {}: {}", path, done,
           n == 0 ? "it has been shortened" : std::strerror(errno));
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace

MappedFile::MappedFile(const std::string& path, FileMemory memory) {
  const File file(path);
  if (file.size == 0) return;
  if (file.size > std::numeric_limits<std::size_t>::max())
    fail(ML_E_IO, "{}: {} bytes are more than this machine can address", path, file.size);
  const auto size = static_cast<std::size_t>(file.size);
  if (memory == FileMemory::huge_pages) {
    *this = in_memory(path, size,
                      [&](std::span<std::uint8_t> bytes) { read_whole(path, file.fd, bytes.data(), size); });
    return;
  }
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (address == MAP_FAILED)
    fail(ML_E_IO, "{}: {} bytes cannot be mapped: {}", path, size, std::strerror(errno));
  bytes_ = Bytes(static_cast<const std::uint8_t*>(address), size);
  // If the file system supports large folios, pages that are not in the page cache yet are read as huge
  // pages.
  if (size >= kHugePage) advise_huge_pages(address, size);
}

void MappedFile::lock(const std::string& path) const {
  if (bytes_.empty() || ::mlock(bytes_.data(), bytes_.size()) == 0) return;
  const int why = errno;
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  fail(ML_E_MEMORY, "{}: its {} bytes cannot be locked in memory: {}; the limit (ulimit -l) is {} bytes",
       path, bytes_.size(), std::strerror(why),
       limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur));
}

MappedFile MappedFile::in_memory(const std::string& name, std::size_t size,
                                 const std::function<void(std::span<std::uint8_t>)>& fill) {
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    fail(ML_E_MEMORY, "{}: {} bytes of memory cannot be had: {}", name, size, std::strerror(errno));
  MappedFile made;
  made.bytes_ = Bytes(static_cast<const std::uint8_t*>(address), size);
  advise_huge_pages(address, size);
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
