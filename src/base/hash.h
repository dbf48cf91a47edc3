// A 64-bit hash of many bytes, at memory speed: tells files apart, and finds damage. Not against an attacker.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace krafla {

/// The same for any number of threads. Pieces of 1 MiB are hashed by themselves (eight lanes of 64-bit words,
/// each h = (h ^ word) * 0x9e3779b97f4a7c15, rotated left by 29), then their hashes and the size in order.
std::uint64_t hash_bytes(std::span<const std::uint8_t> bytes, ThreadPool& threads);

}  // namespace krafla
