// SPDX-License-Identifier: MIT
// The shadow layer by plain OpenCL calls: each act after which a program may hope that the other side sees
// its bytes, and on which kind of driver it does.
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "layers/control.hpp"
#include "support/opencl_fixture.hpp"

using layers::ShadowMode;

namespace {

constexpr std::size_t size = 4096;
constexpr std::array modes{ShadowMode::shared, ShadowMode::clvk, ShadowMode::intel, ShadowMode::rusticl};
constexpr std::array mode_names{"shared", "clvk", "intel", "rusticl"};

const layers::ShadowControl& shadow() {
  static_cast<void>(native::device());
  const auto* const found = layers::shadow_layer();
  REQUIRE(found != nullptr);
  return *found;
}

std::vector<std::byte> all(unsigned value) {
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

/// Host memory that holds ones and a buffer object over it, in one mode.
struct Link {
  explicit Link(ShadowMode mode) {
    std::ranges::fill(host.bytes(), std::byte{1});
    shadow().set_mode(mode);
    buffer = make(CL_MEM_USE_HOST_PTR, host.data());
  }

  [[nodiscard]] native::Owned<cl_mem> make(cl_mem_flags flags, void* memory) const {
    cl_int status = CL_SUCCESS;
    native::Owned<cl_mem> made(clCreateBuffer(context, CL_MEM_READ_WRITE | flags, size, memory, &status));
    REQUIRE(status == CL_SUCCESS);
    return made;
  }
  std::byte* map(cl_map_flags flags, cl_mem object = nullptr) const {
    cl_int status = CL_SUCCESS;
    void* const pointer = clEnqueueMapBuffer(queue, object != nullptr ? object : buffer.get(), CL_TRUE, flags,
                                             0, size, 0, nullptr, nullptr, &status);
    REQUIRE(status == CL_SUCCESS);
    return static_cast<std::byte*>(pointer);
  }
  void unmap(void* pointer, cl_mem object = nullptr) const {
    REQUIRE(clEnqueueUnmapMemObject(queue, object != nullptr ? object : buffer.get(), pointer, 0, nullptr,
                                    nullptr) == CL_SUCCESS);
  }
  void map_and_unmap(cl_map_flags flags) const { unmap(map(flags)); }
  void host_writes(unsigned value) const { std::ranges::fill(host.bytes(), static_cast<std::byte>(value)); }
  void device_writes(unsigned value) const {
    const auto byte = static_cast<cl_uchar>(value);
    REQUIRE(clEnqueueFillBuffer(queue, buffer, &byte, 1, 0, size, 0, nullptr, nullptr) == CL_SUCCESS);
    REQUIRE(clFinish(queue) == CL_SUCCESS);
  }
  /// What is queued still reads and writes the host's pages.
  ~Link() { clFinish(queue); }

  [[nodiscard]] std::vector<std::byte> device_sees(cl_mem object = nullptr) const {
    std::vector<std::byte> bytes(size);
    REQUIRE(clEnqueueReadBuffer(queue, object != nullptr ? object : buffer.get(), CL_TRUE, 0, size,
                                bytes.data(), 0, nullptr, nullptr) == CL_SUCCESS);
    return bytes;
  }
  [[nodiscard]] std::vector<std::byte> host_sees() const {
    return {host.bytes().begin(), host.bytes().end()};
  }

  cl_device_id device = native::device().id;
  native::Owned<cl_context> context = native::make_context(device);
  native::Owned<cl_command_queue> queue = native::make_queue(context, device);
  native::Pages host{size};
  native::Owned<cl_mem> buffer;
};

/// An act, and whether the other side sees the new bytes in each mode.
struct Row {
  const char* act;
  std::function<void(Link&)> run;
  std::array<bool, modes.size()> seen;
};

void each_mode(const Row& row, const std::function<void(Link&, bool seen)>& check) {
  for (std::size_t i = 0; i < modes.size(); ++i) {
    INFO(mode_names[i] << ": " << row.act);
    Link link(modes[i]);
    row.run(link);
    check(link, row.seen[i]);
  }
}

}  // namespace

TEST_CASE("what the host wrote reaches the device, or is lost") {
  const std::vector<Row> rows{
      Row{"no call", [](Link& link) { link.host_writes(2); }, {true, false, false, false}},
      Row{"map(WRITE) and unmap after the writes",
          [](Link& link) {
            link.host_writes(2);
            link.map_and_unmap(CL_MAP_WRITE);
          },
          {true, false, false, false}},
      Row{"map(READ | WRITE) and unmap after the writes",
          [](Link& link) {
            link.host_writes(2);
            link.map_and_unmap(CL_MAP_READ | CL_MAP_WRITE);
          },
          {true, false, false, false}},
      Row{"map(READ) and unmap after the writes",
          [](Link& link) {
            link.host_writes(2);
            link.map_and_unmap(CL_MAP_READ);
          },
          {true, false, false, false}},
      Row{"map(INVALIDATE) and unmap after the writes",
          [](Link& link) {
            link.host_writes(2);
            link.map_and_unmap(CL_MAP_WRITE_INVALIDATE_REGION);
          },
          {true, false, true, true}},
      Row{"a write of the host pointer itself",
          [](Link& link) {
            link.host_writes(2);
            REQUIRE(clEnqueueWriteBuffer(link.queue, link.buffer, CL_TRUE, 0, size, link.host.data(), 0,
                                         nullptr, nullptr) == CL_SUCCESS);
          },
          {true, true, true, true}},
      Row{"writes inside a held map(WRITE)",
          [](Link& link) {
            std::byte* const pointer = link.map(CL_MAP_WRITE);
            CHECK(pointer == link.host.data());
            link.host_writes(2);
            link.unmap(pointer);
          },
          {true, true, true, true}},
      Row{"writes inside a held map(READ)",
          [](Link& link) {
            std::byte* const pointer = link.map(CL_MAP_READ);
            link.host_writes(2);
            link.unmap(pointer);
          },
          {true, true, false, false}},
      Row{"a map that writes over a live one that reads, at one address",
          [](Link& link) {
            std::byte* const first = link.map(CL_MAP_READ);
            std::byte* const second = link.map(CL_MAP_WRITE);
            CHECK(first == second);
            link.host_writes(2);
            link.unmap(second);
            link.unmap(first);
          },
          {true, true, true, false}}};
  for (const Row& row : rows)
    each_mode(row, [](Link& link, bool seen) { CHECK(link.device_sees() == all(seen ? 2 : 1)); });
}

TEST_CASE("a map that copies to the host throws away what the host wrote before") {
  for (const cl_map_flags flags : {CL_MAP_READ, CL_MAP_WRITE, CL_MAP_READ | CL_MAP_WRITE}) {
    each_mode({"map",
               [&](Link& link) {
                 link.host_writes(2);
                 link.map_and_unmap(flags);
                 REQUIRE(clFinish(link.queue) == CL_SUCCESS);
               },
               {true, false, false, false}},
              [](Link& link, bool kept) { CHECK(link.host_sees() == all(kept ? 2 : 1)); });
  }
  each_mode({"map(INVALIDATE)",
             [](Link& link) {
               link.host_writes(2);
               link.map_and_unmap(CL_MAP_WRITE_INVALIDATE_REGION);
               REQUIRE(clFinish(link.queue) == CL_SUCCESS);
             },
             {true, false, true, true}},
            [](Link& link, bool kept) { CHECK(link.host_sees() == all(kept ? 2 : 1)); });
}

TEST_CASE("what the device wrote reaches the host only by a map or a read") {
  const std::vector<Row> rows{
      Row{"no call", [](Link& link) { link.device_writes(3); }, {true, false, false, false}},
      Row{"map(READ)",
          [](Link& link) {
            link.device_writes(3);
            link.map_and_unmap(CL_MAP_READ);
          },
          {true, true, true, true}},
      Row{"map(WRITE)",
          [](Link& link) {
            link.device_writes(3);
            link.map_and_unmap(CL_MAP_WRITE);
          },
          {true, true, true, true}},
      Row{"map(INVALIDATE)",
          [](Link& link) {
            link.device_writes(3);
            link.map_and_unmap(CL_MAP_WRITE_INVALIDATE_REGION);
          },
          {true, true, false, false}},
      Row{"a read into the host pointer itself",
          [](Link& link) {
            link.device_writes(3);
            REQUIRE(clEnqueueReadBuffer(link.queue, link.buffer, CL_TRUE, 0, size, link.host.data(), 0,
                                        nullptr, nullptr) == CL_SUCCESS);
          },
          {true, true, true, true}}};
  for (const Row& row : rows)
    each_mode(row, [](Link& link, bool seen) { CHECK(link.host_sees() == all(seen ? 3 : 1)); });
}

TEST_CASE("kernels see the shadow only") {
  constexpr const char* source = R"(
    kernel void increment(global uchar* bytes) { bytes[get_global_id(0)] += 1; }
  )";
  each_mode({"a kernel",
             [](Link& link) {
               const native::Program program(link.context, link.device, source);
               const auto kernel = program.kernel("increment");
               link.host_writes(7);
               native::launch(link.queue, kernel, size, link.buffer.get());
               REQUIRE(clFinish(link.queue) == CL_SUCCESS);
             },
             {true, false, false, false}},
            [](Link& link, bool shared) {
              CHECK(link.host_sees() == all(shared ? 8 : 7));
              CHECK(link.device_sees() == all(shared ? 8 : 2));
            });
}

