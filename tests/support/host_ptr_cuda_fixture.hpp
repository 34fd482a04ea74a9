// SPDX-License-Identifier: MIT
// Host arrays on a CUDA device: the fake driver's, or the machine's own. Kernels are the user's.
#pragma once

#include <berth/cuda/framework.hpp>
#include <berth/cuda/queue.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "support/child.hpp"
#include "support/cuda_module.hpp"
#include "support/host_ptr_words.hpp"
#include "support/pages.hpp"

namespace host_ptr_test {

using native::abi::DevicePtr;

/// A kernel over `count` words at `data`, with a last parameter, of PTX type `type`: what `body` does with
/// the word at [%at], which is number %i.
inline std::string over_words(const std::string& name, const std::string& type, const std::string& body) {
  return "\n.visible .entry " + name + "(.param .u64 data, .param .u32 count, .param " + type + " last)\n" +
         R"({
  .reg .pred %outside, %done;
  .reg .b32 %i, %n, %x, %v, %round;
  .reg .b64 %at, %to, %wide;
  mov.u32 %i, %ctaid.x;
  mov.u32 %n, %ntid.x;
  mov.u32 %x, %tid.x;
  mad.lo.u32 %i, %i, %n, %x;
  ld.param.u32 %n, [count];
  setp.ge.u32 %outside, %i, %n;
  @%outside bra end;
  ld.param.u64 %at, [data];
  cvta.to.global.u64 %at, %at;
  mul.wide.u32 %wide, %i, 4;
  add.u64 %at, %at, %wide;
)" + body +
         R"(end:
  ret;
}
)";
}

inline std::string word_kernels() {
  return ".version 6.0\n.target sm_50\n.address_size 64\n" +
         over_words("add", ".u32", R"(  ld.param.u32 %v, [last];
  ld.global.u32 %x, [%at];
  add.u32 %x, %x, %v;
  st.global.u32 [%at], %x;
)") + over_words("put", ".u32", R"(  ld.param.u32 %v, [last];
  st.global.u32 [%at], %v;
)") + over_words("copy", ".u64", R"(  ld.param.u64 %to, [last];
  cvta.to.global.u64 %to, %to;
  add.u64 %to, %to, %wide;
  ld.global.u32 %x, [%at];
  st.global.u32 [%to], %x;
)") + over_words("put_slowly", ".u32", R"(  mov.u32 %round, 0;
again:
  mad.lo.u32 %x, %x, 1664525, 1013904223;
  st.volatile.global.u32 [%at], %x;
  add.u32 %round, %round, 1;
  setp.ge.u32 %done, %round, 20000;
  @!%done bra again;
  ld.param.u32 %v, [last];
  st.global.u32 [%at], %v;
)");
}

inline std::uint32_t* words(const fake_cuda::Launch& launch, std::size_t arg) {
  return reinterpret_cast<std::uint32_t*>(fake_cuda::Machine::bytes(launch.arg<DevicePtr>(arg)));
}
/// Does `work(word, value)` to each word.
template <class Work>
void each_word(const fake_cuda::Launch& launch, Work work) {
  std::uint32_t* const data = words(launch, 0);
  for (std::uint32_t i = 0; i < launch.arg<std::uint32_t>(1); ++i)
    work(data[i], launch.arg<std::uint32_t>(2));
}

inline void add_kernels(fake_cuda::Machine& machine) {
  const std::vector<std::size_t> args{sizeof(DevicePtr), sizeof(std::uint32_t), sizeof(std::uint32_t)};
  const auto put = [](std::uint32_t& word, std::uint32_t value) { word = value; };
  machine.add_kernel("add", args, [](const fake_cuda::Launch& launch) {
    each_word(launch, [](std::uint32_t& word, std::uint32_t value) { word += value; });
  });
  machine.add_kernel("put", args, [put](const fake_cuda::Launch& launch) { each_word(launch, put); });
  machine.add_kernel("put_slowly", args, [put](const fake_cuda::Launch& launch) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    each_word(launch, put);
  });
  machine.add_kernel("copy", {sizeof(DevicePtr), sizeof(std::uint32_t), sizeof(DevicePtr)},
                     [](const fake_cuda::Launch& launch) {
                       std::copy_n(words(launch, 0), launch.arg<std::uint32_t>(1), words(launch, 2));
                     });
}

