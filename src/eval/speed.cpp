#include "eval/speed.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/clock.h"

namespace krafla {
namespace {

/// The bytes' sum as words, so that each is read. Four places at a time: one stream alone does not fill a
/// core's line buffers.
std::uint64_t read_all(Bytes bytes) {
  constexpr std::size_t kStreams = 4, kWords = 8;
  std::uint64_t sums[kWords] = {}, words[kWords];
  const std::size_t part = bytes.size() / kStreams / sizeof(words) * sizeof(words);
  for (std::size_t at = 0; at < part; at += sizeof(words))
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      std::memcpy(words, bytes.data() + stream * part + at, sizeof(words));
      for (std::size_t i = 0; i < kWords; ++i) sums[i] += words[i];
    }
  std::uint64_t sum = 0;
  for (const std::uint64_t s : sums) sum += s;
  return sum;
}

double read_speed(Bytes bytes, ThreadPool& threads) {
  constexpr std::size_t kPiece = 1 << 16;
  const std::size_t pieces = bytes.size() / kPiece;
  std::atomic<std::uint64_t> sum{0};
  double best = 0;
  const auto begin = Clock::now();
  for (int pass = 0; pass < 3 || (seconds_since(begin) < 0.3 && pass < 1000); ++pass) {
    const auto start = Clock::now();
    threads.run(std::max<std::size_t>(pieces, 1), [&](std::size_t i, int) {
      sum += read_all(pieces == 0 ? bytes : bytes.subspan(i * kPiece, kPiece));
    });
    const std::size_t read = pieces == 0 ? bytes.size() : pieces * kPiece;
    best = std::max(best, static_cast<double>(read) / seconds_since(start));
  }
  return best;
}

double multiply_speed(const Kernels& kernels, ThreadPool& threads, WeightType type) {
  double best = 0;
  const auto begin = Clock::now();
  for (int pass = 0; pass < 3 || seconds_since(begin) < 0.2; ++pass) {
    constexpr std::size_t kRounds = 2000;
    const std::size_t items = 4 * static_cast<std::size_t>(threads.size());
    std::atomic<std::size_t> done{0};
    const auto start = Clock::now();
    threads.run(items, [&](std::size_t, int) { done += kernels.multiply_add_peak(type, kRounds); });
    best = std::max(best, static_cast<double>(done) / seconds_since(start));
  }
  return best;
}

/// Adds one matrix: read once, multiplied with `rows` rows.
void add_matrix(Work& work, const Matrix& w, std::size_t rows) {
  if (w.empty() || rows == 0) return;
  work.bytes += static_cast<double>(w.q_bytes() + w.d_bytes());
  work.multiply_adds += static_cast<double>(w.rows * w.cols) * static_cast<double>(rows);
}

}  // namespace

Work call_work(const Mlb& mlb, const KvLayout& layout, std::size_t length, std::size_t rows,
               std::size_t sequences, std::size_t logits) {
  Work work;
  double state = 0;  // bytes of one sequence
  for (std::size_t i = 0; i < mlb.layers.size(); ++i) {
    const MlbLayer& l = mlb.layers[i];
    for (const Matrix* w :
         {&l.wq, &l.wk, &l.wv, &l.wo, &l.wg, &l.lqkv, &l.lz, &l.lb, &l.la, &l.lout, &l.w1, &l.w2, &l.w3})
      add_matrix(work, *w, rows * sequences);
    if (layout.config().layers[i].linear) {
      state += static_cast<double>(layout.recurrent().bytes());
    } else {
      const std::size_t held = length + rows;
      const std::size_t seen =
          l.flags & kLayerWindow ? std::min<std::size_t>(held, layout.window() + rows - 1) : held;
      state += static_cast<double>(layout.position_bytes()) * static_cast<double>(seen);
    }
  }
  add_matrix(work, mlb.wcls, logits);
  work.bytes += state * static_cast<double>(sequences);
  return work;
}

double Limits::seconds(const Work& work) const {
  return std::max(work.bytes / bytes_s, work.multiply_adds / multiply_adds_s);
}

Limits measure_limits(const Model& model, Context& context) {
  return {read_speed(model.bytes(), context.threads),
          multiply_speed(context.kernels, context.threads, model.header().weight_type())};
}

