#include "engine/engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace krafla {
namespace {

/// The next prompt of a conversation may differ from this one in how the answer is opened: so many tokens at
/// the end.
constexpr std::size_t kOpening = 16;

/// Guesses that are checked in one call at most: each needs a row of logits.
constexpr std::size_t kMostDrafts = 64;

/// Bytes that sequences of `length` positions take, with a page to spare for copies.
std::size_t bytes_of(PagePool& pool, std::size_t length, std::size_t sequences) {
  const KvLayout& layout = pool.layout();
  std::size_t spare = 0;
  for (const auto group : {KvLayout::full, KvLayout::windowed, KvLayout::linear})
    spare += layout.page_bytes(group);
  return sequences * (Sequence(pool).bytes_for(length) + spare);
}

}  // namespace

Engine::Engine(const Model& model, const Tokenizer& tokenizer, Context& context, const EngineOptions& options)
    : model_(model),
      tokenizer_(tokenizer),
      context_(context),
      options_(options),
      pool_(KvLayout(model.config(), options.kv), options.kv_bytes),
      cache_(pool_, options.observer == nullptr ? options.cache_bytes : 0),
      scratch_(static_cast<std::size_t>(context.threads.size())) {
  batch_.observer = options.observer;
  if (options.draft == nullptr) return;
  const Model& draft = *options.draft;
  if (draft.config().vocab != model.config().vocab)
    fail(ML_E_SHAPE, "{}: a draft model's vocab is {}; allowed: {}, as in {}", draft.path(),
         draft.config().vocab, model.config().vocab, model.path());
  draft_model_ = std::make_unique<DraftModel>(draft, context, options.kv, options.chunk);
  if (!draft_model_->pool().layout().keeps_past())
    fail(ML_E_UNSUPPORTED,
         "{}: a draft model with sliding windows or linear layers cannot go back from wrong guesses",
         draft.path());
}

Engine::~Engine() {
  for (Jobs* jobs : {&running_, &waiting_, &inbox_})
    for (const auto& job : *jobs) job->mailbox->cancelled = true;
  take_submitted();
  give_up_ended();
}

// ---- submitting ----

/// The longest text that the request's context and the KV cache have room for.
std::size_t Engine::positions_limit(const Request& request) {
  const std::size_t max_seq = model_.config().max_seq;
  std::size_t most = request.context != 0 ? request.context : max_seq;
  if (pool_.limit() == PagePool::kNoLimit) return most;
  std::size_t least = 0;
  while (least < most) {  // the largest that fits
    const std::size_t middle = least + (most - least + 1) / 2;
    if (bytes_of(pool_, middle, request.choices) <= pool_.limit())
      least = middle;
    else
      most = middle - 1;
  }
  return most;
}

/// Returns the positions limit.
std::size_t Engine::check(const Request& request) {
  const std::size_t max_seq = model_.config().max_seq, vocab = tokenizer_.vocab_size();
  const std::size_t context = request.context != 0 ? request.context : max_seq;
  if (context > max_seq)
    fail(ML_E_ARG, "a context of {} was asked for; the model's max_seq is {}", context, max_seq);
  if (request.prompt.empty()) fail(ML_E_ARG, "the prompt is empty");
  for (const std::int32_t id : request.prompt)
    if (id < 0 || static_cast<std::size_t>(id) >= model_.config().vocab)
      fail(ML_E_ARG, "token id {} is not in the model's vocabulary, 0 to {}", id, model_.config().vocab - 1);
  if (request.prompt.size() >= context)
    fail(ML_E_ARG, "the prompt has {} tokens; the context of {} leaves no room for an answer",
         request.prompt.size(), context);
  if (request.choices == 0 || request.choices > options_.max_running)
    fail(ML_E_ARG, "{} choices were asked for; allowed: 1 to {}", request.choices, options_.max_running);
  if (request.max_tokens == 0) fail(ML_E_ARG, "max_tokens is 0; an answer has at least 1");
  if (request.draft_tokens > kMostDrafts)
    fail(ML_E_ARG, "draft_tokens is {}; allowed: 0 to {}", request.draft_tokens, kMostDrafts);
  if (request.prompt_logprobs && !request.logprobs) fail(ML_E_ARG, "prompt_logprobs needs logprobs");
  if (request.speculation == Speculation::draft && draft_model_ == nullptr)
    fail(ML_E_ARG, "speculation with a draft model was asked for; there is none");
  check_sampling_options(request.sampling, vocab);
  const std::size_t limit = positions_limit(request);
  if (request.prompt.size() >= limit)
    fail(ML_E_MEMORY, "the prompt has {} tokens; the KV cache of {} bytes holds {} for each of {} choices",
         request.prompt.size(), pool_.limit(), limit, request.choices);
  return limit;
}