/// A context and a stream of the user's, a device over them, and the framework registered.
class Rig {
 public:
  using Allocator = berth::cuda::Allocator;
  using Queue = native::Stream;
  using QueueHandle = native::abi::Stream;
  using Kernel = native::abi::Function;

  explicit Rig(const fake_cuda::Config& config = native::two_devices())
      : machine(config),
        device("CUDA", 0, "the device", berth::pack(user.allocator)),
        module_((prepare(), user.context), word_kernels().c_str()),
        add(module_.function("add")),
        put(module_.function("put")),
        copy_(module_.function("copy")),
        slow_(module_.function("put_slowly")) {
    REQUIRE(message(berth::device::register_framework(berth::cuda::framework())) == "ok");
    warm_up();
  }
  ~Rig() { berth::device::unregister_framework("CUDA"); }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  /// Skips the program where there is none: for a test whose children use it.
  static void require_driver() { static_cast<void>(native::driver()); }
  [[nodiscard]] static berth::device::HostLinker& linker() {
    return *berth::cuda::framework()->host_linker();
  }
  [[nodiscard]] const Allocator& allocator() const { return user.allocator; }
  [[nodiscard]] static bool one_memory() { return true; }
  [[nodiscard]] static std::uint64_t max_bytes() { return std::numeric_limits<std::ptrdiff_t>::max(); }
  [[nodiscard]] LinkKind kind() const {
    const auto array = zeros();
    auto vector = berth::host_ptr::of_bigarray(device, array);
    REQUIRE(message(vector) == "ok");
    return berth::host_ptr::host_link(*vector, device)->kind;
  }
  /// The machine's second device, or another context on its only one.
  [[nodiscard]] Device another_device() const {
    others_.emplace_back(native::Machine::devices() > 1 ? 1 : 0);
    return {"CUDA", 1, "another device", berth::pack(others_.back().allocator)};
  }

  [[nodiscard]] QueueHandle queue() const { return user.stream; }
  [[nodiscard]] Queue another_queue() const { return user.another_stream(); }
  void register_queue(const Queue& queue) {
    REQUIRE(message(device.register_queue(berth::cuda::borrow_queue(queue))) == "ok");
  }
  void finish(QueueHandle queue = nullptr) const {
    const native::Entered entered(user.context);
    REQUIRE_CUDA(native::driver().stream_synchronize(queue != nullptr ? queue : this->queue()));
  }

