#include "train/micro_batch.hpp"

#include "ops/loss.hpp"

#include <torch/types.h>

#include <algorithm>
#include <type_traits>

namespace sluice {
namespace {

/// Some rows of `values` [n, width] on `device`; no copy is made if that is the CPU.
template <class T>
at::Tensor rows_of(const std::vector<T>& values, std::int64_t width, Range rows, at::Device device) {
  using Element = std::conditional_t<std::is_enum_v<T>, std::uint8_t, T>;
  return torch::from_blob(const_cast<T*>(values.data()), {std::ssize(values) / width, width},
                          c10::CppTypeToScalarType<Element>::value)
      .narrow(0, rows.begin, rows.count())
      .to(device);
}

at::Scalar mark_of(TokenMark mark) { return static_cast<int>(mark); }

/// Makes every token of a chosen answer's document, but its first, a target of the micro-batch whose first
/// sequence is `first`.
void add_chosen_prompts(const Batch& batch, std::int64_t first, const at::Tensor& ids, MicroBatch& added) {
  for (const PreferencePair& pair : batch.pairs) {
    const std::int64_t row = pair.sequence - first, begin = pair.chosen.begin, count = pair.chosen.count();
    if (row < 0 || row >= added.targets.size(0)) continue;
    added.targets[row].narrow(0, begin, count).copy_(ids[row].narrow(0, begin + 1, count));
  }
}

/// The teacher's distributions of the targets of sequences [first, first + count).
ops::TeacherTokens teacher_of(const Batch& batch, std::int64_t first, std::int64_t count, at::Device device) {
  const Range rows{first * batch.length, (first + count) * batch.length};
  const TeacherRows& teacher = batch.teacher;
  return {.ids = rows_of(teacher.ids, teacher.width, rows, device),
          .weights = rows_of(teacher.weights, teacher.width, rows, device),
          .rest = rows_of(teacher.rest, 1, rows, device).flatten(),
          .temperature = batch.teacher_facts.temperature};
}

}  // namespace

std::vector<MicroBatch> split_batch(const Batch& batch, std::int64_t sequences, at::Device device,
                                    ChosenPrompts prompts) {
  std::vector<MicroBatch> micro_batches;
  for (std::int64_t first = 0; first < batch.sequences; first += sequences) {
    const std::int64_t count = std::min(sequences, batch.sequences - first);
    const auto tokens_of = [&, rows = Range{first, first + count}](const auto& values) {
      return rows_of(values, batch.length + 1, rows, device);
    };
    const at::Tensor ids = tokens_of(batch.ids);
    MicroBatch& added = micro_batches.emplace_back();
    added.inputs = ids.narrow(1, 0, batch.length).contiguous();
    added.targets = ids.narrow(1, 1, batch.length).contiguous();
    if (!batch.places.empty()) added.places = tokens_of(batch.places).narrow(1, 1, batch.length).flatten();
    if (batch.teacher.width > 0) added.teacher = teacher_of(batch, first, count, device);
    if (batch.marks.empty()) continue;
    const at::Tensor marks = tokens_of(batch.marks);
    if (batch.separates_documents) {
      const at::Tensor inputs = marks.narrow(1, 0, batch.length);
      const at::Tensor padding = inputs.eq(mark_of(TokenMark::kPadding));
      // Each token of padding is a document of its own.
      added.documents =
          ops::documents_from(inputs.eq(mark_of(TokenMark::kBegins)).logical_or_(padding).to(at::kByte));
      if (batch.global_padding > 0) added.counted = padding.logical_not().flatten();
    }
    added.targets = added.targets.masked_fill(marks.narrow(1, 1, batch.length) != 0, ops::kNoTarget);
    if (prompts == ChosenPrompts::kLearnt) add_chosen_prompts(batch, first, ids, added);
  }
  return micro_batches;
}

}  // namespace sluice
