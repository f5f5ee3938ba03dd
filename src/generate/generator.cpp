#include "generate/generator.hpp"

#include "base/error.hpp"
#include "base/trace/recorder.hpp"
#include "comm/root_exchange.hpp"
#include "ops/buffers/host_values.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace sluice {
namespace {

/// A prompt, and its answer so far.
struct Sequence {
  std::size_t request = 0;
  TokenSampler sampler;
  std::vector<std::int64_t> tokens;  ///< tokens of the prompt, then of the answer
  std::int64_t prompt_tokens = 0;

  [[nodiscard]] std::int64_t answer_tokens() const { return std::ssize(tokens) - prompt_tokens; }
};

class Answering {
 public:
  Answering(CachedForward& forward, std::span<const GenerationRequest> requests,
            const GenerationOptions& options, const TokenListener& listener)
      : forward_(forward),
        requests_(requests),
        options_(options),
        listener_(listener),
        next_(static_cast<std::size_t>(forward.comm().rank())),
        slots_(static_cast<std::size_t>(forward.slots())) {}

  /// Collective over the communicator. Takes the newest tokens of this rank's sequences through the model,
  /// and chooses the next ones. Returns answers that are complete on this rank.
  [[nodiscard]] std::vector<Generation> pass();
  [[nodiscard]] bool is_done() const {
    return next_ >= requests_.size() &&
           std::ranges::none_of(slots_, [](const auto& s) { return s.has_value(); });
  }

 private:
  void fill_slots();
  [[nodiscard]] std::vector<NewTokens> new_tokens() const;
  /// Chooses the next token of a sequence; returns why the answer ends with it, if it does.
  [[nodiscard]] std::optional<Ending> extend(Sequence& sequence, std::span<float> logits) const;

  CachedForward& forward_;
  std::span<const GenerationRequest> requests_;
  const GenerationOptions& options_;
  const TokenListener& listener_;
  std::size_t next_;  ///< index of this rank's next prompt
  std::vector<std::optional<Sequence>> slots_;
};

void Answering::fill_slots() {
  for (std::size_t slot = 0; slot < slots_.size() && next_ < requests_.size(); ++slot) {
    if (slots_[slot]) continue;
    const GenerationRequest& request = requests_[next_];
    const std::int64_t tokens = std::ssize(request.prompt);
    SLUICE_ASSERT(tokens > 0 && tokens < forward_.positions(),
                  "a prompt of {} tokens does not fit {} positions", tokens, forward_.positions());
    if (options_.continues_sequences)
      forward_.keep_beginning(static_cast<std::int64_t>(slot), request.prompt);
    else
      forward_.clear(static_cast<std::int64_t>(slot));
    slots_[slot] = Sequence{next_, TokenSampler(options_.settings, request.number), request.prompt, tokens};
    next_ += static_cast<std::size_t>(forward_.comm().size());
  }
}

std::vector<NewTokens> Answering::new_tokens() const {
  std::vector<NewTokens> parts;
  std::int64_t left = options_.settings.prefill_tokens;
  for (std::size_t slot = 0; slot < slots_.size() && left > 0; ++slot) {
    if (!slots_[slot]) continue;
    const std::vector<std::int64_t>& tokens = slots_[slot]->tokens;
    const std::int64_t begin = forward_.length(static_cast<std::int64_t>(slot));
    const std::int64_t count = std::min(left, std::ssize(tokens) - begin);
    parts.push_back(
        {static_cast<std::int64_t>(slot), {tokens.begin() + begin, tokens.begin() + begin + count}});
    left -= count;
  }
  return parts;
}

std::optional<Ending> Answering::extend(Sequence& sequence, std::span<float> logits) const {
  const std::int64_t token = sequence.sampler.next(logits, sequence.tokens, sequence.answer_tokens());
  if (std::ranges::find(options_.end_tokens, token) != options_.end_tokens.end()) return Ending::kEndToken;
  sequence.tokens.push_back(token);
  if (listener_ && listener_(sequence.request, token)) return Ending::kStopped;
  if (sequence.answer_tokens() == options_.settings.max_tokens) return Ending::kMaxTokens;
  // The last token needs no position until another one follows it.
  if (std::ssize(sequence.tokens) > forward_.positions()) return Ending::kPositions;
  return std::nullopt;
}

std::vector<Generation> Answering::pass() {
  fill_slots();
  const std::vector<NewTokens> parts = new_tokens();
  const at::Tensor logits = forward_.append(parts);
  const trace::Span span(trace::Kind::kOperation, "choice of tokens");
  std::vector<Generation> done;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::optional<Sequence>& sequence = slots_[static_cast<std::size_t>(parts[i].slot)];
    if (forward_.length(parts[i].slot) < std::ssize(sequence->tokens))
      continue;  // more of the prompt follows
    std::vector<float> row = ops::host_values<float>(logits[static_cast<std::int64_t>(i)]);
    const std::optional<Ending> ending = extend(*sequence, row);
    if (!ending) continue;
    done.push_back({sequence->request,
                    {sequence->tokens.begin() + sequence->prompt_tokens, sequence->tokens.end()},
                    *ending});
    sequence.reset();
  }
  return done;
}

/// Encodes answers as numbers for a message: index, ending, number of tokens, and the tokens of each.
std::vector<std::int64_t> packed(std::span<const Generation> generations) {
  std::vector<std::int64_t> numbers;
  for (const Generation& generation : generations) {
    numbers.insert(numbers.end(),
                   {static_cast<std::int64_t>(generation.request),
                    static_cast<std::int64_t>(generation.ending), std::ssize(generation.tokens)});
    numbers.insert(numbers.end(), generation.tokens.begin(), generation.tokens.end());
  }
  return numbers;
}

void unpack(std::span<const std::int64_t> numbers, const GenerationConsumer& consumer) {
  while (!numbers.empty()) {
    const auto count = static_cast<std::size_t>(numbers[2]);
    const std::span<const std::int64_t> tokens = numbers.subspan(3, count);
    consumer({static_cast<std::size_t>(numbers[0]),
              {tokens.begin(), tokens.end()},
              static_cast<Ending>(numbers[1])});
    numbers = numbers.subspan(3 + count);
  }
}

}  // namespace

bool generate(CachedForward& forward, std::span<const GenerationRequest> requests,
              const GenerationOptions& options, const TokenListener& listener,
              const GenerationConsumer& consumer, const StopQuestion& stops) {
  Answering answering(forward, requests, options, listener);
  for (bool goes_on = !requests.empty(); goes_on;) {
    const std::int64_t pass = forward.passes() + 1;
    if (options.passes.before) options.passes.before(pass);
    std::vector<Generation> done;
    std::array<std::int64_t, 3> counts{};
    {
      const trace::Span span(trace::Kind::kPass, "pass", pass);
      done = answering.pass();
      counts = {answering.is_done() ? 0 : 1, std::ssize(done), stops && stops() ? 1 : 0};
      forward.comm().all_reduce_sum(std::span(counts));
    }
    if (options.passes.after) options.passes.after(pass);
    const auto [unfinished, found, stopping] = counts;
    goes_on = unfinished > 0;
    if (found > 0) {
      const std::vector<std::int64_t> own = packed(done);
      unpack(gather_to_root(forward.comm(), std::span<const std::int64_t>(own)), consumer);
    }
    if (goes_on && stopping > 0) return false;
  }
  return true;
}

}  // namespace sluice