Sequence SpeedTest::history(std::size_t depth) {
  std::vector<Sequence> one = {Sequence(pool_)};
  Sequence& sequence = one[0];
  if (depth == 0) return sequence;
  const std::size_t computed = std::min<std::size_t>(depth, kPage);
  step(one, computed, false);
  if (computed == depth) return sequence;
  const KvLayout& layout = pool_.layout();
  Page first[2];
  for (const auto group : {KvLayout::full, KvLayout::windowed})
    if (layout.has(group)) first[group] = sequence.pages(group).front();
  std::vector<PageFill> fills;
  while (sequence.length() < depth) {  // page by page: what a window has passed is freed
    const std::size_t at = sequence.length(), more = std::min<std::size_t>(depth - at, kPage);
    sequence.begin(more, false, fills);
    for (const auto group : {KvLayout::full, KvLayout::windowed})
      if (layout.has(group))
        fills.push_back({sequence.page(group, at / kPage), first[group], layout.page_bytes(group)});
    for (const PageFill& fill : fills) fill.run();
    fills.clear();
    sequence.commit(more);
  }
  return sequence;
}

void SpeedTest::step(std::vector<Sequence>& sequences, std::size_t rows, bool logits) {
  const std::size_t vocab = model_.config().vocab;
  tokens_.clear();
  for (std::size_t s = 0; s < sequences.size(); ++s)
    for (std::size_t i = 0; i < rows; ++i)
      tokens_.push_back(
          static_cast<std::int32_t>(((sequences[s].length() + i) * 7919 + s * 104729 + 1) % vocab));
  feeds_.clear();
  for (std::size_t s = 0; s < sequences.size(); ++s)
    feeds_.push_back(
        {&sequences[s], std::span(tokens_).subspan(s * rows, rows), logits ? Wants::last : Wants::none});
  forward(model_, context_, batch_, feeds_);
  if (!logits) return;
  logits_.resize(sequences.size() * vocab);
  classify(model_, context_, batch_, 0, sequences.size(), logits_.data());
}

/// Makes the last page of a sequence its own.
void SpeedTest::unshare(Sequence& sequence) {
  std::vector<PageFill> fills;
  sequence.begin(1, false, fills);
  for (const PageFill& fill : fills) fill.run();
  sequence.rollback();
}

template <class Run>
Speed SpeedTest::repeat(std::size_t depth, std::size_t batch, int repeats, Run run) {
  std::vector<Sequence> histories;
  histories.reserve(batch);
  for (std::size_t i = 0; i < batch; ++i) histories.push_back(history(depth));
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    std::vector<Sequence> sequences = histories;
    for (Sequence& s : sequences) unshare(s);
    const auto start = Clock::now();
    run(sequences);
    times.push_back(seconds_since(start));
  }
  std::sort(times.begin(), times.end());
  Speed speed;
  speed.seconds = times[times.size() / 2];
  return speed;
}

Speed SpeedTest::prefill(std::size_t n, std::size_t depth, std::size_t chunk, int repeats) {
  Speed speed = repeat(depth, 1, repeats, [&](std::vector<Sequence>& sequences) {
    for (std::size_t done = 0; done < n; done += std::min(chunk, n - done))
      step(sequences, std::min(chunk, n - done), done + chunk >= n);
  });
  speed.tokens = static_cast<double>(n);
  for (std::size_t done = 0; done < n; done += chunk)
    speed.work += call_work(model_.mlb(), pool_.layout(), depth + done, std::min(chunk, n - done), 1,
                            done + chunk >= n ? 1 : 0);
  return speed;
}

Speed SpeedTest::decode(std::size_t n, std::size_t depth, std::size_t batch, int repeats) {
  Speed speed = repeat(depth, batch, repeats, [&](std::vector<Sequence>& sequences) {
    for (std::size_t i = 0; i < n; ++i) step(sequences, 1, true);
  });
  speed.tokens = static_cast<double>(n * batch);
  for (std::size_t i = 0; i < n; ++i)
    speed.work += call_work(model_.mlb(), pool_.layout(), depth + i, 1, batch, batch);
  return speed;
}

}  // namespace krafla