RequestHandle Engine::submit(Request request, std::function<void()> notify) {
  const std::size_t limit = check(request);
  auto mailbox = std::make_shared<Mailbox>();
  mailbox->notify = std::move(notify);
  auto job = std::make_unique<Job>(std::move(request), mailbox, limit);
  PagePool* const draft_pool = draft_model_ ? &draft_model_->pool() : nullptr;
  job->choices.reserve(job->request.choices);
  for (std::size_t i = 0; i < job->request.choices; ++i)
    job->choices.emplace_back(i, job->request, tokenizer_, pool_, draft_pool);
  {
    const std::lock_guard lock(mutex_);
    if (in_line_ >= options_.max_waiting)
      fail(ML_E_BUSY, "{} requests wait already; that is as many as may", in_line_);
    inbox_.push_back(std::move(job));
    ++in_line_;
    ++stats_.requests;
  }
  submitted_.notify_one();
  return RequestHandle(std::move(mailbox));
}

// ---- a step ----

bool Engine::step() {
  take_submitted();
  give_up_ended();
  admit();
  plan();
  const bool worked = !planned_.empty();
  const auto start = Clock::now();
  if (worked && run_batch()) {
    keep_checkpoints();
    read_results();
    measure_mixed_step(start);
  }
  remove_ended();
  update_stats();
  return worked;
}

void Engine::run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    if (step()) continue;
    std::unique_lock lock(mutex_);
    submitted_.wait(lock, stop, [&] { return !inbox_.empty(); });
  }
  for (Jobs* jobs : {&running_, &waiting_})
    for (const auto& job : *jobs) job->mailbox->cancelled = true;
  give_up_ended();
}

void Engine::take_submitted() {
  const std::lock_guard lock(mutex_);
  std::move(inbox_.begin(), inbox_.end(), std::back_inserter(waiting_));
  inbox_.clear();
}

void Engine::give_up_ended() {
  for (Jobs* jobs : {&running_, &waiting_})
    for (const auto& job : *jobs) {
      if (!job->is_given_up()) continue;
      for (Choice& choice : job->choices)
        if (!choice.ended) end(*job, choice, *job->given_up);
    }
  remove_ended();
}

/// Whether so many bytes of pages can be taken, after forgetting what the cache holds if need be.
bool Engine::make_room(std::size_t bytes) {
  while (bytes > pool_.available())
    if (!cache_.evict()) return false;
  return true;
}

std::size_t Engine::bytes_to_start(const Job& job) const {
  std::size_t bytes = 0;
  for (const Choice& choice : job.choices)
    if (!choice.ended && !choice.waits_for_prompt)
      bytes += choice.sequence.bytes_for(choice.pending() + kPage);
  return bytes;
}

/// The first in line start, as long as there are places and memory: nobody overtakes.
void Engine::admit() {
  std::size_t choices = 0;
  for (const auto& job : running_) choices += job->choices.size();
  while (!waiting_.empty()) {
    Job& job = *waiting_.front();
    if (choices + job.choices.size() > options_.max_running && choices > 0) return;
    for (Choice& choice : job.choices)
      if (job.request.use_cache && !job.request.prompt_logprobs && !choice.ended &&
          !choice.waits_for_prompt && choice.sequence.length() == 0)
        choice.sequence = cache_.find(choice.ids, choice.ids.size() - 1);
    if (!make_room(bytes_to_start(job)) && !running_.empty()) {
      for (Choice& choice : job.choices) choice.sequence = Sequence(pool_);
      return;
    }
    choices += job.choices.size();
    if (!job.started) {
      job.started = true;
      job.start = Clock::now();
      job.usage.queue_seconds = seconds_between(job.submitted, job.start);
      job.usage.prompt_tokens = job.prompt_size();
      job.usage.cached_tokens = job.choices.front().sequence.length();
    }
    const auto place = std::find_if(running_.begin(), running_.end(),
                                    [&](const auto& other) { return other->submitted > job.submitted; });
    running_.insert(place, std::move(waiting_.front()));
    waiting_.pop_front();
    const std::lock_guard lock(mutex_);
    --in_line_;
  }
}

