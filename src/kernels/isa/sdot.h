// GEMV's dots by sdot, four products a lane, for the instruction sets that have it. i8mm uses it too: one
// activation row would fill half of its matrix product.

template <WeightType type, int n>
inline __attribute__((always_inline)) I isums(const uint8_t* w, const Blocks8& x) {
  int32x4_t v[8] = {};
  unroll<n>([&](auto b) {
    const uint8_t* block = w + b * block_bytes<type>;
    v[b] = vdotq_s32(vdotq_s32(v[b], load_levels<type>(block, 0), load_q(x.q[b])),
                     load_levels<type>(block, 1), load_q(x.q[b] + 16));
  });
  return add_blocks(v);
}
