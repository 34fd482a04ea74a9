// SPDX-License-Identifier: MIT
// Negative controls: the OpenCL link with one call replaced by one that some drivers forgive. The law must
// fail on exactly the drivers where it is known to lose bytes, and hold where it is known to be right; a law
// that a wrong call passes everywhere would prove nothing.
#include <array>
#include <functional>

#include "support/host_ptr_opencl_fixture.hpp"
#include "support/skip.hpp"

using namespace berth;
using namespace host_ptr_test;
using host_ptr::HostAccess;

namespace {

/// The calls of a link that a control replaces; what is empty stays right.
struct Edit {
  using Move = std::function<void(cl_command_queue, cl_mem, std::span<std::byte>)>;
  using Map = std::function<Mapping(cl_command_queue, cl_mem, std::span<std::byte>)>;
  Move publish;
  Move acquire;
  Map map;
};

void* mapped(cl_command_queue queue, cl_mem mem, std::span<std::byte> bytes, cl_map_flags flags) {
  cl_int status = CL_SUCCESS;
  void* const pointer =
      clEnqueueMapBuffer(queue, mem, CL_TRUE, flags, 0, bytes.size(), 0, nullptr, nullptr, &status);
  REQUIRE(status == CL_SUCCESS);
  return pointer;
}
/// Whether the driver takes the map back.
bool unmap(cl_command_queue queue, cl_mem mem, void* pointer) {
  const cl_int status = clEnqueueUnmapMemObject(queue, mem, pointer, 0, nullptr, nullptr);
  REQUIRE(clFinish(queue) == CL_SUCCESS);
  return status == CL_SUCCESS;
}

Edit::Move nothing() {
  return [](cl_command_queue, cl_mem, std::span<std::byte>) {};
}
Edit::Move map_and_unmap(cl_map_flags flags) {
  return [flags](cl_command_queue queue, cl_mem mem, std::span<std::byte> bytes) {
    REQUIRE(unmap(queue, mem, mapped(queue, mem, bytes, flags)));
  };
}
Edit::Move write_of_the_host_pointer() {
  return [](cl_command_queue queue, cl_mem mem, std::span<std::byte> bytes) {
    REQUIRE(clEnqueueWriteBuffer(queue, mem, CL_TRUE, 0, bytes.size(), bytes.data(), 0, nullptr, nullptr) ==
            CL_SUCCESS);
  };
}
Edit::Move read_into_the_host_pointer() {
  return [](cl_command_queue queue, cl_mem mem, std::span<std::byte> bytes) {
    REQUIRE(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, bytes.size(), bytes.data(), 0, nullptr, nullptr) ==
            CL_SUCCESS);
  };
}

struct Held {
  cl_command_queue queue;
  cl_mem mem;
  void* first;
  void* second;
};
Result<void> give_back(const Held& held, std::span<std::byte>) noexcept {
  const bool second = held.second == nullptr || unmap(held.queue, held.mem, held.second);
  const bool first = unmap(held.queue, held.mem, held.first);
  if (first && second) return {};
  return fail(Error(Errc::driver, "opencl").in("clEnqueueUnmapMemObject"));
}
Edit::Map map_with(cl_map_flags flags) {
  return [flags](cl_command_queue queue, cl_mem mem, std::span<std::byte> bytes) {
    return Mapping(bytes, Held{queue, mem, mapped(queue, mem, bytes, flags), nullptr}, &give_back);
  };
}
/// For reading, and for writing over it.
Edit::Map two_maps() {
  return [](cl_command_queue queue, cl_mem mem, std::span<std::byte> bytes) {
    void* const first = mapped(queue, mem, bytes, CL_MAP_READ);
    void* const second = mapped(queue, mem, bytes, CL_MAP_WRITE);
    return Mapping(bytes, Held{queue, mem, first, second}, &give_back);
  };
}

