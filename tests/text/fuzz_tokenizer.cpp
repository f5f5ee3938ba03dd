// libFuzzer target: any tokenizer.json either is read, and then encodes and decodes, or throws
// Error(kBadData).
//
//   fuzz_tokenizer -max_total_time=60 -rss_limit_mb=1024 tests/text/corpus_tokenizer

#include "base/error.hpp"
#include "base/log.hpp"
#include "text/tokenizer.hpp"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::log::set_level(sluice::log::Level::kError);
  try {
    const auto tokenizer =
        sluice::text::Tokenizer::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
    const std::string text = "It's 12 o'clock\n\nat\nsea:  e\xcc\x81t\xc3\xa9 <s>\xf0\x9f\x98\x80</s> \xff";
    const auto ids = tokenizer.encode(text);
    for (const auto id : ids)
      if (id < 0 || id >= tokenizer.id_count()) std::abort();
    (void)tokenizer.decode(ids);
    (void)tokenizer.last_cut(text);
  } catch (const sluice::Error& error) {
    if (error.code() != sluice::ExitCode::kBadData) std::abort();
  }
  return 0;
}