TEST_CASE("in lines, whole lines of host memory are shared, and the driver's own buffers") {
  Link link(ShadowMode::lines);
  struct Part {
    std::size_t first, nbytes;
    bool shared;
  };
  for (const Part& part : {Part{0, size, true}, Part{0, 64, true}, Part{64, 128, true}, Part{0, 65, false},
                           Part{0, 60, false}, Part{4, 64, false}, Part{4, 60, false}, Part{32, 64, false}}) {
    CAPTURE(part.first, part.nbytes);
    std::ranges::fill(link.host.bytes(), std::byte{1});
    cl_int status = CL_SUCCESS;
    const native::Owned<cl_mem> made(clCreateBuffer(link.context, CL_MEM_USE_HOST_PTR, part.nbytes,
                                                    link.host.data() + part.first, &status));
    REQUIRE(status == CL_SUCCESS);
    const cl_uchar two = 2;
    REQUIRE(clEnqueueFillBuffer(link.queue, made, &two, 1, 0, part.nbytes, 0, nullptr, nullptr) ==
            CL_SUCCESS);
    REQUIRE(clFinish(link.queue) == CL_SUCCESS);
    CHECK(std::ranges::count(link.host.bytes(), std::byte{2}) ==
          static_cast<std::ptrdiff_t>(part.shared ? part.nbytes : 0));
    CHECK(native::property<void*>(made.get(), CL_MEM_HOST_PTR) == link.host.data() + part.first);
    const auto copied = shadow().bytes_to_host();
    void* const pointer = clEnqueueMapBuffer(link.queue, made, CL_TRUE, CL_MAP_READ, 0, part.nbytes, 0,
                                             nullptr, nullptr, &status);
    REQUIRE(status == CL_SUCCESS);
    CHECK(pointer == link.host.data() + part.first);
    link.unmap(pointer, made);
    REQUIRE(clFinish(link.queue) == CL_SUCCESS);
    CHECK(shadow().bytes_to_host() - copied == (part.shared ? 0 : part.nbytes));
    CHECK(std::ranges::count(link.host.bytes(), std::byte{2}) == static_cast<std::ptrdiff_t>(part.nbytes));
  }
  const auto own = link.make(CL_MEM_ALLOC_HOST_PTR, nullptr);
  const auto copied = shadow().bytes_to_device();
  link.unmap(link.map(CL_MAP_WRITE, own), own);
  CHECK(shadow().bytes_to_device() == copied);
}