class EditedLink final : public device::HostLink {
 public:
  EditedLink(std::unique_ptr<device::HostLink> right, const Edit& edit, cl_command_queue queue,
             std::span<std::byte> bytes)
      : right_(std::move(right)), edit_(edit), queue_(queue), bytes_(bytes) {}
  [[nodiscard]] device::LinkInfo info() const noexcept override { return right_->info(); }
  [[nodiscard]] Buffer& buffer() noexcept override { return right_->buffer(); }
  [[nodiscard]] Result<void> publish(std::size_t nbytes, std::size_t byte_offset) override {
    if (!edit_.publish) return right_->publish(nbytes, byte_offset);
    edit_.publish(queue_, mem(), bytes_);
    return {};
  }
  [[nodiscard]] Result<void> acquire(std::size_t nbytes, std::size_t byte_offset) override {
    if (!edit_.acquire) return right_->acquire(nbytes, byte_offset);
    edit_.acquire(queue_, mem(), bytes_);
    return {};
  }
  [[nodiscard]] Result<Mapping> map(Access access, std::size_t nbytes, std::size_t byte_offset) override {
    if (!edit_.map) return right_->map(access, nbytes, byte_offset);
    return edit_.map(queue_, mem(), bytes_);
  }

 private:
  [[nodiscard]] cl_mem mem() { return buffer().as<ClBuffer>()->root(); }

  std::unique_ptr<device::HostLink> right_;
  Edit edit_;
  cl_command_queue queue_;
  std::span<std::byte> bytes_;
};

class EditedFramework final : public device::Framework, public device::HostLinker {
 public:
  EditedFramework(Edit edit, cl_command_queue queue) : edit_(std::move(edit)), queue_(queue) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "edited"; }
  [[nodiscard]] Result<std::vector<Device>> devices() override { return std::vector<Device>{}; }
  [[nodiscard]] device::HostLinker* host_linker() noexcept override { return this; }
  [[nodiscard]] Result<device::LinkInfo> probe(const Device& device,
                                               const device::LinkRequest& like) override {
    return opencl::framework()->host_linker()->probe(device, like);
  }
  [[nodiscard]] Result<std::unique_ptr<device::HostLink>> link(const Device& device,
                                                               const device::LinkRequest& request) override {
    auto right = opencl::framework()->host_linker()->link(device, request);
    if (!right) return right;
    return std::make_unique<EditedLink>(std::move(*right), edit_, queue_, request.bytes);
  }

 private:
  Edit edit_;
  cl_command_queue queue_;
};

/// A device whose links have one call replaced.
class Edited {
 public:
  Edited(const Rig& rig, const Edit& edit)
      : device("edited", 0, "edited", rig.device.allocator()),
        framework_(std::make_shared<EditedFramework>(edit, rig.stream.queue.get())) {
    REQUIRE(message(device::register_framework(framework_)) == "ok");
  }
  Edited(const Edited&) = delete;
  ~Edited() { device::unregister_framework("edited"); }
  Device device;

 private:
  std::shared_ptr<EditedFramework> framework_;
};

/// Whether the law holds; a vector that is attached to a device with an edit.
using Law = std::function<bool(const Rig&, const Device&, Words&, const Array&)>;

std::vector<std::int32_t> sees(const Rig& rig, const Words& vector, const Device& device) {
  const auto beside = native::make_buffer(rig.stream.context, vector.nbytes());
  native::launch(rig.stream.queue, rig.copy, length, Rig::mem(vector, device), beside.get());
  REQUIRE(clFinish(rig.stream.queue) == CL_SUCCESS);
  std::vector<std::int32_t> seen(length);
  REQUIRE(clEnqueueReadBuffer(rig.stream.queue, beside, CL_TRUE, 0, vector.nbytes(), seen.data(), 0, nullptr,
                              nullptr) == CL_SUCCESS);
  return seen;
}

void device_puts(const Rig& rig, const Words& vector, const Device& device, std::uint32_t value) {
  native::launch(rig.stream.queue, rig.put, length, Rig::mem(vector, device), value);
  REQUIRE(clFinish(rig.stream.queue) == CL_SUCCESS);
}