// ---- planning ----

/// Chooses the feeds of the step: answers first, then prompts with the tokens that are left. A request
/// waits while there is no room for its pages. If all wait, the youngest gives its pages back and is computed
/// anew later.
void Engine::plan() {
  for (;;) {
    planned_.clear();
    tokens_.clear();
    planned_bytes_ = 0;
    draft();
    for (const auto& job : running_)
      for (Choice& choice : job->choices)
        if (job->is_answering(choice)) plan_feed(*job, choice, choice.pending());
    plan_prompts(planned_.empty() ? options_.chunk : mixed_budget());
    if (!planned_.empty() || running_.empty()) return;
    if (running_.size() > 1)
      pause_youngest();
    else
      fail_job(*running_.front(), ML_E_MEMORY, "the KV cache has no room for the request");
  }
}

/// Prompt tokens beside answers: as many as the time allows that the last ones took, at least one row block
/// of the kernels.
std::size_t Engine::mixed_budget() const {
  constexpr double kLeast = 8;
  const auto most = static_cast<double>(options_.mixed_chunk);
  if (token_seconds_ <= 0 || token_seconds_ * most <= options_.mixed_seconds) return options_.mixed_chunk;
  return static_cast<std::size_t>(std::min(most, std::max(kLeast, options_.mixed_seconds / token_seconds_)));
}

/// The budget is shared evenly by the prompts, but a share is never so small that matrices are read for few
/// rows. Whose prompt goes first changes from step to step.
void Engine::plan_prompts(std::size_t budget) {
  constexpr std::size_t kLeast = 32;
  std::vector<std::pair<Job*, Choice*>> reading;
  for (const auto& job : running_)
    for (Choice& choice : job->choices)
      if (job->is_reading(choice)) reading.emplace_back(job.get(), &choice);
  if (reading.empty()) return;
  ++turn_;
  for (std::size_t i = 0; i < reading.size() && budget > 0; ++i) {
    const auto [job, choice] = reading[(turn_ + i) % reading.size()];
    const std::size_t share = std::max(budget / (reading.size() - i), std::min(kLeast, budget));
    const std::size_t tokens = std::min(next_place(*job, *choice) - choice->sequence.length(), share);
    if (plan_feed(*job, *choice, tokens)) budget -= tokens;
  }
}

/// How far a prompt is read at most in one step: to its end, or to a place that later requests may go back
/// to.
std::size_t Engine::next_place(const Job& job, const Choice& choice) const {
  const std::size_t length = choice.sequence.length();
  std::size_t place = choice.ids.size();
  if (pool_.layout().keeps_past()) return place;
  place = std::min(place, (length / options_.checkpoint_every + 1) * options_.checkpoint_every);
  if (job.prompt_size() > kOpening && length < job.prompt_size() - kOpening)
    place = std::min(place, job.prompt_size() - kOpening);
  return length < job.prompt_size() ? std::min(place, job.prompt_size()) : place;
}

/// False if there is no room for its pages.
bool Engine::plan_feed(Job& job, Choice& choice, std::size_t tokens) {
  constexpr std::size_t kMostRows = 64;  // whose logits are held at a time
  const std::size_t length = choice.sequence.length();
  const bool wants_prompt = job.request.prompt_logprobs && length < job.prompt_size();
  if (wants_prompt) tokens = std::min(tokens, kMostRows);
  const bool to_end = length + tokens == choice.ids.size();
  const std::size_t drafts = to_end ? choice.drafts.size() : 0;
  choice.before.reset();
  if (drafts > 0 && pool_.layout().has(KvLayout::linear))
    choice.before = std::make_unique<Sequence>(choice.sequence);
  // Rolling back may take a copy of the recurrent state; `before` shares pages, which are then copied.
  const std::size_t bytes = choice.sequence.bytes_for(tokens + drafts, true);
  if (!make_room(planned_bytes_ + bytes)) {
    choice.before.reset();
    return false;
  }
  planned_bytes_ += bytes;
  Planned planned{&job, &choice, tokens_.size(), tokens + drafts, drafts, Wants::none};
  if (wants_prompt || drafts > 0)
    planned.wants = Wants::all;
  else if (to_end)
    planned.wants = Wants::last;
  const auto first = choice.ids.begin() + static_cast<std::ptrdiff_t>(length);
  tokens_.insert(tokens_.end(), first, first + static_cast<std::ptrdiff_t>(tokens));
  tokens_.insert(tokens_.end(), choice.drafts.begin(),
                 choice.drafts.begin() + static_cast<std::ptrdiff_t>(drafts));
  planned_.push_back(planned);
  return true;
}

