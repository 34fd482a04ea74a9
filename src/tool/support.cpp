// SPDX-License-Identifier: MIT
#include "support.hpp"

#include <berth/core/buffer.hpp>

#include <array>

namespace berth::tool {
namespace {

constexpr std::size_t page_bytes = 4096;

// What the word "lacks" does not say yet.
std::string reason(const Error& error) {
  return error.code() == Errc::unsupported ? std::string(error.reason()) : error.message();
}

template <class T>
Support tried(const char* key, const char* label, const Result<T>& result) {
  return {key, label, result.has_value(), result ? std::string() : reason(result.error())};
}

Result<std::uintptr_t> address(const PackedAllocator& allocator) {
  const auto buffer = Buffer::create(allocator, page_bytes);
  if (!buffer) return fail(buffer.error());
  return buffer->addr();
}

}  // namespace

std::vector<Support> supports_of(const PackedAllocator& allocator) {
  alignas(page_bytes) std::array<std::byte, page_bytes> memory{};
  return {
      {"offset", "views at any byte offset", allocator.supports_offset(), {}},
      {"transfer", "device-to-device copies", allocator.supports_transfer(), {}},
      {"fill", "fill", allocator.supports_fill(), {}},
      {"map", "map", allocator.supports_map(), {}},
      {"queues", "several queues", allocator.supports_queues(), {}},
      tried("host", "host memory", Buffer::create(allocator, page_bytes, {.host = true})),
      tried("zero", "zeroed memory", Buffer::create(allocator, page_bytes, {.zero = true})),
      tried("external_ptr", "the caller's memory",
            Buffer::create(allocator, page_bytes, {.host = true, .external_ptr = memory.data()})),
      tried("device_address", "device addresses", address(allocator)),
      {"copy_from_disk", "copies from disk", allocator.supports_copy_from_disk(), {}},
  };
}

}  // namespace berth::tool
