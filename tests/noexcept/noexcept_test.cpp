// SPDX-License-Identifier: MIT
// Without exceptions, RTTI or a test framework: the library compiles, its types are told apart, and its calls
// answer with values.
#include <berth/berth.hpp>
#include <berth/host_ptr/host_access.hpp>
#include <berth/host_ptr/host_ptr.hpp>
#include <berth/vector/launch.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "../support/models.hpp"

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this test is compiled with exceptions or RTTI"
#endif

namespace {

void check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

template <class T>
bool fails_with(const berth::Result<T>& result, berth::Errc code) {
  return !result && result.error().code() == code;
}

void errors_are_values() {
  check(berth::next_instance_id() != berth::next_instance_id(), "instance ids differ");
  check(!berth::Error(berth::Errc::out_of_memory).in("alloc").asking(16).message().empty(),
        "an error has a message");

  models::Rich<'a'> model;
  berth::PackedAllocator allocator = berth::pack(model);
  check(fails_with(allocator.alloc(SIZE_MAX), berth::Errc::exceeds_device_maximum),
        "a huge size fails cleanly");
  model.state().refuse("alloc", berth::Errc::out_of_memory);
  check(fails_with(berth::Buffer::create(allocator, 8), berth::Errc::out_of_memory),
        "out of memory is an error");
  check(fails_with(berth::PackedAllocator().alloc(8), berth::Errc::invalid_argument),
        "an empty allocator answers");
}

void buffers_are_told_apart() {
  berth::PackedAllocator a = berth::pack(models::Rich<'a'>());
  berth::PackedAllocator b = berth::pack(models::Rich<'b'>());
  auto buf = a.alloc(8);
  check(buf.has_value(), "alloc");
  check(buf->as<models::RichBuffer<'a'>>() != nullptr, "the typed buffer is seen");
  check(buf->as<models::RichBuffer<'b'>>() == nullptr, "another type is not");
  check(fails_with(b.copyin(*buf, {}), berth::Errc::wrong_backend), "a foreign buffer is recognised");
  a.free(std::move(*buf), 8);
}

void bytes_are_copied() {
  models::Rich<'a'> to;
  {
    auto dst = berth::Buffer::create(berth::pack(to), 6);
    auto src = berth::Buffer::create(berth::pack(models::Plain<models::MoveOnlyBuffer>()), 3);
    check(dst && src, "create");
    const std::array in{std::byte{1}, std::byte{2}, std::byte{3}};
    check(src->copyin(in).has_value(), "copyin");
    auto view = dst->view(3, 2);
    check(view.has_value(), "view");
    check(fails_with(dst->view(3, 4), berth::Errc::out_of_range), "a view is held to its bounds");
    check(berth::copy(*view, *src) == berth::CopyPath::bounce, "copy");
    std::array<std::byte, 3> out{};
    check(view->copyout(out).has_value() && out == in, "the bytes arrive");
  }
  check(to.state().live_blocks() == 0, "all is freed");
}

void arrays_are_shared() {
  check(berth::device::register_framework(berth::host::framework()).has_value(), "register");
  const auto devices = berth::host::framework()->devices();
  check(devices.has_value(), "devices");
  auto array = berth::BigArray<float>::create(100);
  check(array.has_value(), "array");
  auto vector = berth::host_ptr::of_bigarray(devices->front(), *array);
  check(vector.has_value(), "attach");
  const auto again = berth::host_ptr::attach(*vector, devices->front());
  check(!again && std::holds_alternative<berth::host_ptr::BufferExists>(again.error()), "attach twice");
  check(berth::launching(devices->front(), inout(*vector)).has_value(), "launching");
  const auto access = berth::host_ptr::HostAccess<float>::open(*vector, berth::Access::read);
  check(access && access->elements().size() == 100, "access");
}

}  // namespace

int main() {
  arrays_are_shared();
  errors_are_values();
  buffers_are_told_apart();
  bytes_are_copied();
  return 0;
}
