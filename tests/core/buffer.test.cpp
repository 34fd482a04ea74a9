// SPDX-License-Identifier: MIT
#include <berth/core/buffer.hpp>

#include <algorithm>
#include <array>
#include <barrier>
#include <functional>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/outcome.hpp"
#include "support/reports.hpp"
#include "support/scale.hpp"

using namespace berth;
using models::Counts;
using models::Cut;
using Rich = models::Rich<'a'>;
using Bytes = std::vector<std::byte>;

namespace {

static_assert(!std::is_copy_constructible_v<Buffer> && !std::is_copy_assignable_v<Buffer>);
static_assert(std::is_nothrow_move_constructible_v<Buffer> && std::is_nothrow_move_assignable_v<Buffer>);
static_assert(std::is_nothrow_swappable_v<Buffer>);

// 0, 1, 2, ...
Bytes counting(std::size_t nbytes) {
  Bytes bytes(nbytes);
  for (std::size_t i = 0; i < nbytes; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}
Bytes content(const Buffer& buffer) {
  Bytes bytes(buffer.nbytes());
  REQUIRE(outcome(buffer.copyout(bytes)) == "ok");
  return bytes;
}
Bytes slice(const Bytes& bytes, std::size_t nbytes, std::size_t byte_offset) {
  const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(byte_offset);
  return {first, first + static_cast<std::ptrdiff_t>(nbytes)};
}

Buffer made(const Rich& model, std::size_t nbytes, const BufferSpec& spec = {}) {
  auto buffer = Buffer::create(pack(model), nbytes, spec);
  REQUIRE(buffer);
  REQUIRE(outcome(buffer->copyin(counting(nbytes))) == "ok");
  return std::move(*buffer);
}
Buffer view_of(Buffer& buffer, std::size_t nbytes, std::size_t byte_offset) {
  auto view = buffer.view(nbytes, byte_offset);
  REQUIRE(view);
  return std::move(*view);
}

bool is_empty(const Buffer& buffer) {
  return buffer.empty() && buffer.nbytes() == 0 && buffer.byte_offset() == 0 && !buffer.is_view() &&
         buffer.spec() == BufferSpec{} && buffer.handle().empty() && buffer.as<Rich::Buf>() == nullptr;
}

// What a buffer can be, and how to tell that it still is.
struct Form {
  const char* name;
  Buffer buffer;
  std::function<bool(const Buffer&)> is;
};
// A root alone, a root with a view (`kept`), a view, and an empty buffer.
std::vector<Form> all_forms(const Rich& model, std::vector<Buffer>& kept) {
  const auto is = [](std::size_t nbytes, std::size_t byte_offset, bool view, std::size_t first) {
    return [=](const Buffer& buffer) {
      return !buffer.empty() && buffer.nbytes() == nbytes && buffer.byte_offset() == byte_offset &&
             buffer.is_view() == view && buffer.spec() == BufferSpec{.nolru = true} &&
             content(buffer) == slice(counting(64), nbytes, first);
    };
  };
  std::vector<Form> forms;
  forms.push_back({"root", made(model, 10, {.nolru = true}), is(10, 0, false, 0)});
  Buffer shared = made(model, 20, {.nolru = true});
  kept.push_back(view_of(shared, 5, 5));
  forms.push_back({"shared root", std::move(shared), is(20, 0, false, 0)});
  Buffer root = made(model, 30, {.nolru = true});
  forms.push_back({"view", view_of(root, 7, 3), is(7, 3, true, 3)});
  forms.push_back({"empty", Buffer(), is_empty});
  return forms;
}

}  // namespace

TEST_CASE("a buffer allocates with its arguments and frees with the same") {
  Reports reports;
  Rich model;
  {
    auto buffer = Buffer::create(pack(model), 24, {.nolru = true, .zero = true});
    REQUIRE(buffer);
    CHECK(buffer->nbytes() == 24);
    CHECK(buffer->spec() == BufferSpec{.nolru = true, .zero = true});
    CHECK_FALSE(buffer->is_view());
    CHECK_FALSE(buffer->empty());
    CHECK(content(*buffer) == Bytes(24));
    CHECK(buffer->as<Rich::Buf>() != nullptr);
    CHECK(buffer->as<models::Rich<'b'>::Buf>() == nullptr);
    CHECK(buffer->addr().value() == reinterpret_cast<std::uintptr_t>(buffer->as<Rich::Buf>()->data));
  }
  CHECK(model.state().calls() == Counts{{"alloc", 1}, {"copyout", 1}, {"addr", 1}, {"free", 1}});
  CHECK(model.state().live_blocks() == 0);
  CHECK(reports.take().empty());
}

TEST_CASE("a failed allocation is its error") {
  Rich model;
  model.state().refuse("alloc", Errc::out_of_memory);
  CHECK(message(Buffer::create(pack(model), 8)) == "a alloc: out of memory (told to refuse)");
  CHECK(outcome(Buffer::create(PackedAllocator(), 8)) == "invalid_argument");
  CHECK(model.state().calls() == Counts{{"alloc", 1}});
}

TEST_CASE("the buffer keeps its allocator alive") {
  Rich model;
  {
    PackedAllocator allocator = pack(model);
    auto buffer = Buffer::create(allocator, 8);
    REQUIRE(buffer);
    CHECK(buffer->allocator() == allocator);
    allocator = PackedAllocator();
    CHECK(outcome(buffer->fill(std::byte{3})) == "ok");
    CHECK(content(*buffer) == Bytes(8, std::byte{3}));
  }
  CHECK(model.state().live_blocks() == 0);
}

TEST_CASE("own takes a buffer over") {
  Rich model;
  PackedAllocator allocator = pack(model);
  auto handle = allocator.alloc(8, {.nolru = true});
  REQUIRE(handle);
  {
    const Buffer buffer = Buffer::own(allocator, std::move(*handle), {.nolru = true});
  }
  CHECK(model.state().calls() == Counts{{"alloc", 1}, {"free", 1}});
  CHECK(model.state().live_blocks() == 0);
}

TEST_CASE("an empty buffer answers invalid_argument to every operation") {
  Rich model;
  Buffer moved_from = made(model, 4);
  {
    const Buffer taken = std::move(moved_from);
  }
  Buffer never;
  for (Buffer* empty : {&never, &moved_from}) {  // NOLINT(bugprone-use-after-move): documented
    CHECK(is_empty(*empty));
    CHECK(outcome(empty->copyin({})) == "invalid_argument");
    CHECK(outcome(empty->copyout({})) == "invalid_argument");
    CHECK(outcome(empty->addr()) == "invalid_argument");
    CHECK(outcome(empty->fill(std::byte{})) == "invalid_argument");
    CHECK(outcome(empty->copy_from_disk({})) == "invalid_argument");
    CHECK(outcome(empty->map(Access::read)) == "invalid_argument");
    CHECK(outcome(empty->map(Access::read, 0, 0)) == "invalid_argument");
    CHECK(message(empty->view(0, 0)) == "view: invalid argument (the Buffer is empty)");
  }
}

TEST_CASE("a buffer of no bytes is a buffer") {
  Rich model;
  {
    auto buffer = Buffer::create(pack(model), 0);
    REQUIRE(buffer);
    CHECK_FALSE(buffer->empty());
    CHECK(buffer->nbytes() == 0);
    CHECK(outcome(buffer->copyin({})) == "ok");
    CHECK(outcome(buffer->copyout({})) == "ok");
    CHECK(buffer->addr().value() == 0);
    auto view = buffer->view(0, 0);
    REQUIRE(view);
    CHECK(view->nbytes() == 0);
    CHECK(outcome(buffer->view(1, 0)) == "out_of_range");
  }
  CHECK(model.state().calls()["free"] == 1);
  CHECK(model.state().live_blocks() == 0);
}

TEST_CASE("a view shows its part of the root, both ways") {
  Rich model;
  Buffer root = made(model, 16);
  Buffer view = view_of(root, 4, 6);
  CHECK(view.is_view());
  CHECK_FALSE(root.is_view());
  CHECK(view.byte_offset() == 6);
  CHECK(same_root(root, view));
  CHECK(content(view) == slice(counting(16), 4, 6));
  CHECK(outcome(view.fill(std::byte{99})) == "ok");
  Bytes expected = counting(16);
  std::fill_n(expected.begin() + 6, 4, std::byte{99});
  CHECK(content(root) == expected);
  CHECK(view.addr().value() == root.addr().value() + 6);
}

TEST_CASE("a view of a view refers to the root") {
  Rich model;
  Buffer root = made(model, 100);
  Buffer outer = view_of(root, 50, 20);
  Buffer inner = view_of(outer, 10, 5);
  Buffer innermost = view_of(inner, 3, 4);
  CHECK(model.state().cuts() == std::vector<Cut>{{50, 20, false}, {10, 25, false}, {3, 29, false}});
  CHECK(inner.byte_offset() == 25);
  CHECK(innermost.byte_offset() == 29);
  CHECK(content(innermost) == slice(counting(100), 3, 29));
  CHECK(same_root(root, innermost));
  CHECK(same_root(outer, inner));
  CHECK_FALSE(same_root(root, made(model, 100)));
}

TEST_CASE("bounds are those of the view, before the backend is asked") {
  Rich model;
  Buffer root = made(model, 100);
  Buffer view = view_of(root, 10, 20);
  static_cast<void>(model.state().calls());

  CHECK(message(view.view(11, 0)) == "a view: out of range, asked 11 bytes, at byte 0, there are 10 bytes");
  CHECK(message(view.view(6, 5)) == "a view: out of range, asked 6 bytes, at byte 5, there are 10 bytes");
  CHECK(message(view.view(0, 11)) == "a view: out of range, asked 0 bytes, at byte 11, there are 10 bytes");
  CHECK(message(root.view(1, 100)) ==
        "a view: out of range, asked 1 bytes, at byte 100, there are 100 bytes");
  for (const std::size_t near : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 9, SIZE_MAX - 10, SIZE_MAX / 2 + 1}) {
    for (const std::size_t small : {0, 1, 5, 10, 20, 21}) {
      CHECK(outcome(view.view(near, small)) == "out_of_range");
      CHECK(outcome(view.view(small, near)) == "out_of_range");
      CHECK(outcome(view.view(near, SIZE_MAX - small)) == "out_of_range");
    }
  }
  CHECK(model.state().calls() == Counts{});

