// SPDX-License-Identifier: MIT
#include <berth/vector/host_memory.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

namespace berth::inline BERTH_ABI {
namespace {

// No object is larger, so that pointer differences are representable.
constexpr auto max_bytes = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());

}  // namespace

Result<HostMemory> make_host_memory(std::size_t count, std::size_t element_bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (element_bytes == 0 || count > (max_bytes - page) / element_bytes) {
    return fail(Error(Errc::invalid_size, "host")
                    .in("create")
                    .asking(count)
                    .because("that many elements fit in no memory"));
  }
  HostMemory memory;
  memory.nbytes = count * element_bytes;
  if (memory.nbytes == 0) return memory;
  memory.block_bytes = (memory.nbytes + page - 1) / page * page;
  void* const mapped =
      ::mmap(nullptr, memory.block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return fail(
        Error(Errc::out_of_memory, "host").in("mmap").with_status(errno, "ENOMEM").asking(memory.nbytes));
  }
  memory.data = static_cast<std::byte*>(mapped);
  memory.owner = std::shared_ptr<const void>(
      mapped, [block_bytes = memory.block_bytes](void* block) { ::munmap(block, block_bytes); });
  return memory;
}

}  // namespace berth::inline BERTH_ABI
