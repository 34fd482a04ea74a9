// SPDX-License-Identifier: MIT
#include <berth/core/packed_allocator.hpp>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/outcome.hpp"
#include "support/reports.hpp"

using namespace berth;
using models::Counts;
using RichA = models::Rich<'a'>;
using RichB = models::Rich<'b'>;
using Small = models::Plain<models::SmallBuffer>;

namespace {

static_assert(sizeof(PackedAllocator) == sizeof(void*));
static_assert(std::is_nothrow_copy_constructible_v<PackedAllocator>);
static_assert(std::is_nothrow_move_constructible_v<PackedAllocator>);
static_assert(std::is_nothrow_swappable_v<PackedAllocator>);
static_assert(std::same_as<buffer_t<PackedAllocator>, PackedBuffer>);

using Answers = std::map<std::string, std::string>;

const std::array<std::byte, 4> four_bytes{};

// Every operation that takes a buffer or a queue, on `buf`, and what each answered.
Answers all_operations(PackedAllocator& allocator, const PackedBuffer& buf, const PackedBuffer& source) {
  std::array<std::byte, 4> out{};
  models::Native native;
  const Queue queue = Queue::borrow(models::queue_kind, &native);
  const Event event = Event::borrow(models::event_kind, &native);
  return {
      {"copyin", message(allocator.copyin(buf, four_bytes))},
      {"copyout", message(allocator.copyout(out, buf))},
      {"addr", message(allocator.addr(buf))},
      {"synchronize", message(allocator.synchronize())},
      {"offset", message(allocator.offset(buf, 2, 1))},
      {"transfer", message(allocator.transfer(buf, source, 4))},
      {"copy_from_disk", message(allocator.copy_from_disk(buf, FileExtent{}, 0))},
      {"extent", message(allocator.extent(buf))},
      {"fill", message(allocator.fill(buf, std::byte{1}))},
      {"map", message(allocator.map(buf, Access::read, 4))},
      {"on", message(allocator.on(queue))},
      {"record_use", message(allocator.record_use(buf, queue))},
      {"record", message(allocator.record())},
      {"wait", message(allocator.wait(event))},
  };
}

std::vector<bool> all_supports(const PackedAllocator& allocator) {
  return {allocator.supports_offset(), allocator.supports_transfer(), allocator.supports_copy_from_disk(),
          allocator.supports_extent(), allocator.supports_fill(),     allocator.supports_map(),
          allocator.supports_queues()};
}

// An adaptor as a user writes one: over any allocator, counting what passes.
template <Allocator Upstream>
class Watching {
 public:
  using buffer_type = buffer_t<Upstream>;

  explicit Watching(Upstream upstream, std::shared_ptr<int> passed = std::make_shared<int>())
      : upstream_(std::move(upstream)), passed_(std::move(passed)) {}

  [[nodiscard]] int passed() const noexcept { return *passed_; }

  [[nodiscard]] Result<buffer_type> alloc(std::size_t nbytes, const BufferSpec& spec) {
    ++*passed_;
    return upstream_.alloc(nbytes, spec);
  }
  void free(buffer_type buf, std::size_t nbytes, const BufferSpec& spec) noexcept {
    ++*passed_;
    upstream_.free(std::move(buf), nbytes, spec);
  }
  [[nodiscard]] Result<void> copyin(const buffer_type& buf, std::span<const std::byte> src) {
    return upstream_.copyin(buf, src);
  }
  [[nodiscard]] Result<void> copyout(std::span<std::byte> dst, const buffer_type& buf) {
    return upstream_.copyout(dst, buf);
  }
  [[nodiscard]] Result<std::uintptr_t> addr(const buffer_type& buf) { return upstream_.addr(buf); }
  [[nodiscard]] AllocatorInfo info() const { return upstream_.info(); }
  [[nodiscard]] Result<void> synchronize() { return upstream_.synchronize(); }

  [[nodiscard]] Result<buffer_type> offset(const buffer_type& buf, std::size_t nbytes,
                                           std::size_t byte_offset)
    requires OffsetAllocator<Upstream>
  {
    return upstream_.offset(buf, nbytes, byte_offset);
  }
  [[nodiscard]] bool supports_offset() const noexcept { return berth::supports_offset(upstream_); }