  CHECK(view_of(view, 10, 0).nbytes() == 10);
  CHECK(view_of(view, 0, 10).nbytes() == 0);
  CHECK(view_of(view, 5, 5).byte_offset() == 25);

  // Copies too are held to the view.
  CHECK(outcome(view.copyin(counting(11))) == "out_of_range");
  Bytes eleven(11);
  CHECK(outcome(view.copyout(eleven)) == "out_of_range");
  CHECK(outcome(view.map(Access::read, 6, 5)) == "out_of_range");
  CHECK(content(root) == counting(100));
}

TEST_CASE("a failed view leaves the buffer as it was") {
  Reports reports;
  Rich model;
  {
    Buffer root = made(model, 10);
    CHECK(outcome(root.view(11, 0)) == "out_of_range");
    model.state().refuse("offset", Errc::driver);
    CHECK(message(root.view(5, 0)) == "a offset: driver error (told to refuse)");
    model.state().refuse_nothing();
    model.state().offer("offset", false);
    CHECK(message(root.view(5, 0)) == "a offset: not supported");
    model.state().offer("offset", true);
    CHECK(content(root) == counting(10));
    CHECK_FALSE(root.is_view());
    CHECK(model.state().live_blocks() == 1);
    CHECK(view_of(root, 5, 5).nbytes() == 5);
  }
  CHECK(model.state().calls()["free"] == 1);
  CHECK(model.state().live_blocks() == 0);
  CHECK(reports.take().empty());
}