TEST_CASE("the driver's own buffers too are reached by map and unmap alone") {
  const cl_mem_flags flags = GENERATE(cl_mem_flags{0}, cl_mem_flags{CL_MEM_ALLOC_HOST_PTR});
  for (const ShadowMode mode : {ShadowMode::clvk, ShadowMode::intel, ShadowMode::rusticl}) {
    Link link(mode);
    const auto own = link.make(flags, nullptr);
    const auto fill = [&](cl_uchar value) {
      REQUIRE(clEnqueueFillBuffer(link.queue, own, &value, 1, 0, size, 0, nullptr, nullptr) == CL_SUCCESS);
      REQUIRE(clFinish(link.queue) == CL_SUCCESS);
    };
    fill(4);
    std::byte* const pointer = link.map(CL_MAP_WRITE_INVALIDATE_REGION, own);
    std::fill_n(pointer, size, std::byte{5});
    CHECK(link.device_sees(own) == all(4));  // not before the unmap
    link.unmap(pointer, own);
    CHECK(link.device_sees(own) == all(5));
    fill(6);
    std::byte* const again = link.map(CL_MAP_READ, own);
    CHECK(std::vector<std::byte>(again, again + size) == all(6));
    link.unmap(again, own);
  }
}

TEST_CASE("maps and unmaps copy in the order of the queue, and honour wait lists") {
  Link link(ShadowMode::intel);
  const auto second = native::make_queue(link.context, link.device);
  native::Gate gate(link.context);
  gate.close(link.queue);
  const cl_uchar nine = 9;
  REQUIRE(clEnqueueFillBuffer(link.queue, link.buffer, &nine, 1, 0, size, 0, nullptr, nullptr) == CL_SUCCESS);
  cl_int status = CL_SUCCESS;
  cl_event mapped = nullptr;
  void* const pointer = clEnqueueMapBuffer(link.queue, link.buffer, CL_FALSE, CL_MAP_WRITE, 0, size, 0,
                                           nullptr, &mapped, &status);
  REQUIRE(status == CL_SUCCESS);
  const native::Owned<cl_event> done(mapped);
  cl_event unmapped = nullptr;
  REQUIRE(clEnqueueUnmapMemObject(second, link.buffer, pointer, 1, &mapped, &unmapped) == CL_SUCCESS);
  const native::Owned<cl_event> undone(unmapped);
  REQUIRE(clFlush(second) == CL_SUCCESS);
  CHECK(native::pending(done));
  CHECK(native::pending(undone));
  CHECK(link.host_sees() == all(1));
  gate.open();
  REQUIRE(clFinish(second) == CL_SUCCESS);
  CHECK(link.host_sees() == all(9));
  CHECK(link.device_sees() == all(9));

  // A map that copies nothing waits as well.
  native::Gate another(link.context);
  another.close(link.queue);
  void* const over = clEnqueueMapBuffer(link.queue, link.buffer, CL_FALSE, CL_MAP_WRITE_INVALIDATE_REGION, 0,
                                        size, 0, nullptr, &mapped, &status);
  REQUIRE(status == CL_SUCCESS);
  const native::Owned<cl_event> later(mapped);
  CHECK(native::pending(later));
  another.open();
  link.unmap(over);
  REQUIRE(clFinish(link.queue) == CL_SUCCESS);
}

