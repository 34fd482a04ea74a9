#include <berth/berth.hpp>
#include <berth/opencl/framework.hpp>

#include <cstdio>
#include <vector>

int main() {
  const auto devices = berth::opencl::framework()->devices();
  if (!devices) return std::puts(devices.error().message().c_str()), 1;

  auto buffer = berth::Buffer::create(devices->front().allocator(), 1 << 20);
  if (!buffer) return std::puts(buffer.error().message().c_str()), 1;

  const std::vector<std::byte> bytes(1000, std::byte{42});
  auto view = buffer->view(1000, 24);  // any byte offset; keeps the allocation alive
  if (!view || !view->copyin(bytes)) return 1;

  std::vector<std::byte> back(1000);
  if (!view->copyout(back)) return 1;
  std::printf("%s: %s\n", devices->front().name().data(), back == bytes ? "equal" : "different");
  return back == bytes ? 0 : 1;
}