  [[nodiscard]] static DevicePtr mem(const Words& vector, const Device& on) {
    const berth::Buffer* const buffer = vector.buffer(on);
    REQUIRE(buffer != nullptr);
    return buffer->as<berth::cuda::CudaBuffer>()->address();
  }
  /// A kernel over all of the vector, on the device's own queue or another.
  void run(Kernel kernel, const Words& vector, std::uint32_t value, QueueHandle queue = nullptr) const {
    run_on(device, kernel, vector, value, queue);
  }
  void run_on(const Device& on, Kernel kernel, const Words& vector, std::uint32_t value,
              QueueHandle queue = nullptr) const {
    launch(kernel, mem(vector, on), vector.size(), &value, queue);
  }
  /// What stands for its end.
  [[nodiscard]] berth::Event run_with_event(Kernel kernel, const Words& vector, std::uint32_t value,
                                            QueueHandle queue) const {
    run(kernel, vector, value, queue);
    const native::Entered entered(user.context);
    native::abi::Event event = nullptr;
    REQUIRE_CUDA(native::driver().event_create(&event, native::abi::event_disable_timing));
    REQUIRE_CUDA(native::driver().event_record(event, queue));
    return berth::cuda::adopt_event(event, &native::driver());
  }
  void run_slowly(const Words& vector, std::uint32_t value, QueueHandle queue = nullptr) const {
    run(slow_, vector, value, queue);
  }
  void run_copy(const Words& from, const Words& to) const {
    DevicePtr target = mem(to, device);
    launch(copy_, mem(from, device), from.size(), &target, nullptr);
  }
  /// A kernel that the context does not survive.
  void run_wild() { native::run_wild(machine, user.context, user.stream); }
  /// Copied by a kernel into memory of the device's, and read from there: nothing of the way touches the
  /// host's array.
  [[nodiscard]] std::vector<std::int32_t> kernel_sees(const Words& vector) const {
    const std::size_t nbytes = vector.nbytes();
    std::vector<std::int32_t> seen(vector.size());
    DevicePtr beside = 0;
    {
      const native::Entered entered(user.context);
      REQUIRE_CUDA(native::driver().mem_alloc(&beside, nbytes));
    }
    launch(copy_, mem(vector, device), vector.size(), &beside, nullptr);
    const native::Entered entered(user.context);
    REQUIRE_CUDA(native::driver().memcpy_dtoh_async(seen.data(), beside, nbytes, user.stream));
    REQUIRE_CUDA(native::driver().stream_synchronize(user.stream));
    REQUIRE_CUDA(native::driver().mem_free(beside));
    return seen;
  }

  /// Holds a queue back.
  class Gate : public native::Gate {
   public:
    explicit Gate(const Rig& rig) : native::Gate(rig.user.context) {}
  };

  /// What is alive beside the rig: handles, and on a real device its memory.
  class Alive {
   public:
    explicit Alive(Rig& rig) : rig_(rig), before_(now()) {}
    [[nodiscard]] bool same() const { return now() == before_; }

   private:
    struct Figures {
      fake_cuda::Balance balance;
      std::size_t free_bytes;
      bool operator==(const Figures&) const = default;
    };
    [[nodiscard]] Figures now() const {
      Figures figures{};
      if (rig_.machine.fake()) figures.balance = rig_.machine->balance();
      const native::Entered entered(rig_.user.context);
      std::size_t total = 0;
      REQUIRE_CUDA(native::driver().mem_get_info(&figures.free_bytes, &total));
      return figures;
    }
    Rig& rig_;
    Figures before_;
  };

  [[nodiscard]] static Array zeros(std::size_t elements = length) { return host_ptr_test::zeros(elements); }
  [[nodiscard]] Words attached(const Array& array, const berth::host_ptr::Options& options = {}) const {
    return host_ptr_test::attached(device, array, options);
  }

  native::Machine machine;
  native::Borrowed user;

 private:
  mutable std::list<native::Borrowed> others_;

 public:
  Device device;

 private:
  native::Module module_;

 public:
  Kernel add;
  Kernel put;

 private:
  void prepare() {
    if (machine.fake()) add_kernels(*machine.operator->());
  }
  // The real driver loads a kernel at its first launch, and waits for the whole context then: not while a
  // gate is closed.
  void warm_up() const {
    Words from = Words::over(zeros(16));
    Words to = Words::over(zeros(16));
    REQUIRE(message(from.to_device(device)) == "ok");
    REQUIRE(message(to.to_device(device)) == "ok");
    for (const Kernel kernel : {add, put, slow_}) run(kernel, from, 1);
    run_copy(from, to);
    finish();
  }
  void launch(Kernel kernel, DevicePtr data, std::size_t size, void* last, QueueHandle queue) const {
    auto count = static_cast<std::uint32_t>(size);
    std::array<void*, 3> arguments{&data, &count, last};
    const native::Entered entered(user.context);
    REQUIRE_CUDA(native::driver().launch_kernel(kernel, (count + 127) / 128, 1, 1, 128, 1, 1, 0,
                                                queue != nullptr ? queue : this->queue(), arguments.data(),
                                                nullptr));
  }

  Kernel copy_;
  Kernel slow_;
};

}  // namespace host_ptr_test