TEST_CASE("sub-buffers share the host memory of their root") {
  Link link(ShadowMode::clvk);
  const auto sub = native::make_sub_buffer(link.buffer, 1024, 512);
  CHECK(native::property<void*>(sub.get(), CL_MEM_HOST_PTR) == link.host.data() + 1024);
  CHECK((native::property<cl_mem_flags>(sub.get(), CL_MEM_FLAGS) & CL_MEM_USE_HOST_PTR) != 0);
  cl_int status = CL_SUCCESS;
  void* const pointer =
      clEnqueueMapBuffer(link.queue, sub, CL_TRUE, CL_MAP_WRITE, 100, 10, 0, nullptr, nullptr, &status);
  REQUIRE(status == CL_SUCCESS);
  CHECK(pointer == link.host.data() + 1124);
  link.host_writes(4);
  link.unmap(pointer, sub);
  auto expected = all(1);
  std::fill_n(expected.begin() + 1124, 10, std::byte{4});
  CHECK(link.device_sees() == expected);

  const auto own = link.make(0, nullptr);
  const auto own_sub = native::make_sub_buffer(own, 2048, 1024);
  std::byte* const root_pointer = link.map(CL_MAP_READ, own);
  void* const sub_pointer =
      clEnqueueMapBuffer(link.queue, own_sub, CL_TRUE, CL_MAP_READ, 1, 2, 0, nullptr, nullptr, &status);
  CHECK(sub_pointer == root_pointer + 2049);
  link.unmap(sub_pointer, own_sub);
  link.unmap(root_pointer, own);
  REQUIRE(clFinish(link.queue) == CL_SUCCESS);
}

