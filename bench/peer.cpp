// llama.cpp's or ik_llama.cpp's side of bench/peers.py, through the C API, as a program without anything else
// in it:
//   peer MODEL.gguf THREADS FLASH REPACK first TEXT          loads, evaluates TEXT, prints the likeliest next
//   token peer MODEL.gguf THREADS FLASH REPACK KIND N DEPTH BATCH  prints tokens per second; KIND: prefill,
//   decode peer quantize SOURCE.gguf TARGET.gguf q8_0|q4_0          every matrix, the embedding too, in one
//   type
// FLASH, REPACK: 0 or 1. Built twice by bench/engines.py, each time against the engine's own llama.h;
// IK_LLAMA: ik_llama.cpp's. Figures are the median of three, sequences have histories of DEPTH tokens; ids
// are given, nothing is sampled.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "llama.h"

namespace {

constexpr int kRepeats = 3, kChunk = 512, kBatch = 1024;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "peer: %s\n", what);
  std::exit(1);
}

struct Cell {
  std::string kind;
  int n, depth, batch;
};

void quiet() {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
}

int quantize(const char* source, const char* target, const std::string& type) {
  quiet();
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.ftype = type == "q8_0" ? LLAMA_FTYPE_MOSTLY_Q8_0 : LLAMA_FTYPE_MOSTLY_Q4_0;
  params.pure = params.quantize_output_tensor = params.allow_requantize = true;
  return llama_model_quantize(source, target, &params) == 0 ? 0 : 1;
}

class Peer {
 public:
  Peer(const char* path, int threads, bool flash, bool repack, int positions, int sequences) {
    quiet();
    llama_model_params mp = llama_model_default_params();
    llama_context_params cp = llama_context_default_params();
#ifdef IK_LLAMA
    mp.repack_tensors = repack;
    mp.use_mmap = !repack;  // as its own programs do: repacking in place needs memory of its own
    cp.flash_attn = flash;
#else
    mp.use_extra_bufts = repack;
    cp.flash_attn_type = flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    cp.kv_unified = false;  // sequences share nothing
#endif
    cp.n_ctx = static_cast<uint32_t>(positions * sequences);
    cp.n_seq_max = static_cast<uint32_t>(sequences);
    cp.n_batch = kBatch;
    cp.n_ubatch = kChunk;
    cp.n_threads = cp.n_threads_batch = threads;
    model_ = llama_model_load_from_file(path, mp);
    if (model_ == nullptr) die("the model cannot be loaded");
    context_ = llama_init_from_model(model_, cp);
    if (context_ == nullptr) die("no context");
    batch_ = llama_batch_init(kBatch, 0, 1);
    vocab_ = llama_vocab_n_tokens(llama_model_get_vocab(model_));
  }

  /// The likeliest token after the text.
  int first(const std::string& text) {
    std::vector<llama_token> ids(text.size() + 8);
#ifdef IK_LLAMA
    const int n = llama_tokenize(model_, text.data(), static_cast<int>(text.size()), ids.data(),
                                 static_cast<int>(ids.size()), false, true);
#else
    const int n = llama_tokenize(llama_model_get_vocab(model_), text.data(), static_cast<int>(text.size()),
                                 ids.data(), static_cast<int>(ids.size()), false, true);
#endif
    if (n <= 0) die("the text cannot be tokenized");
    batch_.n_tokens = 0;
    for (int i = 0; i < n; ++i) add(ids[static_cast<size_t>(i)], i, 0, i + 1 == n);
    run();
    const float* logits = llama_get_logits_ith(context_, n - 1);
    return static_cast<int>(std::max_element(logits, logits + vocab_) - logits);
  }