TEST_CASE("a backend without views says so") {
  auto buffer = Buffer::create(pack(models::Plain<models::SmallBuffer>()), 8);
  REQUIRE(buffer);
  CHECK(message(buffer->view(4, 0)) == "plain offset: not supported");
  CHECK(message(buffer->fill(std::byte{})) == "plain fill: not supported");
  CHECK(message(buffer->copy_from_disk({})) == "plain copy_from_disk: not supported");
  CHECK(message(buffer->map(Access::read)) == "plain map: not supported");
}

TEST_CASE("a file's bytes come into a prefix of a buffer or view") {
  Rich model;
  const models::TemporaryFile file;
  const Bytes bytes{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  file.write(bytes, 0);
  Buffer buffer = made(model, 8);
  REQUIRE(buffer.fill(std::byte{9}));
  auto view = buffer.view(4, 3);
  REQUIRE(view);
  const auto copied = view->copy_from_disk({.fd = file.fd(), .offset = 1, .nbytes = 3});
  REQUIRE(message(copied) == "ok");
  CHECK(copied->total() == 3);
  auto expected = Bytes(8, std::byte{9});
  std::copy_n(bytes.begin() + 1, 3, expected.begin() + 3);
  CHECK(content(buffer) == expected);
  CHECK(outcome(view->copy_from_disk({.fd = file.fd(), .offset = 0, .nbytes = 5})) == "out_of_range");
  CHECK(content(buffer) == expected);
}

TEST_CASE("no order of destruction is wrong") {
  Reports reports;
  std::array<int, 4> order{0, 1, 2, 3};
  do {
    Rich model;
    {
      std::vector<Buffer> buffers;
      buffers.push_back(made(model, 32, {.nolru = true}));
      buffers.push_back(view_of(buffers[0], 16, 8));
      buffers.push_back(view_of(buffers[1], 8, 4));
      buffers.push_back(view_of(buffers[0], 4, 0));
      static_cast<void>(model.state().calls());

      std::vector<bool> alive(4, true);
      for (const int next : order) {
        CHECK(model.state().live_blocks() == 1);
        buffers[static_cast<std::size_t>(next)] = Buffer();
        alive[static_cast<std::size_t>(next)] = false;
        for (std::size_t i = 0; i < buffers.size(); ++i) {
          if (alive[i])
            CHECK(content(buffers[i]) == slice(counting(32), buffers[i].nbytes(), buffers[i].byte_offset()));
        }
      }
      CHECK(model.state().live_blocks() == 0);
    }
    auto calls = model.state().calls();
    calls.erase("copyout");
    CHECK(calls == Counts{{"free", 1}});
  } while (std::next_permutation(order.begin(), order.end()));
  CHECK(reports.take().empty());
}

TEST_CASE("a new view is cut after the root object is gone") {
  Rich model;
  Buffer root = made(model, 32);
  Buffer view = view_of(root, 16, 8);
  root = Buffer();
  Buffer again = view_of(view, 4, 2);
  view = Buffer();
  CHECK(again.byte_offset() == 10);
  CHECK(content(again) == slice(counting(32), 4, 10));
  again = Buffer();
  CHECK(model.state().live_blocks() == 0);
}

TEST_CASE("every form of a buffer moves, moves to itself, and swaps with every other") {
  Reports reports;
  Rich model;
  constexpr std::size_t count = 4;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Buffer> kept;
    auto forms = all_forms(model, kept);
    Form& form = forms[i];
    INFO(form.name);
    REQUIRE(form.is(form.buffer));
    Buffer moved = std::move(form.buffer);
    CHECK(is_empty(form.buffer));
    CHECK(form.is(moved));
    Buffer& same = moved;
    moved = std::move(same);
    CHECK(form.is(moved));
    swap(moved, same);
    CHECK(form.is(moved));
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      std::vector<Buffer> kept;
      auto forms = all_forms(model, kept);
      auto others = all_forms(model, kept);
      Form& a = forms[i];
      Form& b = others[j];
      INFO(a.name << " and " << b.name);
      swap(a.buffer, b.buffer);
      CHECK(b.is(a.buffer));
      CHECK(a.is(b.buffer));
      a.buffer = std::move(b.buffer);
      CHECK(a.is(a.buffer));
      CHECK(is_empty(b.buffer));
      // What was moved is as good as before: it can be cut, and its views outlive it.
      if (a.buffer.nbytes() > 4) {
        const Buffer view = view_of(a.buffer, 2, 1);
        const auto expected = slice(content(a.buffer), 2, 1);
        a.buffer = Buffer();
        CHECK(content(view) == expected);
      }
    }
  }
  CHECK(model.state().live_blocks() == 0);
  auto calls = model.state().calls();
  CHECK(calls["alloc"] == calls["free"]);
  CHECK_FALSE(calls.contains("free unlike its alloc"));
  CHECK_FALSE(calls.contains("free of no block"));
  CHECK(reports.take().empty());
}

