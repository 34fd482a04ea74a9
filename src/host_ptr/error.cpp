// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <berth/host_ptr/error.hpp>

namespace berth::inline BERTH_ABI::host_ptr {
namespace {

using Cause = Refusal::Cause;

std::string sentence(const Refusal& refusal) {
  switch (refusal.cause) {
    case Cause::backend:
      return "the backend does not link such memory";
    case Cause::device_type:
      return "the device does not share the host's memory; without require_shared it is linked all the same";
    case Cause::null:
      return fmt::format("{} bytes at a null address", refusal.nbytes);
    case Cause::alignment:
      return fmt::format(
          "the address {:#x} is not a multiple of {} bytes; BigArray::create makes arrays that pass",
          refusal.address, refusal.limit);
    case Cause::size:
      return fmt::format("{} bytes, where the limit is {}", refusal.nbytes, refusal.limit);
    case Cause::padding:
      return fmt::format("{} bytes are not a multiple of {}; BigArray::create makes arrays that pass",
                         refusal.nbytes, refusal.limit);
    case Cause::overlap:
      if (refusal.limit == 0) {
        return fmt::format("some of the {} bytes at {:#x} are in use otherwise", refusal.nbytes,
                           refusal.address);
      }
      return fmt::format("{} bytes at {:#x} share some with a link of {} bytes at {:#x}; end that first",
                         refusal.nbytes, refusal.address, refusal.limit, refusal.other_address);
    case Cause::read_only:
      return "the memory is read-only";
  }
  return {};
}

struct Sentence {
  std::string operator()(const Refused& error) const {
    return fmt::format("{} refuses the host memory: {}", error.device, refusal_message(error.reason));
  }
  std::string operator()(const UnknownFramework& error) const {
    return fmt::format("no framework is registered as '{}'", error.framework);
  }
  std::string operator()(const NotBigarrayBacked& error) const {
    return fmt::format("vector {} does not stand on that BigArray; there is no host memory to share",
                       error.vector_id);
  }
  std::string operator()(const BufferExists& error) const {
    return fmt::format("vector {} has a buffer on {} already; free it first", error.vector_id, error.device);
  }
  std::string operator()(const Error& error) const { return error.message(); }
};

}  // namespace

std::string_view to_string(Cause cause) noexcept {
  switch (cause) {
    case Cause::backend:
      return "backend";
    case Cause::device_type:
      return "device_type";
    case Cause::null:
      return "null";
    case Cause::alignment:
      return "alignment";
    case Cause::size:
      return "size";
    case Cause::padding:
      return "padding";
    case Cause::overlap:
      return "overlap";
    case Cause::read_only:
      return "read_only";
  }
  return "";
}

std::string refusal_message(const Refusal& refusal) {
  std::string text = sentence(refusal);
  if (!refusal.detail.empty()) fmt::format_to(std::back_inserter(text), " ({})", refusal.detail);
  return text;
}

std::string error_message(const HostPtrError& error) { return std::visit(Sentence{}, error); }

}  // namespace berth::inline BERTH_ABI::host_ptr