  /// As krafla's serve_joining() (src/eval/engine_speed.h): every call takes a token of each answer, and
  /// prompt tokens up to `chunk`. The tokens are given, none is drawn.
  double joining(int requests, int prompt, int answer, int chunk) {
    clear();
    struct Stream {
      int joins, done;
    };
    std::vector<Stream> streams;
    unsigned seed = 1;
    for (int i = 0; i < requests; ++i) {
      seed = seed * 1664525u + 1013904223u;
      streams.push_back(
          {i == 0 ? 0 : static_cast<int>((seed >> 8) % static_cast<unsigned>(2 * requests)), 0});
    }
    const int total = prompt + answer - 1;  // the last token is not read
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0;; ++step) {
      batch_.n_tokens = 0;
      bool left = false;
      for (int s = 0; s < requests; ++s) {
        Stream& stream = streams[static_cast<size_t>(s)];
        left = left || stream.done < total;
        if (stream.joins > step || stream.done < prompt || stream.done >= total) continue;
        add(token(stream.done, s), stream.done, s, true);
        ++stream.done;
      }
      int room = chunk;
      for (int s = 0; s < requests; ++s) {
        Stream& stream = streams[static_cast<size_t>(s)];
        if (stream.joins > step) continue;
        for (; stream.done < prompt && room > 0; --room, ++stream.done)
          add(token(stream.done, s), stream.done, s, stream.done + 1 == prompt);
      }
      if (!left) break;
      if (batch_.n_tokens > 0) run();
    }
    return requests * answer /
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  /// As krafla's serve_beside_prompt().
  void beside(int streams, int prompt, int chunk) {
    clear();
    for (int s = 0; s < streams; ++s) feed(s, 0, 16);
    double largest = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int done = 0, position = 16; done < prompt; ++position) {
      const auto before = std::chrono::steady_clock::now();
      batch_.n_tokens = 0;
      for (int s = 0; s < streams; ++s) add(token(position, s), position, s, true);
      for (int i = 0; i < chunk && done < prompt; ++i, ++done)
        add(token(done, streams), done, streams, done + 1 == prompt);
      run();
      largest =
          std::max(largest, std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
    }
    std::printf("%.1f %.2f\n", 1e3 * largest,
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

  /// Tokens per second.
  double measure(const Cell& cell) {
    clear();
    for (int s = 0; s < cell.batch; ++s) feed(s, 0, cell.depth);
    std::vector<double> rates;
    for (int i = 0; i < kRepeats; ++i) {
      for (int s = 0; s < cell.batch; ++s) forget(s, cell.depth);
      const auto start = std::chrono::steady_clock::now();
      if (cell.kind == "prefill")
        feed(0, cell.depth, cell.n);
      else
        steps(cell);
      rates.push_back(cell.n * cell.batch /
                      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(rates.begin(), rates.end());
    return rates[kRepeats / 2];
  }

 private:
  llama_token token(int position, int sequence) const {
    return static_cast<llama_token>((position * 7919LL + sequence * 104729LL + 1) % vocab_);
  }

  void add(llama_token id, int position, int sequence, bool logits) {
    const int i = batch_.n_tokens++;
    batch_.token[i] = id;
    batch_.pos[i] = position;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = sequence;
    batch_.logits[i] = logits;
  }

  void run() {
    if (llama_decode(context_, batch_) != 0) die("llama_decode failed");
    llama_synchronize(context_);
  }

  /// n tokens of one sequence from a position on, logits of the last.
  void feed(int sequence, int position, int n) {
    for (int done = 0; done < n;) {
      batch_.n_tokens = 0;
      for (; done < n && batch_.n_tokens < kChunk; ++done)
        add(token(position + done, sequence), position + done, sequence, done + 1 == n);
      run();
    }
  }

  /// Single steps of all sequences at once, logits of each.
  void steps(const Cell& cell) {
    for (int i = 0; i < cell.n; ++i) {
      batch_.n_tokens = 0;
      for (int s = 0; s < cell.batch; ++s) add(token(cell.depth + i, s), cell.depth + i, s, true);
      run();
    }
  }

#ifdef IK_LLAMA
  void clear() { llama_kv_cache_clear(context_); }
  void forget(int sequence, int from) { llama_kv_cache_seq_rm(context_, sequence, from, -1); }
#else
  void clear() { llama_memory_clear(llama_get_memory(context_), true); }
  void forget(int sequence, int from) { llama_memory_seq_rm(llama_get_memory(context_), sequence, from, -1); }
#endif

  llama_model* model_ = nullptr;
  llama_context* context_ = nullptr;
  llama_batch batch_{};
  int vocab_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "quantize") == 0) return quantize(argv[2], argv[3], argv[4]);
  if (argc < 7) die("see bench/peer.cpp for the arguments");
  const int threads = std::atoi(argv[2]);
  const bool flash = std::atoi(argv[3]) != 0, repack = std::atoi(argv[4]) != 0;
  const std::string kind = argv[5];
  const auto number = [&](int i) { return i < argc ? std::atoi(argv[i]) : 0; };
  if (kind == "first") {
    Peer peer(argv[1], threads, flash, repack, kChunk, 1);
    std::printf("%d\n", peer.first(argv[6]));
  } else if (kind == "joining") {
    Peer peer(argv[1], threads, flash, repack, number(7) + number(8), number(6));
    peer.measure({"decode", 8, 0, 1});  // warm: pages, threads, buffers
    std::printf("%.3f\n", peer.joining(number(6), number(7), number(8), number(9)));
  } else if (kind == "beside") {
    Peer peer(argv[1], threads, flash, repack, number(7) + 256, number(6) + 1);
    peer.beside(number(6), number(7), number(8));
  } else {
    const Cell cell{kind, number(6), number(7), number(8)};
    Peer peer(argv[1], threads, flash, repack, std::max(kChunk, (cell.depth + cell.n + 255) / 256 * 256),
              cell.batch);
    peer.measure({"decode", 8, 0, 1});
    std::printf("%.3f\n", peer.measure(cell));
  }
}
