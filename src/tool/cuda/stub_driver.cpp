// SPDX-License-Identifier: MIT
#include "stub_driver.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace berth::tool {
namespace {

namespace abi = cuda::abi;
using abi::Status;

// Handles that nobody looks behind.
template <class Handle>
Handle handle(std::uintptr_t value) noexcept {
  return reinterpret_cast<Handle>(value);
}
constexpr std::uintptr_t context_value = 0x1000;
constexpr std::uintptr_t stream_value = 0x2000;
constexpr std::uintptr_t event_value = 0x3000;
constexpr std::size_t device_bytes = std::size_t{1} << 40U;

alignas(64) std::byte pinned[std::size_t{1} << 16U];

template <class... Args>
Status nothing(Args...) noexcept {
  return abi::success;
}

cuda::Driver make_table() noexcept {
  cuda::Driver table;
  table.init = nothing;
  table.get_error_name = nothing;
  table.device_get = [](abi::Device* device, int ordinal) {
    *device = ordinal;
    return abi::success;
  };
  table.device_get_name = nothing;
  table.device_get_uuid = nothing;
  table.device_total_mem = [](std::size_t* nbytes, abi::Device) {
    *nbytes = device_bytes;
    return abi::success;
  };
  table.device_get_attribute = nothing;
  table.device_primary_ctx_retain = [](abi::Context* context, abi::Device) {
    *context = handle<abi::Context>(context_value);
    return abi::success;
  };
  table.device_primary_ctx_release = nothing;
  table.ctx_push_current = nothing;
  table.ctx_pop_current = nothing;
  table.ctx_get_current = [](abi::Context* context) {
    *context = handle<abi::Context>(context_value);
    return abi::success;
  };
  table.stream_create = [](abi::Stream* stream, unsigned) {
    static std::atomic<std::uintptr_t> made{stream_value};
    *stream = handle<abi::Stream>(made.fetch_add(16));
    return abi::success;
  };
  table.stream_destroy = nothing;
  table.stream_synchronize = nothing;
  table.stream_wait_event = nothing;
  table.event_create = [](abi::Event* event, unsigned) {
    *event = handle<abi::Event>(event_value);
    return abi::success;
  };
  table.event_destroy = nothing;
  table.event_record = nothing;
  table.mem_alloc = [](abi::DevicePtr* address, std::size_t) {
    *address = device_bytes;
    return abi::success;
  };
  table.mem_free = nothing;
  table.mem_host_alloc = [](void** memory, std::size_t, unsigned) {
    *memory = pinned;
    return abi::success;
  };
  table.mem_free_host = nothing;
  table.mem_host_get_device_pointer = [](abi::DevicePtr* address, void*, unsigned) {
    *address = device_bytes;
    return abi::success;
  };
  table.memcpy_htod_async = nothing;
  table.memcpy_dtoh_async = nothing;
  table.memcpy_dtod_async = nothing;
  table.memset_d8_async = nothing;
  return table;
}

cuda::Driver make_table_elsewhere() noexcept {
  cuda::Driver table = make_table();
  table.ctx_get_current = [](abi::Context* context) {
    *context = nullptr;
    return abi::success;
  };
  return table;
}

}  // namespace

const cuda::Driver& stub_driver_elsewhere() noexcept {
  static const cuda::Driver table = make_table_elsewhere();
  return table;
}

const cuda::Driver& stub_driver() noexcept {
  static const cuda::Driver table = make_table();
  return table;
}

}  // namespace berth::tool