/// Guesses ahead for the answers that want it.
void Engine::draft() {
  std::vector<Choice*> by_model;
  std::vector<std::size_t> most_of;
  for (const auto& job : running_)
    for (Choice& choice : job->choices) {
      choice.drafts.clear();
      const Request& request = job->request;
      if (request.speculation == Speculation::none || options_.observer != nullptr) continue;
      if (!job->is_answering(choice) || choice.pending() != 1) continue;
      const std::size_t answer = choice.ids.size() - job->prompt_size();
      const std::size_t most = std::min(
          {request.draft_tokens, job->limit - choice.ids.size() - 1, request.max_tokens - answer - 1});
      if (request.speculation == Speculation::lookup) {
        choice.drafts = look_up_drafts(choice.ids, most);
      } else {
        by_model.push_back(&choice);
        most_of.push_back(most);
      }
    }
  if (!by_model.empty()) draft_model_->propose(by_model, most_of);
}

/// The youngest request gives its pages back and waits in line again; what it has said stands.
void Engine::pause_youngest() {
  std::unique_ptr<Job> job = std::move(running_.back());
  running_.pop_back();
  for (Choice& choice : job->choices) choice.sequence = Sequence(pool_);
  waiting_.push_front(std::move(job));
  const std::lock_guard lock(mutex_);
  ++in_line_;
  ++stats_.paused;
}

// ---- computing ----

/// False if the call failed or was given up: then nothing has changed but the requests that ended by it.
bool Engine::run_batch() {
  feeds_.clear();
  bool only_prompts = true;
  for (const Planned& p : planned_) {
    feeds_.push_back({&p.choice->sequence, std::span(tokens_).subspan(p.first_token, p.tokens), p.wants});
    only_prompts = only_prompts && p.job->is_reading(*p.choice);
  }
  batch_.cancelled = nullptr;
  if (only_prompts && options_.observer == nullptr)
    batch_.cancelled = [this] {
      return std::all_of(planned_.begin(), planned_.end(),
                         [](const Planned& p) { return p.job->is_given_up(); });
    };
  try {
    return forward(model_, context_, batch_, feeds_);
  } catch (const Error& e) {
    fail_youngest(e.status(), e.what());
  } catch (const std::bad_alloc&) {
    fail_youngest(ML_E_MEMORY, "not enough memory for a forward call");
  }
  return false;
}

/// Averages over a few steps, since a machine's speed varies.
void Engine::measure_mixed_step(Clock::time_point start) {
  std::size_t prompt_tokens = 0;
  bool answers = false;
  for (const Planned& p : planned_) {
    const bool reads = p.choice->sequence.length() <= p.job->prompt_size();
    prompt_tokens += reads ? p.tokens : 0;
    answers = answers || !reads;
  }
  if (!answers || prompt_tokens == 0) return;
  const double now = seconds_since(start) / static_cast<double>(prompt_tokens);
  token_seconds_ = token_seconds_ > 0 ? 0.5 * (token_seconds_ + now) : now;
}

void Engine::fail_youngest(ml_status status, const std::string& message) {
  const auto youngest = std::max_element(
      planned_.begin(), planned_.end(),
      [](const Planned& a, const Planned& b) { return a.job->submitted < b.job->submitted; });
  fail_job(*youngest->job, status, message);
}

void Engine::fail_job(Job& job, ml_status status, const std::string& message) {
  for (Choice& choice : job.choices)
    if (!choice.ended) end(job, choice, Finish::error, status, message);
}

