#include "model/state/saved_sequence.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/round_up.h"
#include "formats/mls.h"

namespace krafla {
namespace {

constexpr KvLayout::Group kGroups[kMlsGroups] = {KvLayout::full, KvLayout::windowed, KvLayout::linear};

MlsHeader header_of(std::uint64_t model_hash, const Sequence& sequence) {
  const KvLayout& layout = sequence.pool().layout();
  MlsHeader header;
  header.model = model_hash;
  header.kv_type = static_cast<std::uint32_t>(layout.type());
  header.length = static_cast<std::uint32_t>(sequence.length());
  for (const auto group : kGroups) header.page_bytes[group] = layout.page_bytes(group);
  const std::vector<Page>& windowed = sequence.pages(KvLayout::windowed);
  while (header.first_windowed < windowed.size() && !windowed[header.first_windowed]) ++header.first_windowed;
  return header;
}

void check_fits(const Mls& mls, const std::string& path, const Model& model, std::uint64_t model_hash,
                const KvLayout& layout, ThreadPool& threads) {
  const MlsHeader& h = mls.header;
  if (h.model != model_hash)
    fail(ML_E_SHAPE,
         "{}: was made with another model: the hash of its file is {:016x}, that of {} is {:016x}", path,
         h.model, model.path(), model_hash);
  if (h.kv_type != static_cast<std::uint32_t>(layout.type()))
    fail(ML_E_SHAPE, "{}: its KV cache is of the type {}; this one is {}", path,
         kv_type_name(static_cast<KvType>(h.kv_type)), kv_type_name(layout.type()));
  for (const auto group : kGroups)
    if (h.page_bytes[group] != layout.page_bytes(group))
      fail(ML_E_SHAPE, "{}: page_bytes[{}] is {}; allowed: {}", path, static_cast<int>(group),
           h.page_bytes[group], layout.page_bytes(group));
  if (h.length > model.config().max_seq)
    fail(ML_E_SHAPE, "{}: holds {} positions; the model's max_seq is {}", path, h.length,
         model.config().max_seq);
  for (const std::int32_t id : mls.ids)
    if (id < 0 || static_cast<std::size_t>(id) >= model.config().vocab)
      fail(ML_E_FORMAT, "{}: token id {} is not in the model's vocabulary, 0 to {}", path, id,
           model.config().vocab - 1);
  const std::size_t window = layout.window();
  if (layout.has(KvLayout::windowed) && h.length + 1 > window &&
      h.first_windowed > (h.length + 1 - window) / kPage)
    fail(ML_E_FORMAT, "{}: first_windowed is {}; the next position sees pages from {} on", path,
         h.first_windowed, (h.length + 1 - window) / kPage);
  if (const std::uint64_t content = hash_bytes(mls.content, threads); content != h.content)
    fail(ML_E_FORMAT, "{}: the hash of its content is {:016x}, not {:016x}: the file is damaged", path,
         content, h.content);
}

}  // namespace

void save_sequence(OutputFile& file, std::uint64_t model_hash, std::span<const std::int32_t> ids,
                   const Sequence& sequence, ThreadPool& threads) {
  if (ids.empty() || ids.size() != sequence.length())
    fail(ML_E_ARG, "a sequence of {} positions cannot be saved with {} token ids", sequence.length(),
         ids.size());
  MlsHeader header = header_of(model_hash, sequence);
  std::vector<std::uint8_t> content(ids.size_bytes());
  std::memcpy(content.data(), ids.data(), ids.size_bytes());
  content.resize(round_up<std::size_t>(content.size(), 64));
  for (const auto group : kGroups)
    for (const Page& page : sequence.pages(group)) {
      if (!page) continue;
      const auto* const data = reinterpret_cast<const std::uint8_t*>(page.data());
      content.insert(content.end(), data, data + header.page_bytes[group]);
    }
  header.content = hash_bytes(content, threads);
  const std::uint32_t version = 1;
  file.write("MLS1", 4);
  file.write(&version, sizeof(version));
  file.write(&header, sizeof(header));
  file.write(content.data(), content.size());
  file.commit();
}

SavedSequence load_sequence(const std::string& path, const Model& model, std::uint64_t model_hash,
                            PagePool& pool, ThreadPool& threads) {
  const MappedFile file(path);
  const Mls mls = parse_mls(file.bytes(), path);
  check_fits(mls, path, model, model_hash, pool.layout(), threads);
  std::vector<Page> pages[KvLayout::groups];
  for (const auto group : kGroups) {
    if (group == KvLayout::windowed)
      pages[group].resize(mls.header.page_bytes[group] == 0 ? 0 : mls.header.first_windowed);
    const auto size = static_cast<std::size_t>(mls.header.page_bytes[group]);
    for (std::size_t i = 0; i < mls_pages(mls.header, group); ++i) {
      pages[group].push_back(pool.take(group));
      std::memcpy(pages[group].back().data(), mls.pages[group].data() + i * size, size);
    }
  }
  SavedSequence out{Sequence(pool), {mls.ids.begin(), mls.ids.end()}};
  out.sequence.restore(mls.header.length, std::move(pages));
  return out;
}

}  // namespace krafla
