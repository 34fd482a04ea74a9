// SPDX-License-Identifier: MIT
// Memory that is somebody else's: device memory that is adopted or borrowed, and the host's.
#include <berth/core/checks.hpp>
#include <berth/cuda/allocator.hpp>

#include <bit>
#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include "address.hpp"
#include "block.hpp"

namespace berth::inline BERTH_ABI::cuda {
namespace {

using detail::Block;
using detail::Context;
using detail::Current;
using detail::Instance;

constexpr std::uint64_t max_host_bytes = std::numeric_limits<std::ptrdiff_t>::max();

// Whether the device can reach such memory at all.
Result<void> check_reach(const Instance& instance, std::size_t nbytes, bool pageable, bool read_only,
                         const char* call) {
  const detail::HostReach& reach = instance.host_reach;
  if (pageable || (read_only ? reach.registers_read_only : reach.registers)) return {};
  return fail(Error(Errc::unsupported, backend)
                  .in(call)
                  .asking(nbytes)
                  .because(read_only ? "the device registers no memory for reading only"
                                     : "the device registers no memory of the host's"));
}

Result<void> check_host_range(std::span<const std::byte> bytes, std::size_t alignment, const char* call) {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const Error error = Error(Errc::invalid_argument, backend).in(call).asking(bytes.size()).at(address);
  if (bytes.data() == nullptr) return fail(Error(error).because("the address is null"));
  if (!std::has_single_bit(alignment)) return fail(Error(error).because("the alignment is no power of two"));
  if (address % alignment != 0) {
    return fail(
        Error(Errc::misaligned, backend).in(call).asking(bytes.size()).at(address).limited_to(alignment));
  }
  if (bytes.size() > max_host_bytes) {
    return fail(Error(Errc::exceeds_device_maximum, backend)
                    .in(call)
                    .asking(bytes.size())
                    .limited_to(max_host_bytes));
  }
  if (bytes.size() > UINTPTR_MAX - address) return fail(Error(error).because("the range wraps around"));
  return {};
}

// `invalid` unless cuMemFree takes the memory: it is the device's, and of a context.
Result<void> check_freed_by_driver(const Context& context, abi::DevicePtr address, bool of_context,
                                   const Error& invalid) {
  unsigned type = 0;
  if (auto asked = context.check(
          context.driver.pointer_get_attribute(&type, abi::pointer_attribute_memory_type, address),
          "cuPointerGetAttribute");
      !asked) {
    return asked;
  }
  if (type == abi::memorytype_device && of_context) return {};
  return fail(Error(invalid).because("cuMemFree frees device memory of cuMemAlloc only"));
}

}  // namespace

Result<detail::Allocation> detail::check_memory(const Context& context, abi::DevicePtr address,
                                                std::size_t nbytes, const char* call) {
  const Error invalid = Error(Errc::invalid_argument, backend).in(call).asking(nbytes).at(address);
  const Driver& driver = context.driver;
  abi::Context own = nullptr;
  const abi::Status status = driver.pointer_get_attribute(&own, abi::pointer_attribute_context, address);
  if (status == abi::invalid_value) {
    return fail(Error(invalid).because("this is no address of the device's"));
  }
  if (auto asked = context.check(status, "cuPointerGetAttribute"); !asked) return fail(asked.error());
  if (own != nullptr && own != context.handle) {
    return fail(Error(invalid).because("the memory is of another context"));
  }
  abi::DevicePtr base = 0;
  std::size_t size = 0;
  if (auto asked = context.check(driver.mem_get_address_range(&base, &size, address), "cuMemGetAddressRange");
      !asked) {
    return fail(asked.error());
  }
  if (auto inside = checks::range(nbytes, address - base, size, backend, call); !inside)
    return fail(inside.error());
  return Allocation{base, own != nullptr};
}

Result<CudaBuffer> Allocator::wrap(std::span<std::byte> bytes, const WrapOptions& options) {
  constexpr const char* call = "wrap";
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return fail(usable.error());
  if (bytes.empty()) return CudaBuffer(nullptr, 0, 0, instance_->info.instance, false, false);
  if (auto right = check_host_range(bytes, options.alignment, call); !right) return fail(right.error());
  const bool pageable = instance_->host_trial.pageable() && !options.always_register;
  if (auto reached = check_reach(*instance_, bytes.size(), pageable, options.read_only, call); !reached)
    return fail(reached.error());
  const Current current(context);
  if (!current.entered()) return fail(current.entered().error());
  auto claim = HostRange::claim(bytes, backend);
  if (!claim) return fail(claim.error());

  detail::HostLinked linked(std::move(*claim), options.read_only);
  detail::Memory memory{.address = reinterpret_cast<std::uintptr_t>(bytes.data()), .host = bytes.data()};
  if (!pageable) {
    auto registration = detail::Registration::take(
        instance_->context, {bytes, options.read_only, instance_->registration_chunk_bytes});
    if (!registration) return fail(registration.error());
    memory.address = registration->address();
    linked.registration = std::move(*registration);
  }
  auto* const block = new (std::nothrow) Block(*instance_, memory, bytes.size(), std::move(linked));
  if (block == nullptr) return fail(Error(Errc::out_of_memory, "host").in(call).asking(sizeof(Block)));
  return CudaBuffer(block, memory.address, bytes.size(), instance_->info.instance, false, true);
}

Result<HostRegistration> Allocator::register_host(std::span<std::byte> bytes, bool read_only) {
  constexpr const char* call = "register_host";
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return fail(usable.error());
  if (bytes.empty()) return HostRegistration();
  if (auto right = check_host_range(bytes, 1, call); !right) return fail(right.error());
  if (auto reached = check_reach(*instance_, bytes.size(), false, read_only, call); !reached)
    return fail(reached.error());
  const Current current(context);
  if (!current.entered()) return fail(current.entered().error());
  auto taken =
      detail::Registration::take(instance_->context, {bytes, read_only, instance_->registration_chunk_bytes});
  if (!taken) return fail(taken.error());
  return HostRegistration(std::make_unique<detail::Registration>(std::move(*taken)));
}

HostRegistration::HostRegistration(std::unique_ptr<detail::Registration> registration) noexcept
    : registration_(std::move(registration)) {}
HostRegistration::HostRegistration() noexcept = default;
HostRegistration::HostRegistration(HostRegistration&& other) noexcept = default;
HostRegistration& HostRegistration::operator=(HostRegistration&& other) noexcept = default;
HostRegistration::~HostRegistration() = default;

Result<CudaBuffer> Allocator::take(abi::DevicePtr address, std::size_t nbytes, bool adopts) {
  const char* const call = adopts ? "adopt" : "borrow";
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return fail(usable.error());
  const Error invalid = Error(Errc::invalid_argument, backend).in(call).asking(nbytes).at(address);
  if (nbytes == 0) return fail(Error(invalid).because("an allocation has bytes"));
  const Current current(context);
  if (!current.entered()) return fail(current.entered().error());
  const auto found = detail::check_memory(context, address, nbytes, call);
  if (!found) return fail(found.error());
  if (adopts) {
    if (found->base != address) return fail(Error(invalid).because("an allocation does not start here"));
    if (auto frees = check_freed_by_driver(context, address, found->of_context, invalid); !frees)
      return fail(frees.error());
  }
  using Kind = detail::Memory::Kind;
  const detail::Memory memory{.kind = adopts ? Kind::device : Kind::external, .address = address};
  auto* const block = new (std::nothrow) Block(*instance_, memory, nbytes);
  if (block == nullptr) return fail(Error(Errc::out_of_memory, "host").in(call).asking(sizeof(Block)));
  return CudaBuffer(block, address, nbytes, instance_->info.instance, false, true);
}

Result<CudaBuffer> Allocator::adopt(abi::DevicePtr address, std::size_t nbytes) {
  return take(address, nbytes, true);
}
Result<CudaBuffer> Allocator::borrow(abi::DevicePtr address, std::size_t nbytes) {
  return take(address, nbytes, false);
}

}  // namespace berth::inline BERTH_ABI::cuda