TEST_CASE("a buffer with a move-only handle moves it, and frees it once") {
  models::MoveOnlyBuffer::traffic = {};
  models::Plain<models::MoveOnlyBuffer> model;
  {
    auto buffer = Buffer::create(pack(model), 8);
    REQUIRE(buffer);
    Buffer other = std::move(*buffer);
    CHECK(other.as<models::MoveOnlyBuffer>()->intact());
    CHECK(models::MoveOnlyBuffer::traffic.alive() == 1);
  }
  CHECK(models::MoveOnlyBuffer::traffic.made == 1);
  CHECK(models::MoveOnlyBuffer::traffic.alive() == 0);
  CHECK(model.state().calls() == Counts{{"alloc", 1}, {"free", 1}});
}

TEST_CASE("a map covers the buffer or a part of it") {
  Rich model;
  Buffer root = made(model, 16);
  Buffer view = view_of(root, 8, 4);
  {
    auto mapping = view.map(Access::write);
    REQUIRE(mapping);
    CHECK(mapping->bytes().size() == 8);
    CHECK(mapping->bytes()[0] == std::byte{4});
    CHECK(model.state().open_maps() == 1);
    mapping->bytes()[0] = std::byte{77};
  }
  CHECK(model.state().open_maps() == 0);
  CHECK(content(root)[4] == std::byte{77});
  auto part = view.map(Access::read, 2, 6);
  REQUIRE(part);
  CHECK(part->bytes().size() == 2);
  CHECK(part->bytes()[0] == std::byte{10});
}

TEST_CASE("distinct buffers of one root are used and dropped on several threads") {
  Rich model;
  const std::size_t rounds = scaled(200);
  for (std::size_t round = 0; round < rounds; ++round) {
    constexpr std::size_t count = 4;
    Buffer root = made(model, 64);
    std::vector<Buffer> buffers;
    for (std::size_t i = 1; i < count; ++i) buffers.push_back(view_of(root, 16, 16 * i));
    buffers.push_back(std::move(root));
    std::barrier start(count);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (Buffer& given : buffers) {
      threads.emplace_back([&, buffer = std::move(given)]() mutable {
        start.arrive_and_wait();
        // The root keeps to its first part: the others' are theirs.
        if (auto part = buffer.view(8, 4); !part || !part->fill(std::byte{1})) ++wrong;
        Bytes out(16);
        if (!buffer.copyin(out) || !buffer.copyout(out)) ++wrong;
        buffer = Buffer();
      });
    }
    for (std::thread& thread : threads) thread.join();
    REQUIRE(wrong == 0);
    REQUIRE(model.state().live_blocks() == 0);
  }
  auto calls = model.state().calls();
  CHECK(calls["free"] == static_cast<int>(rounds));
  CHECK_FALSE(calls.contains("free unlike its alloc"));
}
