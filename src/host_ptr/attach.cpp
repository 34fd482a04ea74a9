// SPDX-License-Identifier: MIT
#include <berth/core/process.hpp>
#include <berth/device/registry.hpp>
#include <berth/host_ptr/host_ptr.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace berth::inline BERTH_ABI::host_ptr {
namespace {

using berth::detail::VectorStorage;
using Cause = Refusal::Cause;
using detail::VectorCore;

constexpr std::size_t required_alignment = 64;

bool copies_are_forced() noexcept {
  const char* const value = std::getenv("BERTH_HOST_PTR");
  return value != nullptr && std::string_view(value) == "copy";
}

HostPtrFailure failure(HostPtrError error) { return HostPtrFailure(std::move(error)); }

// What is no memory, not even to copy from.
std::optional<Refusal> refusal_of(const HostMemory& memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data);
  Refusal refusal{.address = address, .nbytes = memory.nbytes, .detail = {}};
  if (memory.data == nullptr) {
    refusal.cause = Cause::null;
  } else if (memory.nbytes > UINTPTR_MAX - address) {
    refusal.cause = Cause::size;
    refusal.limit = UINTPTR_MAX - address;
    refusal.detail = "the range wraps around";
  } else {
    return std::nullopt;
  }
  return refusal;
}

// Which errors of a linker are about this memory.
std::optional<Refusal> refusal_of(const Error& error, const HostMemory& memory) {
  Refusal refusal{.address = reinterpret_cast<std::uintptr_t>(memory.data),
                  .nbytes = memory.nbytes,
                  .limit = error.limit().value_or(0),
                  .detail = error.reason()};
  switch (error.code()) {
    case Errc::unsupported:
      refusal.cause = Cause::backend;
      return refusal;
    case Errc::misaligned:
      refusal.cause = Cause::alignment;
      return refusal;
    case Errc::exceeds_device_maximum:
      refusal.cause = Cause::size;
      return refusal;
    case Errc::invalid_size:
      refusal.cause = Cause::padding;
      return refusal;
    case Errc::overlap:
      refusal.cause = Cause::overlap;
      refusal.other_address = error.position().value_or(0);
      return refusal;
    default:
      return std::nullopt;
  }
}

// Protected pages must be the array's alone, and the device must not need them.
Result<void> check_protection(const HostMemory& memory, device::LinkKind kind) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const Error unsupported = Error(Errc::unsupported, "host").in("protect").asking(memory.nbytes);
  if (kind == device::LinkKind::shared || kind == device::LinkKind::same ||
      kind == device::LinkKind::pageable) {
    return fail(Error(unsupported).because("the device itself uses the pages"));
  }
  if (reinterpret_cast<std::uintptr_t>(memory.data) % page != 0 || memory.block_bytes % page != 0) {
    return fail(Error(unsupported).because("the array does not own whole pages"));
  }
  return {};
}

class Attaching {
 public:
  Attaching(VectorCore& core, const device::Device& device, std::size_t element_bytes,
            const Options& options) noexcept
      : core_(core),
        device_(device),
        options_(options),
        alignment_(options.lenient ? element_bytes : std::max(required_alignment, element_bytes)) {}

  HostPtrResult<void> run() {
    if (auto usable = process::not_forked("host_ptr"); !usable) return failure(usable.error());
    if (core_.storage() != VectorStorage::big_array) return failure(NotBigarrayBacked{core_.id()});
    if (core_.buffer(device_) != nullptr) {
      return failure(BufferExists{core_.id(), std::string(device_.name())});
    }
    const auto framework = device::find_framework(device_.framework());
    if (framework == nullptr) return failure(UnknownFramework{std::string(device_.framework())});
    if (core_.nbytes() == 0) return attach_copy();
    if (const auto refusal = refusal_of(core_.memory())) return refused(*refusal);
    const Location before = core_.location();
    auto attached = copies_are_forced() ? attach_copy() : attach_by_policy(framework);
    if (!attached) core_.restore(before);
    return attached;
  }

