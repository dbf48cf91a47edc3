#include "engine/job.h"

#include <algorithm>

namespace krafla {

Choice::Choice(std::size_t i, const Request& request, const Tokenizer& tokenizer, PagePool& pool,
               PagePool* draft_pool)
    : index(i),
      ids(request.prompt),
      sequence(pool),
      counts(uses_penalties(request.sampling) ? tokenizer.vocab_size() : 0, request.sampling.penalty_window),
      stream(tokenizer, request),
      mask(request.make_mask ? request.make_mask(i) : nullptr),
      waits_for_prompt(i > 0) {
  if (uses_penalties(request.sampling)) counts.add(ids);
  if (draft_pool != nullptr && request.speculation == Speculation::draft)
    draft_sequence = std::make_unique<Sequence>(*draft_pool);
}

bool Job::all_ended() const {
  return std::all_of(choices.begin(), choices.end(), [](const Choice& choice) { return choice.ended; });
}

bool Job::is_given_up() {
  if (given_up) return true;
  if (mailbox->cancelled || (request.cancelled && request.cancelled()))
    given_up = Finish::cancelled;
  else if (request.deadline && Request::Clock::now() >= *request.deadline)
    given_up = Finish::deadline;
  return given_up.has_value();
}

}  // namespace krafla
