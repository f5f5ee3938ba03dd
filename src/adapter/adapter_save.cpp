#include "adapter/adapter_save.hpp"

#include "adapter/peft_layout.hpp"
#include "base/boxes/transpose.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "comm/run_together.hpp"
#include "device/memory.hpp"
#include "io/file.hpp"
#include "io/staged_directory.hpp"

#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int kSaveTag = 27;
constexpr std::int64_t kSize = sizeof(float);

class AdapterSaver {
 public:
  /// Without a communicator this process has all values.
  AdapterSaver(Communicator* comm, const ParameterManifest& manifest, const ShardValues& values,
               std::int64_t chunk_bytes)
      : comm_(comm),
        manifest_(manifest),
        values_(values),
        chunk_(allocate(MemoryKind::kPrivate, chunk_bytes, "adapter staging")),
        packed_(allocate(MemoryKind::kPrivate, chunk_bytes, "adapter staging")) {}

  void create(const fs::path& target, const std::string& config, std::vector<PeftTensor>& tensors) {
    std::vector<SafetensorsEntry> entries;
    for (const PeftTensor& tensor : tensors) entries.push_back(tensor.entry);
    const std::string header = make_safetensors_header(entries, {{"format", "pt"}});
    for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].entry = entries[i];
    on_root([&] {
      staged_.emplace(target, comm_ == nullptr ? IfTaken::kRefuse : IfTaken::kNextName);
      write_text_file(staged_->path() / kPeftConfigFile, config);
      out_ = OutputFile::create(staged_->path() / kPeftWeightsFile);
      out_->write_at(0, std::as_bytes(std::span(header)));
    });
  }

  void write(const PeftTensor& tensor) {
    for_each_chunk(tensor, chunk_.bytes() / kSize, [&](Range elements) {
      if (rank() != 0) {
        send(tensor, elements);
      } else {
        collect(tensor, elements);
      }
      on_root([&] {
        fault_point("adapter.write", rank());
        out_->write_at(tensor.entry.begin + elements.begin * kSize,
                       {chunk_.data(), static_cast<std::size_t>(elements.count() * kSize)});
      });
    });
  }

  fs::path publish() {
    fs::path directory;
    on_root([&] {
      std::exchange(out_, std::nullopt)->close();
      directory = staged_->commit();
    });
    return directory;
  }

 private:
  [[nodiscard]] int rank() const { return comm_ == nullptr ? 0 : comm_->rank(); }
  [[nodiscard]] int size() const { return comm_ == nullptr ? 1 : comm_->size(); }
  void on_root(const std::function<void()>& step) const {
    if (comm_ == nullptr) return step();
    run_on_root(*comm_, step);
  }

  void for_each_move_of(const PeftTensor& tensor, int rank, Range elements,
                        const std::function<void(const Move&)>& visit) const {
    for_each_move(tensor, manifest_, values_.plan(), rank, elements, visit);
  }

  /// Packs the elements that this rank has, one run after the other; returns their number.
  std::int64_t pack(const PeftTensor& tensor, Range elements) {
    std::int64_t count = 0;
    for_each_move_of(tensor, values_.rank(), elements, [&](const Move& move) {
      const std::int64_t row = move.is_box() ? move.lines : move.count;
      for (std::int64_t i = 0; i * row < move.count; ++i, count += row)
        values_.read(move.arena + i * move.row_stride, row, DType::kFloat32, packed_.data() + count * kSize);
    });
    return count;
  }

  void send(const PeftTensor& tensor, Range elements) {
    if (const std::int64_t count = pack(tensor, elements); count > 0)
      comm_->send(packed_.data(), count * kSize, 0, kSaveTag).wait();
  }

  /// Puts the elements that a rank has packed to their places among `elements`.
  void unpack(const PeftTensor& tensor, int rank, Range elements) {
    const std::byte* packed = packed_.data();
    for_each_move_of(tensor, rank, elements, [&](const Move& move) {
      std::byte* const to = chunk_.data() + (move.file - elements.begin) * kSize;
      const std::int64_t bytes = move.count * kSize;
      if (move.is_box())
        transpose_elements({packed, DType::kFloat32, move.lines}, move.length(), move.lines,
                           {to, DType::kFloat32, move.line_stride});
      else
        std::memcpy(to, packed, static_cast<std::size_t>(bytes));
      packed += bytes;
    });
  }

  void collect(const PeftTensor& tensor, Range elements) {
    pack(tensor, elements);
    unpack(tensor, values_.rank(), elements);
    for (int other = 1; other < size(); ++other) {
      std::int64_t count = 0;
      for_each_move_of(tensor, other, elements, [&](const Move& move) { count += move.count; });
      if (count == 0) continue;
      comm_->receive(packed_.data(), count * kSize, other, kSaveTag).wait();
      unpack(tensor, other, elements);
    }
  }

  Communicator* comm_;
  const ParameterManifest& manifest_;
  const ShardValues& values_;
  MemoryBlock chunk_, packed_;
  std::optional<StagedDirectory> staged_;  ///< staged directory, on rank 0 alone
  std::optional<OutputFile> out_;
};

fs::path save_with(AdapterSaver& saver, const AdapterDescription& adapters, const ParameterManifest& manifest,
                   const fs::path& target, const AdapterSaveOptions& options) {
  std::vector<PeftTensor> tensors = peft_tensors(adapters, manifest, options.style);
  saver.create(target, peft_config_text(adapters, manifest, options.style, options.base_model), tensors);
  for (const PeftTensor& tensor : tensors) saver.write(tensor);
  return saver.publish();
}

}  // namespace

fs::path save_adapter(Communicator& comm, const AdapterDescription& adapters,
                      const ParameterManifest& manifest, const ShardValues& values, const fs::path& target,
                      const AdapterSaveOptions& options) {
  SLUICE_ASSERT(comm.size() == values.plan().world() && comm.rank() == values.rank(),
                "values of another plan");
  AdapterSaver saver(&comm, manifest, values, options.chunk_bytes);
  return save_with(saver, adapters, manifest, target, options);
}

void save_adapter(const AdapterDescription& adapters, const ParameterManifest& manifest,
                  const ShardValues& values, const fs::path& target, const AdapterSaveOptions& options) {
  SLUICE_ASSERT(values.plan().world() == 1, "the adapter's values are shared by {} ranks, expected one",
                values.plan().world());
  AdapterSaver saver(nullptr, manifest, values, options.chunk_bytes);
  save_with(saver, adapters, manifest, target, options);
}

}  // namespace sluice
