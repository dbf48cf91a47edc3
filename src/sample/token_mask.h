// Which tokens may come next: the hook by which a grammar or a schema constrains an answer.
#pragma once

#include <cstdint>
#include <span>

namespace krafla {

/// The state of one constrained answer. Used by one thread at a time; different answers' masks at the same
/// time.
class TokenMask {
 public:
  virtual ~TokenMask() = default;
  /// Sets the bits of the tokens that may come next: token id is bit id % 64 of word id / 64. All bits are 0
  /// before. Where the answer may end, the ids that end it are among them.
  virtual void allow(std::span<std::uint64_t> bits) = 0;
  /// The answer goes on with this token, which was allowed.
  virtual void accept(std::int32_t id) = 0;
};

}  // namespace krafla
