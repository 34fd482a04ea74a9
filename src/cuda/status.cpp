// SPDX-License-Identifier: MIT
#include "status.hpp"

namespace berth::inline BERTH_ABI::cuda {
namespace {

Errc classify(abi::Status status) noexcept {
  if (sticky(status)) return Errc::device_lost;
  switch (status) {
    case abi::out_of_memory:
      return Errc::out_of_memory;
    case abi::deinitialized:
      return Errc::exiting;
    case abi::stub_library:
      return Errc::library_missing;
    case abi::no_device:
    case abi::invalid_device:
      return Errc::no_device;
    case abi::host_memory_already_registered:
      return Errc::overlap;
    case abi::not_supported:
      return Errc::unsupported;
    default:
      return Errc::driver;
  }
}

}  // namespace

Damage damage(abi::Status status) noexcept {
  switch (status) {
    case abi::ecc_uncorrectable:
    case abi::nvlink_uncorrectable:
    case abi::contained:
    case abi::illegal_address:
    case abi::launch_timeout:
    case abi::assert_failed:
    case abi::hardware_stack_error:
    case abi::illegal_instruction:
    case abi::misaligned_address:
    case abi::invalid_address_space:
    case abi::invalid_pc:
    case abi::launch_failed:
    case abi::tensor_memory_leak:
    case abi::mps_client_terminated:
    case abi::external_device:
      return Damage::process;
    case abi::context_is_destroyed:
      return Damage::context;
    default:
      return Damage::none;
  }
}

Error error(const Driver& driver, abi::Status status, const char* call) noexcept {
  const char* name = nullptr;
  const bool known = driver.get_error_name(status, &name) == abi::success && name != nullptr;
  return Error(classify(status), backend).in(call).with_status(status, known ? name : "");
}

}  // namespace berth::inline BERTH_ABI::cuda