bool published(const Rig& rig, const Device& device, Words& vector, const Array& array) {
  REQUIRE(sees(rig, vector, device) == all(1));  // a driver may make its copy at the first use only
  write(array, 2);
  REQUIRE(message(host_ptr::publish_host_writes(vector, device)) == "ok");
  return sees(rig, vector, device) == all(2) && host_sees(array) == all(2);
}

bool acquired(const Rig& rig, const Device& device, Words& vector, const Array& array) {
  device_puts(rig, vector, device, 3);
  REQUIRE(message(host_ptr::acquire_device_writes(vector, device)) == "ok");
  return host_sees(array) == all(3);
}

/// What the device wrote is seen, and what the host changes, no more and no less, goes back.
bool accessed(const Rig& rig, const Device& device, Words& vector, const Array&) {
  {
    auto launch = launching(device, inout(vector));
    REQUIRE(message(launch) == "ok");
    device_puts(rig, vector, device, 4);
  }
  {
    auto access = HostAccess<std::int32_t>::open(vector, Access::write);
    REQUIRE(message(access) == "ok");
    std::ranges::fill(access->writable_elements().first(100), 5);
    if (!access->close()) return false;
  }
  auto expected = all(4);
  std::fill_n(expected.begin(), 100, 5);
  return sees(rig, vector, device) == expected;
}

struct Control {
  const char* name;
  Edit edit;
  Law law;
  std::array<bool, 5> holds;  // shared, clvk, intel, rusticl, nvidia
};

std::vector<Control> controls() {
  constexpr std::array<bool, 5> right{true, true, true, true, true};
  constexpr cl_map_flags invalidate = CL_MAP_WRITE_INVALIDATE_REGION;
  return {
      {"publish: as it is", {}, published, right},
      {"publish: a write of the host pointer", {write_of_the_host_pointer(), {}, {}}, published, right},
      {"publish: no call", {nothing(), {}, {}}, published, {true, false, false, false, false}},
      {"publish: map(WRITE)",
       {map_and_unmap(CL_MAP_WRITE), {}, {}},
       published,
       {true, false, false, false, false}},
      {"publish: map(READ | WRITE)",
       {map_and_unmap(CL_MAP_READ | CL_MAP_WRITE), {}, {}},
       published,
       {true, false, false, false, false}},
      {"publish: map(READ)",
       {map_and_unmap(CL_MAP_READ), {}, {}},
       published,
       {true, false, false, false, false}},
      {"publish: map(INVALIDATE)",
       {map_and_unmap(invalidate), {}, {}},
       published,
       {true, false, true, true, true}},
      {"acquire: as it is", {}, acquired, right},
      {"acquire: a read into the host pointer", {{}, read_into_the_host_pointer(), {}}, acquired, right},
      {"acquire: map(WRITE)", {{}, map_and_unmap(CL_MAP_WRITE), {}}, acquired, right},
      {"acquire: no call but a wait", {{}, nothing(), {}}, acquired, {true, false, false, false, false}},
      {"acquire: map(INVALIDATE)",
       {{}, map_and_unmap(invalidate), {}},
       acquired,
       {true, true, false, false, false}},
      {"access: as it is", {}, accessed, right},
      {"access: a held map(WRITE)", {{}, {}, map_with(CL_MAP_WRITE)}, accessed, right},
      {"access: writing inside map(READ)",
       {{}, {}, map_with(CL_MAP_READ)},
       accessed,
       {true, true, false, false, false}},
      {"access: map(INVALIDATE) where old bytes matter",
       {{}, {}, map_with(invalidate)},
       accessed,
       {true, true, false, false, false}},
      {"access: a second map over a live one",
       {{}, {}, two_maps()},
       accessed,
       {true, true, true, false, false}},
  };
}

}  // namespace