 private:
  Upstream upstream_;
  std::shared_ptr<int> passed_;
};

// Round trip through a packed allocator, for each storage form.
template <class Buf>
void check_round_trip() {
  models::Plain<Buf> model;
  PackedAllocator allocator = pack(model);
  auto buf = allocator.alloc(4, {.nolru = true});
  REQUIRE(buf);
  REQUIRE(buf->template as<Buf>() != nullptr);
  CHECK(buf->template as<Buf>()->intact());
  CHECK(buf->nbytes() == 4);
  CHECK(buf->instance() == model.info().instance);

  const std::array<std::byte, 4> in{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::array<std::byte, 4> out{};
  CHECK(outcome(allocator.copyin(*buf, in)) == "ok");
  CHECK(outcome(allocator.copyout(out, *buf)) == "ok");
  CHECK(out == in);
  CHECK(allocator.addr(*buf).value() == reinterpret_cast<std::uintptr_t>(buf->template as<Buf>()->data));

  allocator.free(std::move(*buf), 4, {.nolru = true});
  CHECK(model.state().live_blocks() == 0);
  CHECK(model.state().calls() ==
        Counts{{"alloc", 1}, {"copyin", 1}, {"copyout", 1}, {"addr", 1}, {"free", 1}});
}

}  // namespace

TEST_CASE("every storage form goes through and comes back") {
  models::MoveOnlyBuffer::traffic = {};
  check_round_trip<models::SmallBuffer>();
  check_round_trip<models::BigBuffer>();
  check_round_trip<models::MoveOnlyBuffer>();
  CHECK(models::MoveOnlyBuffer::traffic.made == 1);
  CHECK(models::MoveOnlyBuffer::traffic.alive() == 0);
}

TEST_CASE("every operation reaches its own slot, once") {
  RichA model;
  PackedAllocator allocator = pack(model);
  auto buf = allocator.alloc(4);
  auto source = allocator.alloc(4);
  REQUIRE(buf);
  REQUIRE(source);
  CHECK(model.state().calls() == Counts{{"alloc", 2}});

  for (const auto& [operation, answer] : all_operations(allocator, *buf, *source)) {
    INFO(operation);
    CHECK(answer == "ok");
  }
  CHECK(model.state().calls() == Counts{{"copyin", 1},
                                        {"copyout", 1},
                                        {"addr", 1},
                                        {"synchronize", 1},
                                        {"offset", 1},
                                        {"transfer", 1},
                                        {"copy_from_disk", 1},
                                        {"extent", 1},
                                        {"fill", 1},
                                        {"map", 1},
                                        {"unmap", 1},
                                        {"on", 1},
                                        {"record_use", 1},
                                        {"record", 1},
                                        {"wait", 1}});
  CHECK(model.state().cuts() == std::vector<models::Cut>{{2, 1, false}});
  CHECK(model.state().event.references == 1);

  allocator.free(std::move(*buf), 4);
  allocator.free(std::move(*source), 4);
  CHECK(model.state().calls() == Counts{{"free", 2}});
  CHECK(model.state().live_blocks() == 0);
}

TEST_CASE("arguments and results arrive whole") {
  RichA model;
  PackedAllocator allocator = pack(model);
  auto dest = allocator.alloc(8, {.zero = true});
  auto src = allocator.alloc(8);
  REQUIRE(dest);
  REQUIRE(src);
  std::byte* const dest_bytes = dest->as<RichA::Buf>()->data;
  std::byte* const src_bytes = src->as<RichA::Buf>()->data;
  CHECK(dest_bytes[7] == std::byte{0});

  CHECK(outcome(allocator.fill(*src, std::byte{9})) == "ok");
  CHECK(outcome(allocator.transfer(*dest, *src, 3)) == "ok");
  CHECK(dest_bytes[2] == std::byte{9});
  CHECK(dest_bytes[3] == std::byte{0});

  auto view = allocator.offset(*dest, 4, 2);
  REQUIRE(view);
  CHECK(view->is_view());
  CHECK(view->as<RichA::Buf>()->data == dest_bytes + 2);

  auto mapping = allocator.map(*dest, Access::write, 2, 5);
  REQUIRE(mapping);
  CHECK(mapping->bytes().data() == dest_bytes + 5);
  CHECK(mapping->bytes().size() == 2);
  CHECK(model.state().mapped_for == Access::write);
  CHECK(outcome(mapping->unmap()) == "ok");

  src_bytes[1] = std::byte{42};
  const auto extent = allocator.extent(*src);
  REQUIRE(extent);
  const auto read = allocator.copy_from_disk(*dest, *extent, 2);
  REQUIRE(read);
  CHECK(*read == DiskCopy{.direct = 0, .buffered = 2, .unbuffered = 0});
  CHECK(dest_bytes[1] == std::byte{42});

  const auto info = allocator.info();
  CHECK(info.backend == model.info().backend);
  CHECK(info.instance == model.info().instance);
  CHECK(info.device == model.info().device);
  CHECK(info.max_bytes == model.info().max_bytes);

  allocator.free(std::move(*dest), 8, {.zero = true});
  allocator.free(std::move(*src), 8);
}

TEST_CASE("an error passes through as it is") {
  RichA model;
  PackedAllocator allocator = pack(model);
  CHECK(message(allocator.alloc(SIZE_MAX)) ==
        "a alloc: larger than the device allocates at once, asked 18446744073709551615 bytes, the maximum is "
        "1073741824 bytes");
  auto buf = allocator.alloc(4);
  auto source = allocator.alloc(4);
  REQUIRE(buf);
  REQUIRE(source);
  for (const auto& [operation, answer] : all_operations(allocator, *buf, *source)) {
    REQUIRE(answer == "ok");
    model.state().refuse(operation, Errc::device_lost);
  }
  for (const auto& [operation, answer] : all_operations(allocator, *buf, *source)) {
    CHECK(answer == "a " + operation + ": the device is lost (told to refuse)");
  }
  allocator.free(std::move(*buf), 4);
  allocator.free(std::move(*source), 4);
}

TEST_CASE("an operation that the packed type lacks is unsupported, by name") {
  Small model;
  PackedAllocator allocator = pack(model);
  auto buf = allocator.alloc(4);
  REQUIRE(buf);
  CHECK(all_operations(allocator, *buf, *buf) ==
        Answers{{"copyin", "ok"},
                {"copyout", "ok"},
                {"addr", "ok"},
                {"synchronize", "ok"},
                {"offset", "plain offset: not supported"},
                {"transfer", "plain transfer: not supported"},
                {"copy_from_disk", "plain copy_from_disk: not supported"},
                {"extent", "plain extent: not supported"},
                {"fill", "plain fill: not supported"},
                {"map", "plain map: not supported"},
                {"on", "plain on: not supported"},
                {"record_use", "plain record_use: not supported"},
                {"record", "plain record: not supported"},
                {"wait", "plain wait: not supported"}});
  CHECK(all_supports(allocator) == std::vector<bool>(7, false));
  allocator.free(std::move(*buf), 4);
}

TEST_CASE("supports_ asks the packed allocator when it has the operation") {
  RichA model;
  const PackedAllocator allocator = pack(model);
  CHECK(all_supports(allocator) == std::vector<bool>(7, true));
  const std::vector<std::string> operations{"offset", "transfer", "copy_from_disk", "extent",
                                            "fill",   "map",      "queues"};
  for (std::size_t i = 0; i < operations.size(); ++i) {
    INFO(operations[i]);
    model.state().offer(operations[i], false);
    std::vector<bool> expected(7, true);
    expected[i] = false;
    CHECK(all_supports(allocator) == expected);
    model.state().offer(operations[i], true);
  }
}

TEST_CASE(
    "another backend's buffer is wrong_backend in every operation, and the packed allocator is not asked") {
  RichA model;
  RichB other;
  PackedAllocator allocator = pack(model);
  PackedAllocator other_allocator = pack(other);
  auto own = allocator.alloc(4);
  auto foreign = other_allocator.alloc(4);
  REQUIRE(own);
  REQUIRE(foreign);
  static_cast<void>(model.state().calls());

  auto answers = all_operations(allocator, *foreign, *own);
  for (const char* free_of_buffers : {"synchronize", "on", "record", "wait"}) {
    CHECK(answers.extract(free_of_buffers).mapped() == "ok");
  }
  CHECK(answers.size() == 10);
  for (const auto& [operation, answer] : answers) {
    CHECK(answer == "a " + operation + ": wrong backend (the buffer is of another backend)");
  }
  CHECK(message(allocator.transfer(*own, *foreign, 4)) ==
        "a transfer: wrong backend (the buffer is of another backend)");
  // An empty buffer is nobody's.
  CHECK(outcome(allocator.copyin(PackedBuffer(), four_bytes)) == "wrong_backend");
  CHECK(model.state().calls() == Counts{{"synchronize", 1}, {"on", 1}, {"record", 1}, {"wait", 1}});

  allocator.free(std::move(*own), 4);
  other_allocator.free(std::move(*foreign), 4);
}

TEST_CASE("another instance's buffer is the packed allocator's business") {
  RichA first;
  RichA second;
  PackedAllocator allocator = pack(first);
  PackedAllocator other = pack(second);
  auto foreign = other.alloc(4);
  REQUIRE(foreign);
  CHECK(message(allocator.copyin(*foreign, four_bytes)) ==
        "a copyin: wrong allocator (the buffer is of another instance)");
  other.free(std::move(*foreign), 4);
}

TEST_CASE("free of a foreign buffer reports, and does nothing") {
  Reports reports;
  RichA model;
  RichA twin;
  RichB other;
  PackedAllocator allocator = pack(model);
  PackedAllocator twin_allocator = pack(twin);
  PackedAllocator other_allocator = pack(other);
  auto buf = other_allocator.alloc(4);
  auto twin_buf = twin_allocator.alloc(5);
  REQUIRE(buf);
  REQUIRE(twin_buf);

  const models::RichBuffer<'b'> handle = *buf->as<models::RichBuffer<'b'>>();
  allocator.free(std::move(*buf), 4);
  CHECK(reports.take() ==
        std::vector<std::string>{"a free: wrong backend (the buffer is of another backend), asked 4 bytes"});
  CHECK(model.state().calls() == Counts{});
  CHECK(other.state().calls() == Counts{{"alloc", 1}});
  CHECK(other.state().live_blocks() == 1);
  other_allocator.free(PackedBuffer(handle), 4);

  const models::RichBuffer<'a'> twin_handle = *twin_buf->as<models::RichBuffer<'a'>>();
  allocator.free(std::move(*twin_buf), 5);
  CHECK(reports.take() ==
        std::vector<std::string>{
            "a free: wrong allocator (the buffer is of another instance; left alone), asked 5 bytes"});
  CHECK(twin.state().live_blocks() == 1);
  twin_allocator.free(PackedBuffer(twin_handle), 5);

  auto root = allocator.alloc(4);
  REQUIRE(root);
  auto view = allocator.offset(*root, 2, 1);
  REQUIRE(view);
  allocator.free(std::move(*view), 2);
  CHECK(reports.take() == std::vector<std::string>{
                              "a free: invalid argument (a view owns nothing; left alone), asked 2 bytes"});
  CHECK(model.state().live_blocks() == 1);
  allocator.free(std::move(*root), 4);
  CHECK(model.state().live_blocks() == 0);
  CHECK(reports.take().empty());
}

TEST_CASE("an empty allocator answers invalid_argument to everything") {
  Reports reports;
  RichA model;
  PackedAllocator allocator = pack(model);
  auto buf = allocator.alloc(4);
  REQUIRE(buf);

  PackedAllocator moved_from = pack(RichA());
  {
    const PackedAllocator taken = std::move(moved_from);
  }
  PackedAllocator never;
  for (PackedAllocator* empty : {&never, &moved_from}) {  // NOLINT(bugprone-use-after-move): documented
    CHECK(empty->empty());
    CHECK(message(empty->alloc(4)) == "packed alloc: invalid argument (the PackedAllocator is empty)");
    for (const auto& [operation, answer] : all_operations(*empty, *buf, *buf)) {
      CHECK(answer == "packed " + operation + ": invalid argument (the PackedAllocator is empty)");
    }
    empty->free(PackedBuffer(), 4);
    CHECK(reports.take() ==
          std::vector<std::string>{"packed free: invalid argument (the PackedAllocator is empty)"});
    CHECK(all_supports(*empty) == std::vector<bool>(7, false));
    CHECK(empty->info().instance == InstanceId{});
    CHECK(empty->info().max_bytes == 0);
    CHECK(empty->unpack<RichA>() == nullptr);
    CHECK(*empty == PackedAllocator());
    CHECK(PackedAllocator(*empty).empty());
  }
  allocator.free(std::move(*buf), 4);
}

TEST_CASE("packing a packed allocator adds no layer") {
  const PackedAllocator once = pack(RichA());
  const PackedAllocator twice = pack(once);
  CHECK(once == twice);
  CHECK(once.unpack<RichA>() != nullptr);
  CHECK(once.unpack<RichA>() == twice.unpack<RichA>());
  CHECK(twice.unpack<PackedAllocator>() == nullptr);
  CHECK(twice.unpack<RichB>() == nullptr);
  CHECK_FALSE(once == pack(*once.unpack<RichA>()));
}

TEST_CASE("a copy is the same allocator, which dies with the last handle") {
  const auto alive = std::make_shared<int>();
  struct Owner : Small {
    std::shared_ptr<int> owned;
  };
  PackedAllocator first = pack(Owner{Small(), alive});
  CHECK(alive.use_count() == 2);
  {
    PackedAllocator second = first;
    CHECK(second == first);
    CHECK(second.unpack<Owner>() == first.unpack<Owner>());
    CHECK(alive.use_count() == 2);

    PackedAllocator third;
    third = second;
    const PackedAllocator& same = third;
    third = same;
    CHECK(third == first);
    PackedAllocator& itself = third;
    third = std::move(itself);
    CHECK(third == first);
    using std::swap;
    swap(third, itself);
    CHECK(third == first);

    first = PackedAllocator();
    CHECK(first.empty());
    CHECK(alive.use_count() == 2);
    first = std::move(third);
    CHECK(first == second);

    PackedAllocator none;
    swap(first, none);
    CHECK(first.empty());
    CHECK(none == second);
    swap(first, none);
  }
  CHECK(alive.use_count() == 2);
  first = PackedAllocator();
  CHECK(alive.use_count() == 1);
}

TEST_CASE("an adaptor over a packed allocator packs again, without a buffer in a buffer") {
  RichA model;
  const Watching<PackedAllocator> watching(pack(model));
  PackedAllocator outer = pack(watching);
  PackedAllocator outermost = pack(Watching(outer));

  auto buf = outermost.alloc(6);
  REQUIRE(buf);
  CHECK(watching.passed() == 1);
  REQUIRE(buf->as<RichA::Buf>() != nullptr);
  CHECK(buf->as<PackedBuffer>() == nullptr);
  CHECK(buf->as<RichA::Buf>()->instance() == model.info().instance);

  // Any layer, and the backend itself, take it.
  CHECK(outcome(outermost.copyin(*buf, four_bytes)) == "ok");
  CHECK(outcome(outer.copyin(*buf, four_bytes)) == "ok");
  CHECK(outcome(pack(model).copyin(*buf, four_bytes)) == "ok");
  CHECK(outcome(model.copyin(*buf->as<RichA::Buf>(), four_bytes)) == "ok");

  auto view = outermost.offset(*buf, 2, 3);
  REQUIRE(view);
  CHECK(view->as<RichA::Buf>()->data == buf->as<RichA::Buf>()->data + 3);
  CHECK(outermost.supports_offset());
  CHECK_FALSE(outermost.supports_transfer());
  CHECK(outcome(outermost.transfer(*buf, *buf, 1)) == "unsupported");

  // A foreign one is recognised at the bottom.
  auto foreign = pack(RichB()).alloc(4);
  REQUIRE(foreign);
  CHECK(outcome(outermost.copyin(*foreign, four_bytes)) == "wrong_backend");

  REQUIRE(outermost.unpack<Watching<PackedAllocator>>() != nullptr);
  CHECK(outermost.unpack<Watching<PackedAllocator>>()->passed() == 1);
  CHECK(outermost.unpack<RichA>() == nullptr);

  outermost.free(std::move(*buf), 6);
  CHECK(watching.passed() == 2);
  CHECK(model.state().live_blocks() == 0);
}

TEST_CASE("an adaptor over a typed allocator packs the typed buffer") {
  RichA model;
  PackedAllocator allocator = pack(Watching(model));
  auto buf = allocator.alloc(6);
  REQUIRE(buf);
  CHECK(buf->as<RichA::Buf>() != nullptr);
  allocator.free(std::move(*buf), 6);
  CHECK(model.state().calls() == Counts{{"alloc", 1}, {"free", 1}});
}

TEST_CASE("on gives a packed handle to the same allocator, ordered on the other queue") {
  models::Native native;
  RichA model;
  PackedAllocator allocator = pack(model);
  {
    const Queue queue = Queue::borrow(models::queue_kind, &native);
    auto other = allocator.on(queue);
    REQUIRE(other);
    REQUIRE(other->unpack<RichA>() != nullptr);
    CHECK(other->unpack<RichA>()->queue() == queue);
    CHECK_FALSE(*other == allocator);
    CHECK(other->info().instance == allocator.info().instance);

    auto buf = allocator.alloc(4);
    REQUIRE(buf);
    other->free(std::move(*buf), 4);
    CHECK(model.state().live_blocks() == 0);
  }
  CHECK(native.references == 1);

  static constexpr HandleKind other_kind{"other", nullptr, nullptr};
  CHECK(outcome(allocator.on(Queue::borrow(other_kind, &native))) == "wrong_backend");
  CHECK(outcome(allocator.on(Queue())) == "wrong_backend");
}