TEST_CASE("maps are counted, and what is none is refused") {
  for (const ShadowMode mode : modes) {
    Link link(mode);
    const auto maps = [&](cl_uint expected) { return native::settled_maps(link.buffer, expected); };
    const auto unmap = [&](void* pointer) {
      return clEnqueueUnmapMemObject(link.queue, link.buffer, pointer, 0, nullptr, nullptr);
    };
    CHECK(maps(0) == 0);
    CHECK(unmap(link.host.data()) == CL_INVALID_VALUE);
    std::byte* const pointer = link.map(CL_MAP_READ);
    CHECK(maps(1) == 1);
    CHECK(unmap(pointer + 1) == CL_INVALID_VALUE);
    CHECK(unmap(pointer) == CL_SUCCESS);
    REQUIRE(clFinish(link.queue) == CL_SUCCESS);
    CHECK(maps(0) == 0);
    CHECK(unmap(pointer) == CL_INVALID_VALUE);

    const auto refused = [&](cl_map_flags flags, std::size_t offset, std::size_t nbytes) {
      cl_int status = CL_SUCCESS;
      clEnqueueMapBuffer(link.queue, link.buffer, CL_TRUE, flags, offset, nbytes, 0, nullptr, nullptr,
                         &status);
      return status;
    };
    CHECK(refused(CL_MAP_READ, 0, 0) == CL_INVALID_VALUE);
    CHECK(refused(CL_MAP_READ, 0, size + 1) == CL_INVALID_VALUE);
    CHECK(refused(CL_MAP_READ, size, 1) == CL_INVALID_VALUE);
    CHECK(maps(0) == 0);
  }
}

TEST_CASE("creation fails as without the layer") {
  Link link(ShadowMode::clvk);
  const auto status = [&](cl_mem_flags flags, std::size_t nbytes, void* memory) {
    cl_int answer = CL_SUCCESS;
    const native::Owned<cl_mem> made(clCreateBuffer(link.context, flags, nbytes, memory, &answer));
    return answer;
  };
  CHECK(status(CL_MEM_USE_HOST_PTR, size, nullptr) == CL_INVALID_HOST_PTR);
  CHECK(status(CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR, size, link.host.data()) == CL_INVALID_VALUE);
  CHECK(status(CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR, size, link.host.data()) == CL_INVALID_VALUE);
  CHECK(status(CL_MEM_USE_HOST_PTR, 0, link.host.data()) == CL_INVALID_BUFFER_SIZE);
}

TEST_CASE("a released buffer lives until its queued write-back has read the host memory") {
  Link link(ShadowMode::intel);
  std::atomic<bool> deleted{false};
  REQUIRE(clSetMemObjectDestructorCallback(
              link.buffer, [](cl_mem, void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; },
              &deleted) == CL_SUCCESS);
  native::Gate gate(link.context);
  std::byte* const pointer = link.map(CL_MAP_WRITE);
  gate.close(link.queue);
  link.unmap(pointer);
  link.buffer = native::Owned<cl_mem>();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(deleted);
  gate.open();
  for (int i = 0; i < 1000 && !deleted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(deleted);
}

TEST_CASE("the bytes that maps copy are counted") {
  Link link(ShadowMode::intel);
  const auto to_host = shadow().bytes_to_host();
  const auto to_device = shadow().bytes_to_device();
  link.map_and_unmap(CL_MAP_READ);
  CHECK(shadow().bytes_to_host() - to_host == size);
  CHECK(shadow().bytes_to_device() == to_device);
  link.map_and_unmap(CL_MAP_WRITE_INVALIDATE_REGION);
  CHECK(shadow().bytes_to_host() - to_host == size);
  CHECK(shadow().bytes_to_device() - to_device == size);
  REQUIRE(clFinish(link.queue) == CL_SUCCESS);
}
