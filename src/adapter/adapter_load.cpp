#include "adapter/adapter_load.hpp"

#include "base/boxes/transpose.hpp"
#include "base/error.hpp"
#include "base/fault.hpp"
#include "comm/run_together.hpp"
#include "device/memory.hpp"
#include "io/file.hpp"
#include "shard/initial_values.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

namespace sluice {
namespace {

/// Opens an adapter's file without verification. Error(kBadData) if it has another length.
ReadAdapterFile open_as_it_lies(const AdapterFile& file) {
  const auto in = std::make_shared<const InputFile>(InputFile::open(file.path));
  if (in->size_bytes() != file.bytes)
    fail({ExitCode::kBadData, "weights.changed"}, "{}: has {} bytes, and had {} when its header was read",
         file.path.string(), in->size_bytes(), file.bytes);
  return [in](std::int64_t offset, std::span<std::byte> out) { in->read_at(offset, out); };
}

class AdapterLoader {
 public:
  AdapterLoader(Communicator& comm, const PeftAdapter& adapter, const ParameterManifest& manifest,
                ShardArena& arena, std::int64_t chunk_bytes)
      : comm_(comm),
        adapter_(adapter),
        manifest_(manifest),
        arena_(arena),
        chunk_(allocate(MemoryKind::kPrivate, chunk_bytes, "adapter staging")) {}

  void load(const PeftTensor& tensor) {
    for_each_chunk(tensor, chunk_.bytes() / size_of(tensor.entry.dtype), [&](Range elements) {
      share(tensor, elements);
      for_each_move(tensor, manifest_, arena_.plan(), arena_.rank(), elements,
                    [&](const Move& move) { place(tensor, move, elements.begin); });
    });
  }

 private:
  void open(int number) {
    if (number == open_) return;
    const AdapterFile& file = adapter_.files[static_cast<std::size_t>(number)];
    read_ = adapter_.open ? adapter_.open(file) : open_as_it_lies(file);
    open_ = number;
  }

  void share(const PeftTensor& tensor, Range elements) {
    const std::int64_t size = size_of(tensor.entry.dtype);
    const std::int64_t bytes = elements.count() * size;
    run_on_root(comm_, [&] {
      fault_point("adapter.read", comm_.rank());
      open(tensor.file);
      read_(tensor.entry.begin + elements.begin * size, {chunk_.data(), static_cast<std::size_t>(bytes)});
    });
    comm_.broadcast(chunk_.data(), bytes, 0).wait();
  }

  void place(const PeftTensor& tensor, const Move& move, std::int64_t chunk_begin) const {
    const DType file = tensor.entry.dtype;
    const std::byte* source = chunk_.data() + (move.file - chunk_begin) * size_of(file);
    std::byte* target = arena_.data() + move.arena * size_of(arena_.dtype());
    if (!move.is_box()) return convert_elements(source, file, target, arena_.dtype(), move.count);
    transpose_elements({source, file, move.line_stride}, move.lines, move.length(),
                       {target, arena_.dtype(), move.row_stride});
  }

  Communicator& comm_;
  const PeftAdapter& adapter_;
  const ParameterManifest& manifest_;
  ShardArena& arena_;
  MemoryBlock chunk_;
  ReadAdapterFile read_;  ///< reads the file that is open on rank 0
  int open_ = -1;         ///< index of the open file; -1: none
};

}  // namespace

void load_adapter(Communicator& comm, const PeftAdapter& adapter, const ParameterManifest& manifest,
                  ShardArena& arena, std::int64_t chunk_bytes) {
  fill_adapters(arena, manifest, [](const TensorInfo&, std::int64_t, std::int64_t count, float* out) {
    std::fill(out, out + count, 0.0f);
  });
  AdapterLoader loader(comm, adapter, manifest, arena, chunk_bytes);
  for (const PeftTensor& tensor : adapter.tensors) loader.load(tensor);
}

}  // namespace sluice