TEST_CASE("a wrong call fails its law where it is known to lose bytes, and nowhere else") {
  Rig rig;
  const auto driver = static_cast<std::size_t>(rig.driver());
  for (const Control& control : controls()) {
    INFO(control.name);
    const Edited edited(rig, control.edit);
    const Array array = Rig::zeros();
    write(array, 1);
    Words vector = Words::over(array);
    REQUIRE(message(host_ptr::attach(vector, edited.device)) == "ok");
    CHECK(control.law(rig, edited.device, vector, array) == control.holds[driver]);
    REQUIRE(clFinish(rig.stream.queue) == CL_SUCCESS);
  }
}

TEST_CASE("a map while the host is newer throws its bytes away where the driver copies") {
  Rig rig;
  const bool shared = rig.driver() == Driver::shared;
  const Array array = Rig::zeros();
  const std::span bytes = std::as_writable_bytes(array.writable_elements());
  auto link = opencl::framework()->host_linker()->link(rig.device, {.bytes = bytes});
  REQUIRE(message(link) == "ok");
  // A driver may make its copy at the first use only.
  native::launch(rig.stream.queue, rig.add, length, (*link)->buffer().as<ClBuffer>()->root(), cl_uint{0});
  rig.finish();
  write(array, 6);
  REQUIRE(message((*link)->acquire(bytes.size(), 0)) == "ok");
  CHECK((host_sees(array) == all(6)) == shared);

  // The vector knows better.
  link->reset();
  write(array, 1);
  Words vector = rig.attached(array);
  REQUIRE(message(vector.fill(6)) == "ok");
  REQUIRE(message(host_ptr::acquire_device_writes(vector, rig.device)) == "ok");
  const auto access = HostAccess<std::int32_t>::open(vector, Access::read);
  REQUIRE(message(access) == "ok");
  CHECK(host_sees(array) == all(6));
}

TEST_CASE("a blocking map on another queue does not wait for a kernel") {
  Rig rig;
  const auto second = rig.stream.another_queue();
  const Array array = Rig::zeros();
  const Words vector = rig.attached(array);
  native::Gate gate(rig.stream.context);
  gate.close(second);
  rig.run(rig.put, vector, 5, second);
  map_and_unmap(CL_MAP_READ)(rig.stream.queue, rig.mem(vector),
                             std::as_writable_bytes(array.writable_elements()));
  CHECK(host_sees(array) == all(0));
  gate.open();
}

TEST_CASE("a release returns before the kernel has ended") {
  Rig rig;
  // A driver that keeps a copy of its own accord may wait in the release; with the gate closed, for ever.
  if (layers::shadow_layer() == nullptr && rig.driver() != Driver::shared) {
    return left_out("the driver may wait in the release");
  }
  const Array array = Rig::zeros();
  cl_int status = CL_SUCCESS;
  native::Owned<cl_mem> mem(clCreateBuffer(rig.stream.context, CL_MEM_USE_HOST_PTR, array.nbytes(),
                                           array.writable_elements().data(), &status));
  REQUIRE(status == CL_SUCCESS);
  native::Gate gate(rig.stream.context);
  gate.close(rig.stream.queue);
  const auto done = native::launch(rig.stream.queue, rig.put, length, mem.get(), std::uint32_t{5});
  mem = {};
  CHECK(native::pending(done));
  gate.open();
}

// What no driver at hand refuses.

namespace {

cl_int raw_attach(const Rig& rig, std::span<std::byte> bytes, native::Owned<cl_mem>& made) {
  cl_int status = CL_SUCCESS;
  made = native::Owned<cl_mem>(clCreateBuffer(rig.stream.context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                              bytes.size(), bytes.data(), &status));
  return status;
}

}  // namespace

