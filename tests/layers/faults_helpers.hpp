// SPDX-License-Identifier: MIT
// The faults layer as tests use it.
#pragma once

#include <string>

#include "layers/control.hpp"
#include "support/opencl_fixture.hpp"

namespace layers {

/// The layer that this process runs under; a test without it fails.
class Faults {
 public:
  Faults() {
    static_cast<void>(native::device());  // the loader loads its layers at the first call
    layer_ = faults_layer();
    REQUIRE(layer_ != nullptr);
  }

  void reset() const { layer_->reset(); }
  void fail(const char* entry, std::uint64_t nth, std::uint64_t times, std::int32_t status) const {
    layer_->fail(entry, nth, times, status);
  }
  void disarm() const { layer_->disarm(); }
  [[nodiscard]] std::uint64_t calls(const char* entry = nullptr) const { return layer_->calls(entry); }
  [[nodiscard]] std::uint64_t failed() const { return layer_->failed(nullptr, 0); }
  [[nodiscard]] std::string last_failed() const {
    std::array<char, 64> name{};
    layer_->failed(name.data(), name.size());
    return name.data();
  }
  [[nodiscard]] Balance balance() const {
    Balance now{};
    layer_->balance(&now);
    return now;
  }
  [[nodiscard]] std::string violations() const {
    std::string text(layer_->violations(nullptr, 0) + 1, '\0');
    text.resize(std::min(text.size() - 1, layer_->violations(text.data(), text.size())));
    return text;
  }
  std::uint64_t settle() const { return layer_->settle(); }

 private:
  const FaultsControl* layer_ = nullptr;
};

}  // namespace layers
