#include <berth/device/registry.hpp>
#include <berth/host_ptr/host_ptr.hpp>
#include <berth/opencl/framework.hpp>
#include <berth/vector/launch.hpp>

#include <cstdio>

int main() {
  using namespace berth;
  if (!device::register_framework(opencl::framework())) return 1;
  const auto devices = opencl::framework()->devices();
  if (!devices) return std::puts(devices.error().message().c_str()), 1;
  const device::Device& device = devices->front();

  auto array = BigArray<float>::create(1 << 20);  // page-aligned: every device takes it
  if (!array) return 1;
  auto x = host_ptr::of_bigarray(device, float32, *array);  // no copy
  if (!x) return std::puts(host_ptr::error_message(x.error()).c_str()), 1;
  if (!x->fill(1.5F)) return 1;

  auto launch = launching(device, inout(*x));  // publishes what the host wrote
  if (!launch) return 1;
  if (!x->buffer(device)->fill(std::byte{0})) return 1;  // your kernel, on x->buffer(device)
  launch->done();

  const auto seen = x->get(12345);  // waits, and fetches what the device wrote
  std::printf("%s link: %s\n", to_string(host_ptr::host_link(*x, device)->kind).data(),
              seen && *seen == 0.0F ? "equal" : "different");
  return seen && *seen == 0.0F ? 0 : 1;
}