 private:
  HostPtrResult<void> attach_by_policy(const std::shared_ptr<device::Framework>& framework) const {
    auto linked = attach_link(framework);
    if (linked || options_.policy != Policy::copy || !std::holds_alternative<Refused>(linked.error())) {
      return linked;
    }
    return attach_copy();
  }

  HostPtrFailure refused(Refusal refusal) const {
    return failure(Refused{std::string(device_.name()), refusal});
  }
  HostPtrFailure failed(const Error& error) const {
    if (const auto refusal = refusal_of(error, core_.memory())) return refused(*refusal);
    return failure(error);
  }
  // `unsupported` is about read-only memory when the device would take the same for writing.
  HostPtrFailure failed(const Error& error, device::HostLinker& linker, device::LinkRequest request) const {
    auto refusal = refusal_of(error, core_.memory());
    if (!refusal) return failure(error);
    if (refusal->cause == Cause::backend && std::exchange(request.read_only, false) &&
        linker.probe(device_, request)) {
      refusal->cause = Cause::read_only;
    }
    return refused(*refusal);
  }

  HostPtrResult<void> attach_copy() const { return detail::outcome(core_.to_device(device_)); }

  HostPtrResult<void> attach_link(const std::shared_ptr<device::Framework>& framework) const {
    const HostMemory& memory = core_.memory();
    device::HostLinker* const linker = framework->host_linker();
    if (linker == nullptr) {
      return refused({.cause = Cause::backend,
                      .address = reinterpret_cast<std::uintptr_t>(memory.data),
                      .nbytes = memory.nbytes,
                      .detail = "the framework links no host memory"});
    }
    if (const auto address = reinterpret_cast<std::uintptr_t>(memory.data); address % alignment_ != 0) {
      return refused({.cause = Cause::alignment,
                      .address = address,
                      .nbytes = memory.nbytes,
                      .limit = alignment_,
                      .detail = {}});
    }
    const device::LinkRequest request{
        {memory.data, memory.nbytes}, !memory.writable, alignment_, memory.block_bytes};
    if (options_.require_shared || options_.protect) {
      const auto info = linker->probe(device_, request);
      if (!info) return failed(info.error(), *linker, request);
      if (options_.require_shared && info->kind == device::LinkKind::shadow) {
        return refused({.cause = Cause::device_type,
                        .address = reinterpret_cast<std::uintptr_t>(memory.data),
                        .nbytes = memory.nbytes,
                        .detail = {}});
      }
      if (options_.protect) {
        if (auto possible = check_protection(memory, info->kind); !possible) {
          return failure(possible.error());
        }
      }
    }
    // The buffer starts with what the host has.
    if (auto home = core_.bring_home(); !home) return failure(home.error());
    auto link = linker->link(device_, request);
    if (!link) return failed(link.error(), *linker, request);
    if (options_.protect) {
      // A driver may read the memory at the first use of the buffer only (NVIDIA's does), when the pages may
      // be out of its reach.
      if (auto read = (*link)->publish(memory.nbytes, 0); !read) return failed(read.error());
    }
    core_.adopt(device_, framework, std::move(*link), options_.protect);
    return {};
  }

  VectorCore& core_;
  const device::Device& device_;
  const Options& options_;
  const std::size_t alignment_;
};

}  // namespace

namespace detail {

HostPtrResult<void> attach(VectorCore& core, const device::Device& device, std::size_t element_bytes,
                           const Options& options) {
  return Attaching(core, device, element_bytes, options).run();
}

HostPtrFailure moved_from() noexcept {
  return HostPtrFailure(HostPtrError(
      Error(Errc::invalid_argument, "host").in("host_ptr").because("the vector was moved from")));
}

}  // namespace detail

}  // namespace berth::inline BERTH_ABI::host_ptr
