// libFuzzer target: any text, by a byte-level tokenizer and by one of characters. Decoding gives the text
// back, streamed and cut it has the same tokens.
//
//   fuzz_text -max_total_time=60 tests/text/corpus_text

#include "text/tokenizer.hpp"
#include "text/unicode/unicode.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace {

using sluice::text::Continues;
using sluice::text::Encoder;
using sluice::text::Specials;
using sluice::text::TokenId;
using sluice::text::Tokenizer;

/// GPT-2's kind with Llama 3's pattern: all bytes and some merges.
std::string byte_level() {
  std::string vocabulary;
  int id = 0;
  int other = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (0x21 <= byte && byte <= 0x7e) || (0xa1 <= byte && byte <= 0xac) || byte >= 0xae;
    vocabulary += fmt::format("\"\\u{:04x}\":{},", prints ? byte : other++, id++);
  }
  return R"({"added_tokens":[{"id":260,"content":"<s>","special":true,"lstrip":true}],"normalizer":null,
    "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Isolated","invert":false,"pattern":{"Regex":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},"decoder":{"type":"ByteLevel"},
    "model":{"type":"BPE","vocab":{)" +
         vocabulary +
         R"("aa":256,"aaa":257,"\u0120a":258,"ab":259},"merges":["a a","aa a","\u0120 a","a b"]}})";
}

/// Mixtral's kind.
std::string characters() {
  std::string vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary += fmt::format("\"<0x{:02X}>\":{},", byte, byte + 3);
  return R"({"added_tokens":[{"id":1,"content":"<s>","special":true,"normalized":false}],
    "normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"\u2581"},{"type":"Replace","pattern":{"String":" "},"content":"\u2581"}]},
    "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},
    {"type":"Strip","content":" ","start":1,"stop":0}]},
    "model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,"vocab":{"<unk>":0,"<s>":1,"</s>":2,)" +
         vocabulary +
         R"("\u2581":259,"a":260,"b":261,"\u2581a":262,"aa":263,"aaa":264})"
         R"(,"merges":["\u2581 a","a a","aa a"]}})";
}

void check(const Tokenizer& tokenizer, const std::string& bytes, bool gives_text_back) {
  std::vector<TokenId> whole;
  Encoder(tokenizer).append(bytes, whole);
  std::string text;
  sluice::text::append_repaired(text, bytes);
  // A token that takes blanks, and a text that says how blanks are kept, do not come back.
  if (gives_text_back && text.find("<s>") == std::string::npos && text.find("\u2581") == std::string::npos)
    if (tokenizer.decode(whole, Specials::kKeep) != text) std::abort();
  const std::size_t cut = tokenizer.last_cut(bytes);
  if (cut == 0) return;
  std::vector<TokenId> parts;
  Encoder encoder(tokenizer);
  encoder.append(std::string_view(bytes).substr(0, cut), parts);
  encoder.append(std::string_view(bytes).substr(cut), parts, Continues::kYes);
  if (parts != whole) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizer of_bytes = Tokenizer::parse(byte_level(), "bytes");
  static const Tokenizer of_characters = Tokenizer::parse(characters(), "characters");
  const std::string text(reinterpret_cast<const char*>(data), size);
  check(of_bytes, text, true);
  check(of_characters, text, true);
  return 0;
}
