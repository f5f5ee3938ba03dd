// Encodes a corpus with one thread and says how fast; tools/bench/peer_tokenizer does the same with the tokenizers library and
// compares the ids.
//
//   bench_tokenizer MODEL_DIR CORPUS [IDS]
//
// CORPUS holds texts, each a 4-byte length (little endian) and its bytes. IDS gets the ids of each text in the same form: a count
// and 4-byte ids; without a frame.
#include "base/clock.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace {

std::vector<std::string_view> texts_of(std::string_view corpus) {
  std::vector<std::string_view> texts;
  while (corpus.size() >= 4) {
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, corpus.data(), 4);
    texts.push_back(corpus.substr(4, bytes));
    corpus.remove_prefix(4 + texts.back().size());
  }
  return texts;
}

void write_ids(const char* path, const std::vector<std::uint32_t>& counts,
               const std::vector<sluice::text::TokenId>& ids) {
  std::ofstream out(path, std::ios::binary);
  const sluice::text::TokenId* next = ids.data();
  for (const std::uint32_t count : counts) {
    out.write(reinterpret_cast<const char*>(&count), 4);
    out.write(reinterpret_cast<const char*>(next), 4 * std::streamsize{count});
    next += count;
  }
}

/// Of this program alone: what getrusage says includes the parent's before it started this.
double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

int run(const char* directory, const char* corpus_path, const char* ids_path) {
  const sluice::Stopwatch loading;
  const auto tokenizer = sluice::text::Tokenizer::load(directory);
  const double load_seconds = loading.seconds();
  std::ifstream file(corpus_path, std::ios::binary);
  const std::string corpus{std::istreambuf_iterator<char>(file), {}};
  const std::vector<std::string_view> texts = texts_of(corpus);
  std::vector<std::uint32_t> counts;
  std::vector<sluice::text::TokenId> ids;
  sluice::text::Encoder encoder(tokenizer);
  std::size_t bytes = 0;
  const sluice::Stopwatch watch;
  for (const std::string_view text : texts) {
    const std::size_t before = ids.size();
    encoder.append(text, ids);
    counts.push_back(static_cast<std::uint32_t>(ids.size() - before));
    bytes += text.size();
  }
  const double seconds = watch.seconds();
  std::printf(
      "{\"bytes\": %zu, \"tokens\": %zu, \"seconds\": %.4f, \"mb_per_s\": %.2f, \"load_seconds\": %.3f, \"peak_mib\": %.1f}\n",
      bytes, ids.size(), seconds, static_cast<double>(bytes) / 1e6 / seconds, load_seconds, peak_mib());
  if (ids_path) write_ids(ids_path, counts, ids);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: bench_tokenizer MODEL_DIR CORPUS [IDS]\n");
    return 64;
  }
  try {
    return run(argv[1], argv[2], argc == 4 ? argv[3] : nullptr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_tokenizer: %s\n", error.what());
    return 65;
  }
}
