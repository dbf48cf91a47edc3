#include "formats/mli.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/output_file.h"
#include "formats/file_start.h"

namespace krafla {
namespace {

constexpr std::size_t kHeaderBytes = 40;
constexpr const char* kSlots[] = {"wq/wk/wv", "wo", "w1/w3", "w2"};

/// The number of sums these dimensions need. Each is below 2^32, so the product is below 2^67: checked.
std::optional<std::uint64_t> count_sums(const Mli& m) {
  const std::uint64_t layer = std::uint64_t{2} * m.dim + m.q_dim + m.hidden_dim;
  const auto layers = checked_mul<std::uint64_t>(layer, m.n_layers);
  return layers ? checked_add<std::uint64_t>(*layers, m.dim) : layers;
}

void check_group(std::span<const double> sums, const std::string& group, std::string_view name) {
  double total = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (!std::isfinite(sums[i]) || sums[i] < 0)
      fail(ML_E_FORMAT, "{}: {} channel {} has the sum {}; allowed: finite and >= 0", name, group, i,
           sums[i]);
    total += sums[i];
  }
  if (!(total > 0) || !std::isfinite(total))
    fail(ML_E_FORMAT, "{}: {} has a total of {}; allowed: finite and > 0", name, group, total);
}

/// Calls visit(sums, group's name) for every group, in file order.
template <class Visit>
void each_group(const Mli& m, Visit&& visit) {
  for (std::size_t i = 0; i < m.n_layers; ++i)
    for (const MliSlot slot : {MliSlot::qkv, MliSlot::o, MliSlot::up, MliSlot::down})
      visit(m.layer(i, slot), fmt::format("layers.{}.{}", i, kSlots[static_cast<std::size_t>(slot)]));
  visit(m.classifier(), std::string("classifier"));
}

void check_dimensions(const Mli& m, std::string_view name) {
  const std::pair<const char*, std::uint32_t> dims[] = {
      {"n_layers", m.n_layers}, {"dim", m.dim}, {"hidden_dim", m.hidden_dim}};
  for (const auto& [field, value] : dims)
    if (value == 0) fail(ML_E_SHAPE, "{}: {} is 0; allowed: at least 1", name, field);
}

void check_values(const Mli& m, std::string_view name) {
  if (m.layer_tokens == 0) fail(ML_E_FORMAT, "{}: layer tokens is 0; allowed: at least 1", name);
  if (m.classifier_tokens == 0) fail(ML_E_FORMAT, "{}: classifier tokens is 0; allowed: at least 1", name);
  each_group(m,
             [&](std::span<const double> sums, const std::string& group) { check_group(sums, group, name); });
}

}  // namespace

std::span<const double> Mli::layer(std::size_t i, MliSlot slot) const {
  const std::span<const double> all = std::span(sums).subspan(i * layer_size(), layer_size());
  switch (slot) {
    case MliSlot::qkv: return all.first(dim);
    case MliSlot::o: return all.subspan(dim, q_dim);
    case MliSlot::up: return all.subspan(std::size_t{dim} + q_dim, dim);
    case MliSlot::down: return all.last(hidden_dim);
  }
  return {};
}

std::span<double> Mli::layer(std::size_t i, MliSlot slot) {
  const std::span<const double> place = std::as_const(*this).layer(i, slot);
  return std::span(sums).subspan(static_cast<std::size_t>(place.data() - sums.data()), place.size());
}

Mli empty_mli(const MlbHeader& header) {
  Mli m;
  m.n_layers = header.n_layers;
  m.dim = header.dim;
  m.hidden_dim = header.hidden_dim;
  m.q_dim = static_cast<std::uint32_t>(header.q_dim());
  m.sums.resize(static_cast<std::size_t>(*count_sums(m)));
  return m;
}

Mli parse_mli(Bytes file, std::string_view name) {
  check_file_start(file, "MLI1", kHeaderBytes, name);
  ByteReader in(file, name);
  in.take(kFileStartBytes, "magic and version");
  Mli m;
  m.n_layers = in.read<std::uint32_t>("n_layers");
  m.dim = in.read<std::uint32_t>("dim");
  m.hidden_dim = in.read<std::uint32_t>("hidden_dim");
  m.q_dim = in.read<std::uint32_t>("q_dim");
  if (m.q_dim == 0) m.q_dim = m.dim;
  m.layer_tokens = in.read<std::uint64_t>("layer tokens");
  m.classifier_tokens = in.read<std::uint64_t>("classifier tokens");
  const auto count = count_sums(m);
  if (!count || in.remaining() % sizeof(double) != 0 || in.remaining() / sizeof(double) != *count)
    fail(ML_E_FORMAT, "{}: the size is {} bytes; allowed: {} for these dimensions", name, file.size(),
         count ? fmt::format("40 + 8 × {}", *count) : "none");
  check_dimensions(m, name);
  m.sums.resize(static_cast<std::size_t>(*count));
  std::memcpy(m.sums.data(), file.data() + kHeaderBytes, m.sums.size() * sizeof(double));
  check_values(m, name);
  return m;
}

void check_mli_model(const Mli& mli, const MlbHeader& header, std::span<const std::uint8_t> flags,
                     std::string_view name) {
  const std::tuple<const char*, std::uint64_t, std::uint64_t> dims[] = {
      {"n_layers", mli.n_layers, header.n_layers},
      {"dim", mli.dim, header.dim},
      {"hidden_dim", mli.hidden_dim, header.hidden_dim},
      {"q_dim", mli.q_dim, header.q_dim()}};
  for (const auto& [field, found, wanted] : dims)
    if (found != wanted)
      fail(ML_E_SHAPE, "{}: {} is {}; allowed: the model's {}", name, field, found, wanted);
  for (std::size_t i = 0; i < flags.size(); ++i)
    if ((flags[i] & kLayerLinear) != 0 && header.lin_values() != header.q_dim())
      fail(ML_E_SHAPE,
           "{}: layers.{}.lout has {} input channels; allowed: q_dim ({}), an importance matrix has no place "
           "for others",
           name, i, header.lin_values(), header.q_dim());
}

void check_mli_measured(const Mli& mli, std::string_view model) {
  each_group(mli, [&](std::span<const double> sums, const std::string& group) {
    const auto bad = std::find_if(sums.begin(), sums.end(), [](double sum) { return !std::isfinite(sum); });
    if (bad != sums.end())
      fail(ML_E_NUMERIC,
           "{}: channel {} of what goes into {} is NaN or infinite on this text; the model's weights are "
           "broken",
           model, bad - sums.begin(), group);
  });
}

void write_mli(OutputFile& file, std::string_view path, const Mli& mli) {
  check_dimensions(mli, path);
  const auto count = count_sums(mli);
  if (!count || mli.sums.size() != *count)
    fail(ML_E_SHAPE, "{}: {} sums do not fit its dimensions", path, mli.sums.size());
  check_values(mli, path);
  const std::uint32_t head[] = {1, mli.n_layers, mli.dim, mli.hidden_dim,
                                mli.q_dim == mli.dim ? 0 : mli.q_dim};
  const std::uint64_t tokens[] = {mli.layer_tokens, mli.classifier_tokens};
  file.write("MLI1", 4);
  file.write(head, sizeof head);
  file.write(tokens, sizeof tokens);
  file.write(mli.sums.data(), mli.sums.size() * sizeof(double));
  file.commit();
}

}  // namespace krafla
