// Many requests at once on one model: one forward call a step, in which prompts advance chunk by chunk and
// answers token by token.
//
// What a request gets depends on it alone: not on what else runs, when it came, how its prompt was cut, what
// the cache held, threads or speculation. docs/arithmetic.md is why.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include "base/clock.h"
#include "engine/drafter.h"
#include "engine/job.h"
#include "engine/mailbox.h"
#include "engine/prefix_cache.h"
#include "engine/request.h"
#include "model/forward.h"

namespace krafla {

struct EngineOptions {
  KvType kv = KvType::f16;
  std::size_t kv_bytes = PagePool::kNoLimit;       ///< of all sequences and the cache together
  std::size_t cache_bytes = std::size_t{1} << 30;  ///< of these, what is kept of ended requests at most
  std::size_t chunk = 256;                         ///< prompt tokens of a step in which no answer runs
  std::size_t mixed_chunk = 64;  ///< prompt tokens of a step with answers at most; fewer where they take long
  double mixed_seconds = 0.2;    ///< what a step with answers and prompts aims to take at most
  std::size_t checkpoint_every =
      512;                       ///< tokens between the places that windowed and linear layers can go back to
  std::size_t max_running = 64;  ///< answers that are computed at a time
  std::size_t max_waiting = 1024;     ///< requests that wait for a place
  BatchObserver* observer = nullptr;  ///< sees every matrix's input; then nothing is cached or drafted
  const Model* draft = nullptr;       ///< for Speculation::draft: the same vocabulary, all of its past kept
};

/// What the engine is doing; counts since it was made.
struct EngineStats {
  std::size_t running = 0, waiting = 0;           // requests
  std::size_t kv_used = 0, kv_limit = 0;          // bytes
  std::size_t cache_used = 0, cache_entries = 0;  // bytes, sequences
  std::size_t kv_memory = 0;                      // bytes taken from the system for pages
  std::uint64_t steps = 0, requests = 0, paused = 0;
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0;
};

class Engine {
 public:
  /// Model, tokenizer and context must outlive it; nobody else uses the context. ML_E_SHAPE for a draft model
  /// of another vocabulary; ML_E_UNSUPPORTED for one with windowed or linear layers.
  Engine(const Model& model, const Tokenizer& tokenizer, Context& context, const EngineOptions& options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Puts a request in line. Any thread. ML_E_ARG for a request outside its ranges (an empty prompt, an id
  /// outside the vocabulary, a prompt that leaves no room in the context); ML_E_MEMORY for one that the KV
  /// cache could never hold; ML_E_BUSY while max_waiting requests wait. `notify`: see Mailbox.
  RequestHandle submit(Request request, std::function<void()> notify = nullptr);

  /// One forward call, and all around it. False if there was nothing to do. One thread, the owner.
  bool step();
  /// Steps until it is asked to stop, and sleeps while there is nothing to do. Unfinished requests are
  /// cancelled at the end.
  void run(std::stop_token stop);

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const EngineOptions& options() const { return options_; }
  /// Any thread; as of the last step.
  EngineStats stats() const;

  /// For the owner, between steps: what is known of texts, to save or to restore it.
  PrefixCache& cache() { return cache_; }
  PagePool& pool() { return pool_; }

 private:
  /// A feed of the step.
  struct Planned {
    Job* job;
    Choice* choice;
    std::size_t first_token, tokens;  // in tokens_; the drafts come last
    std::size_t drafts;
    Wants wants;
    std::size_t rows() const { return wants == Wants::none ? 0 : wants == Wants::last ? 1 : tokens; }
  };
  using Jobs = std::deque<std::unique_ptr<Job>>;

  std::size_t positions_limit(const Request& request);
  std::size_t check(const Request& request);
  void take_submitted();
  void give_up_ended();
  void admit();
  bool make_room(std::size_t bytes);
  std::size_t bytes_to_start(const Job& job) const;

  void plan();
  bool plan_feed(Job& job, Choice& choice, std::size_t tokens);
  void plan_prompts(std::size_t budget);
  std::size_t mixed_budget() const;
  std::size_t next_place(const Job& job, const Choice& choice) const;
  void draft();
  void pause_youngest();

  bool run_batch();
  void measure_mixed_step(Clock::time_point start);
  void fail_youngest(ml_status status, const std::string& message);
  void fail_job(Job& job, ml_status status, const std::string& message);
  void read_results();
  void read_feed(const Planned& planned, const float* logits, int thread);
  void read_prompt_logprobs(const Planned& planned, const float* logits);
  void sample_answer(Job& job, Choice& choice, const float* logits, std::size_t drafts, int thread);
  void keep_checkpoints();
  void remove_ended();
  void end(Job& job, Choice& choice, Finish finish, ml_status status = ML_OK,
           const std::string& message = {});
  void update_stats();

  const Model& model_;
  const Tokenizer& tokenizer_;
  Context& context_;
  EngineOptions options_;
  PagePool pool_;
  PrefixCache cache_;
  Batch batch_;
  std::unique_ptr<DraftModel> draft_model_;

  Jobs running_, waiting_;  // in order of arrival
  std::vector<Planned> planned_;
  std::vector<std::int32_t> tokens_;  // of the step's feeds
  std::vector<Feed> feeds_;
  std::size_t planned_bytes_ = 0;  // pages that the planned feeds will take
  std::size_t turn_ = 0;           // whose prompt goes first
  double token_seconds_ = 0;       // of a token in the last steps with answers and prompts; 0: not known
  std::vector<float> logits_;
  std::vector<SampleScratch> scratch_;  // of each thread

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable_any submitted_;
  Jobs inbox_;
  std::size_t in_line_ = 0;  // requests in inbox_ and waiting_
  EngineStats stats_;
};

/// Runs one request to its end on an engine that has no thread of its own; `on_event` gets all its events.
/// ML_E_* as the request ends with.
Usage generate(Engine& engine, Request request, const std::function<void(const Event&)>& on_event);

}  // namespace krafla
