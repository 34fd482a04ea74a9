// SPDX-License-Identifier: MIT
#include <berth/opencl/quirks.hpp>

#include <array>

namespace berth::inline BERTH_ABI::opencl {
namespace {

constexpr std::array table{
    QuirkRow{Quirk::lazy_allocation, "all but CPUs",
             [](const DeviceDescription& device) { return device.type != DeviceType::cpu; },
             "alloc writes one byte and waits, so that it is alloc that says out_of_memory (Options::commit)",
             "measured on NVIDIA 580.159.04: create 1 us, first touch 86 us; arrayfire/arrayfire#2650, "
             "inducer/pyopencl#265"},
    QuirkRow{Quirk::unaligned_host_memory, "Apple",
             [](const DeviceDescription& device) { return device.platform == "Apple"; },
             "copyin and copyout go through aligned memory where the caller's is not",
             "tinygrad/tinygrad#3482: a source at an odd address arrived shifted"},
    QuirkRow{Quirk::writes_past_tail, "GPUs of Intel's",
             [](const DeviceDescription& device) {
               return device.type == DeviceType::gpu && device.vendor.starts_with("Intel");
             },
             "external_ptr wants a size that is a multiple of 64 bytes",
             "opencv/opencv#25798: 40 bytes and more were written past a host block on Arc"},
    QuirkRow{Quirk::host_memory_is_copied, "NVIDIA",
             [](const DeviceDescription& device) { return device.platform == "NVIDIA CUDA"; },
             "bytes that the host wrote outside a map are never published by a map for writing",
             "measured on NVIDIA 580.159.04, H200"},
    QuirkRow{Quirk::events_order_queues_only, "Intel's driver for CPUs",
             [](const DeviceDescription& device) {
               return device.type == DeviceType::cpu && device.platform.starts_with("Intel(R) OpenCL");
             },
             "order between queues is made of events alone",
             "measured on 2026.22.10: 19 of 5000 reads on a second queue missed a blocking write, none after "
             "clFinish or behind an event"},
    QuirkRow{Quirk::one_host_thread, "Oclgrind",
             [](const DeviceDescription& device) { return device.platform == "Oclgrind"; },
             "nothing: use it from one thread; `berth check` leaves out the laws about threads",
             "seen on 21.10: its emulator keeps its state in globals"},
    QuirkRow{Quirk::failed_waits_succeed, "NVIDIA",
             [](const DeviceDescription& device) { return device.platform == "NVIDIA CUDA"; },
             "a wait asks the event itself, too",
             "measured on 580.159.04: a user event with a negative status"},
    QuirkRow{Quirk::racy_discovery, "PoCL",
             [](const DeviceDescription& device) { return device.platform == "Portable Computing Language"; },
             "discovery is serialised", "seen on 3.1"},
};

}  // namespace

std::string_view to_string(Quirk quirk) noexcept {
  switch (quirk) {
    case Quirk::lazy_allocation:
      return "lazy_allocation";
    case Quirk::unaligned_host_memory:
      return "unaligned_host_memory";
    case Quirk::writes_past_tail:
      return "writes_past_tail";
    case Quirk::host_memory_is_copied:
      return "host_memory_is_copied";
    case Quirk::events_order_queues_only:
      return "events_order_queues_only";
    case Quirk::one_host_thread:
      return "one_host_thread";
    case Quirk::failed_waits_succeed:
      return "failed_waits_succeed";
    case Quirk::racy_discovery:
      return "racy_discovery";
  }
  return "";
}

std::span<const QuirkRow> quirk_table() noexcept { return table; }

Quirks quirks_of(const DeviceDescription& device) noexcept {
  Quirks quirks;
  for (const QuirkRow& row : table) {
    if (row.matches(device)) quirks.add(row.quirk);
  }
  return quirks;
}

}  // namespace berth::inline BERTH_ABI::opencl
