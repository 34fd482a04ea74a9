// SPDX-License-Identifier: MIT
#include <berth/berth.hpp>

int main() {
  const berth::InstanceId first = berth::next_instance_id();
  const berth::InstanceId second = berth::next_instance_id();
  return first != second ? 0 : 1;
}
