// A request while the engine works on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/answer_stream.h"
#include "engine/mailbox.h"
#include "engine/request.h"
#include "model/state/sequence.h"

namespace krafla {

/// One answer: a text that grows, and how much of it the model has read.
struct Choice {
  Choice(std::size_t i, const Request& request, const Tokenizer& tokenizer, PagePool& pool,
         PagePool* draft_pool);

  /// Tokens that the model has not read yet.
  std::size_t pending() const { return ids.size() - sequence.length(); }

  std::size_t index;
  std::vector<std::int32_t> ids;  // prompt and answer
  Sequence sequence;              // the first positions of ids
  TokenCounts counts;             // of ids, where a penalty is used
  AnswerStream stream;
  std::unique_ptr<TokenMask> mask;
  bool waits_for_prompt;  // until choice 0 has read it
  bool ended = false;
  std::vector<std::int32_t> drafts;          // guesses of what follows ids
  std::unique_ptr<Sequence> before;          // the sequence before the drafts, where it cannot be rewound
  std::unique_ptr<Sequence> draft_sequence;  // of the draft model
  std::vector<std::int32_t> draft_ids;       // at its positions
  std::size_t drafted = 0, accepted = 0;
};

struct Job {
  Job(Request r, std::shared_ptr<Mailbox> m, std::size_t l)
      : request(std::move(r)), mailbox(std::move(m)), limit(l) {}

  std::size_t prompt_size() const { return request.prompt.size(); }
  /// The prompt is read and the next token of the choice is all that is missing.
  bool is_answering(const Choice& choice) const {
    return !choice.ended && !choice.waits_for_prompt && choice.ids.size() > prompt_size() &&
           choice.pending() <= request.draft_tokens + 1;
  }
  bool is_reading(const Choice& choice) const {
    return !choice.ended && !choice.waits_for_prompt && !is_answering(choice);
  }
  bool all_ended() const;
  /// Whether the caller gave it up, or its time is over. Once true, it stays true.
  bool is_given_up();

  Request request;
  std::shared_ptr<Mailbox> mailbox;
  std::size_t limit;            // positions of prompt and answer
  std::vector<Choice> choices;  // made when it is taken from the inbox
  bool started = false;         // admitted once
  bool answers = false;         // the first token is there
  std::optional<Finish> given_up;
  Usage usage;
  Clock::time_point submitted = Clock::now(), start, first_token;
};

}  // namespace krafla