TEST_CASE("the driver takes any address, berth multiples of 64") {
  const Rig rig;
  const Array block = Rig::zeros();
  for (const std::size_t offset : {4U, 64U, 256U, 4096U}) {
    CAPTURE(offset);
    const Array array = Array::over(block.writable_elements().subspan(offset / sizeof(std::int32_t), 1024));
    native::Owned<cl_mem> mem;
    CHECK(raw_attach(rig, std::as_writable_bytes(array.writable_elements()), mem) == CL_SUCCESS);
    mem = {};
    Words vector = Words::over(array);
    CHECK(cause(host_ptr::attach(vector, rig.device)) == (offset % 64 == 0 ? "ok" : "alignment"));
    REQUIRE(message(host_ptr::detach(vector, rig.device)) == "ok");
    CHECK(cause(host_ptr::attach(vector, rig.device, {.lenient = true})) == "ok");
  }
}

TEST_CASE("the driver takes memory twice, berth once") {
  const Rig rig;
  const Array block = Rig::zeros();
  const auto part = [&](std::size_t first, std::size_t count) {
    return Array::over(block.writable_elements().subspan(first, count));
  };
  for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{0, 2048}, {1024, 2048}, {512, 64}}) {
    CAPTURE(first, count);
    native::Owned<cl_mem> once;
    native::Owned<cl_mem> twice;
    CHECK(raw_attach(rig, std::as_writable_bytes(part(0, 2048).writable_elements()), once) == CL_SUCCESS);
    CHECK(raw_attach(rig, std::as_writable_bytes(part(first, count).writable_elements()), twice) ==
          CL_SUCCESS);
    once = {};
    twice = {};
    const Words vector = rig.attached(part(0, 2048));
    Words overlapping = Words::over(part(first, count));
    CHECK(cause(host_ptr::attach(overlapping, rig.device)) == "overlap");
  }
}

TEST_CASE("the driver takes read-only pages to write to, berth to read") {
  const Rig rig;
  const native::Pages pages(length * sizeof(std::int32_t));
  const std::span elements(reinterpret_cast<std::int32_t*>(pages.data()), length);
  REQUIRE(::mprotect(pages.data(), elements.size_bytes(), PROT_READ) == 0);
  native::Owned<cl_mem> mem;
  CHECK(raw_attach(rig, pages.bytes(), mem) == CL_SUCCESS);
  mem = {};
  Words vector = rig.attached(Array::read_only(elements));
  CHECK((native::property<cl_mem_flags>(rig.mem(vector), CL_MEM_FLAGS) & CL_MEM_READ_ONLY) != 0);
  CHECK(outcome(launching(rig.device, inout(vector))) == "invalid_argument");
  CHECK(rig.kernel_sees(vector) == all(0));
}

// What lies beside a range.

TEST_CASE("what the host writes beside a published range the device sees where it shares the memory") {
  Rig rig;
  const bool shared = rig.driver() == Driver::shared;
  const Array array = Rig::zeros();
  write(array, 1);
  Words vector = rig.attached(array);
  REQUIRE(rig.kernel_sees(vector) == all(1));  // a driver may make its copy at the first use only
  write(array, 2);
  REQUIRE(message(host_ptr::publish_host_writes(vector, rig.device, 200, 400)) == "ok");
  auto expected = all(shared ? 2 : 1);
  std::fill_n(expected.begin() + 100, 50, 2);
  CHECK(rig.kernel_sees(vector) == expected);
  CHECK(host_sees(array) == all(2));
  REQUIRE(message(host_ptr::publish_host_writes(vector, rig.device)) == "ok");
  CHECK(rig.kernel_sees(vector) == all(2));
}

TEST_CASE("what the host writes beside an acquired range stays, on every driver") {
  Rig rig;
  const bool shared = rig.driver() == Driver::shared;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  device_puts(rig, vector, rig.device, 3);
  write(array, 4);
  std::fill_n(array.writable_elements().begin() + 100, 50, shared ? 3 : 4);
  REQUIRE(message(host_ptr::acquire_device_writes(vector, rig.device, 200, 400)) == "ok");
  auto expected = all(4);
  std::fill_n(expected.begin() + 100, 50, 3);
  CHECK(host_sees(array) == expected);
  CHECK(rig.kernel_sees(vector) == (shared ? expected : all(3)));
}