/// What later requests can go on from: the end of a prompt, and for layers that keep no past places within
/// it.
void Engine::keep_checkpoints() {
  for (const Planned& p : planned_) {
    const std::size_t length = p.choice->sequence.length(), prompt = p.job->prompt_size();
    if (p.drafts > 0 || length > prompt) continue;
    const bool place = !pool_.layout().keeps_past() &&
                       (length % options_.checkpoint_every == 0 || length + kOpening == prompt);
    if (p.job->request.use_cache && (place || length == prompt))
      cache_.insert(std::span(p.choice->ids).first(length), p.choice->sequence);
    if (!p.job->request.report_progress) continue;
    Event event(Event::Kind::progress);
    event.positions = length;
    p.job->mailbox->put(std::move(event));
  }
}

/// Feeds whose logits fit in the buffer together are read in parallel.
void Engine::read_results() {
  constexpr std::size_t kMostRows = 64;
  const std::size_t vocab = model_.config().vocab;
  std::size_t first_row = 0;
  for (std::size_t begin = 0; begin < planned_.size();) {
    std::size_t end = begin, rows = 0;
    std::vector<std::size_t> row_of;
    while (end < planned_.size() && (end == begin || rows + planned_[end].rows() <= kMostRows)) {
      row_of.push_back(rows);
      rows += planned_[end++].rows();
    }
    if (rows > 0) {
      if (logits_.size() < rows * vocab) logits_.resize(rows * vocab);
      classify(model_, context_, batch_, first_row, rows, logits_.data());
      context_.threads.run(end - begin, [&](std::size_t i, int thread) {
        read_feed(planned_[begin + i], logits_.data() + row_of[i] * vocab, thread);
      });
    }
    first_row += rows;
    begin = end;
  }
}

/// What the logits of one feed say. An error ends this request alone.
void Engine::read_feed(const Planned& p, const float* logits, int thread) {
  if (p.wants == Wants::none) return;
  Job& job = *p.job;
  const std::size_t vocab = model_.config().vocab;
  try {
    if (job.request.prompt_logprobs) read_prompt_logprobs(p, logits);
    const std::size_t read = p.choice->sequence.length() - p.drafts;
    if (read < p.choice->ids.size()) return;
    const float* const last = logits + (p.rows() - 1 - p.drafts) * vocab;
    const bool prompt_end = read == job.prompt_size();
    for (Choice& other : job.choices)
      if (prompt_end && other.waits_for_prompt) {
        other.sequence = p.choice->sequence;
        other.waits_for_prompt = false;
        sample_answer(job, other, last, 0, thread);
      }
    sample_answer(job, *p.choice, last, p.drafts, thread);
  } catch (const Error& e) {
    fail_job(job, e.status(), e.what());
  } catch (const std::bad_alloc&) {
    fail_job(job, ML_E_MEMORY, "not enough memory");
  }
}

void Engine::read_prompt_logprobs(const Planned& p, const float* logits) {
  const std::vector<std::int32_t>& prompt = p.job->request.prompt;
  const std::size_t vocab = model_.config().vocab, first = p.choice->sequence.length() - p.tokens;
  Event event(Event::Kind::prompt);
  for (std::size_t i = 0; i < p.tokens && first + i + 1 < prompt.size(); ++i)
    event.logprobs.push_back(
        token_logprobs(std::span(logits + i * vocab, std::min(vocab, tokenizer_.vocab_size())),
                       prompt[first + i + 1], *p.job->request.logprobs));
  if (!event.logprobs.empty()) p.job->mailbox->put(std::move(event));
}

/// Takes the next token, and as many more as the drafts have guessed. logits: a row for the choice's last
/// token and for each draft.
void Engine::sample_answer(Job& job, Choice& choice, const float* logits, std::size_t drafts, int thread) {
  const Request& request = job.request;
  const std::size_t vocab = model_.config().vocab, known = std::min(vocab, tokenizer_.vocab_size());
  Event event(Event::Kind::tokens, choice.index);
  std::size_t accepted = 0;
  std::optional<Finish> finish;
  for (std::size_t row = 0; row <= drafts && !finish; ++row) {
    const std::span<const float> candidates(logits + row * vocab, known);
    const DrawCounter counter{.position = static_cast<std::uint32_t>(choice.ids.size()),
                              .choice = static_cast<std::uint32_t>(choice.index)};
    const std::int32_t id = sample(request.sampling, scratch_[static_cast<std::size_t>(thread)], candidates,
                                   choice.counts, counter, choice.mask.get());
    if (std::find(request.end_ids.begin(), request.end_ids.end(), id) != request.end_ids.end()) {
      finish = Finish::stop;
      break;
    }
    choice.ids.push_back(id);
    if (uses_penalties(request.sampling)) choice.counts.add(id);
    if (choice.mask) choice.mask->accept(id);
    event.ids.push_back(id);
    if (request.logprobs) event.logprobs.push_back(token_logprobs(candidates, id, *request.logprobs));
    choice.stream.push(id, event);
    if (choice.stream.stopped())
      finish = Finish::stop;
    else if (choice.ids.size() - job.prompt_size() >= request.max_tokens || choice.ids.size() >= job.limit)
      finish = Finish::length;
    if (row == drafts || id != choice.drafts[row]) break;
    ++accepted;
  }
  choice.drafted += drafts;
  choice.accepted += accepted;
  if (accepted < drafts) {
    const std::size_t right = choice.sequence.length() - (drafts - accepted);
    if (choice.sequence.can_rewind(right))
      choice.sequence.rewind(right);
    else
      choice.sequence = *choice.before;
  }
  choice.before.reset();
  choice.drafts.clear();
  job.mailbox->put(std::move(event));
  if (finish) end(job, choice, *finish);
}

// ---- ending ----

/// The choice's last events.
void Engine::end(Job& job, Choice& choice, Finish finish, ml_status status, const std::string& message) {
  choice.ended = true;
  Event last(Event::Kind::tokens, choice.index);
  choice.stream.finish(last);
  if (!last.text.empty() || !last.parts.empty()) job.mailbox->put(std::move(last));
  Event event(Event::Kind::finished, choice.index);
  event.finish = finish;
  event.status = status;
  event.message = message;
  job.mailbox->put(std::move(event));
}

void Engine::remove_ended() {
  const auto now = Clock::now();
  for (Jobs* jobs : {&running_, &waiting_})
    for (std::size_t i = 0; i < jobs->size();) {
      Job& job = *(*jobs)[i];
      if (!job.answers && job.started && job.choices.front().ids.size() > job.prompt_size()) {
        job.answers = true;
        job.first_token = now;
      }
      if (!job.all_ended()) {
        ++i;
        continue;
      }
      Usage& usage = job.usage;
      for (Choice& choice : job.choices) {
        usage.answer_tokens += choice.ids.size() - job.prompt_size();
        usage.drafted_tokens += choice.drafted;
        usage.accepted_tokens += choice.accepted;
        if (job.request.use_cache &&
            choice.sequence.length() <= choice.ids.size())  // not after an error amid drafts
          cache_.insert(std::span(choice.ids).first(choice.sequence.length()), choice.sequence);
      }
      if (job.started) usage.prompt_seconds = seconds_between(job.start, job.answers ? job.first_token : now);
      if (job.answers) usage.answer_seconds = seconds_between(job.first_token, now);
      Event event(Event::Kind::done);
      event.usage = usage;
      {
        const std::lock_guard lock(mutex_);
        if (jobs == &waiting_) --in_line_;
        stats_.prompt_tokens += usage.prompt_tokens;
        stats_.cached_tokens += usage.cached_tokens;
        stats_.answer_tokens += usage.answer_tokens;
      }
      job.mailbox->put(std::move(event));
      jobs->erase(jobs->begin() + static_cast<std::ptrdiff_t>(i));
    }
}

void Engine::update_stats() {
  const std::lock_guard lock(mutex_);
  stats_.running = running_.size();
  stats_.waiting = in_line_;
  stats_.kv_used = pool_.in_use();
  stats_.kv_limit = pool_.limit();
  stats_.kv_memory = pool_.bytes();
  stats_.cache_used = cache_.bytes();
  stats_.cache_entries = cache_.size();
  if (!planned_.empty()) ++stats_.steps;
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

Usage generate(Engine& engine, Request request, const std::function<void(const Event&)>& on_event) {
  RequestHandle handle = engine.submit(std::move(request));
  Usage usage;
  Event failure;
  for (bool done = false; !done;) {
    engine.step();
    while (const std::optional<Event> event = handle.next()) {
      if (event->kind == Event::Kind::finished && event->finish == Finish::error) failure = *event;
      done = event->kind == Event::Kind::done;
      if (done) usage = event->usage;
      on_event(*event);
    }
  }
  if (failure.status != ML_OK) fail(failure.status, "{}", failure.message);
  return usage;
}

}  // namespace krafla
