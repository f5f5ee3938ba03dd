#include "corpus/source/magic.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace sluice::corpus {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kHdf5 = "\x89HDF\r\n\x1a\n"sv;

struct Magic {
  std::string_view bytes;
  std::string_view name;
  std::string_view advice;  ///< advice for the user; {} is the file
  std::size_t offset = 0;
};

#define SLUICE_PIPE_ADVICE(program) \
  "unpack it, or read it through a pipe: " program " {} | sluice tokenize MODEL /dev/stdin -o OUT.h5"
constexpr std::string_view kTable =
    "write its rows as JSONL, for example with Python's datasets: load_dataset(FORMAT, data_files=\"{}\", "
    "split=\"train\").to_json(\"rows.jsonl\")";
constexpr std::string_view kPython = "write what it holds as JSONL in Python, an object a line";
constexpr std::string_view kUtf16 = "write it as UTF-8: iconv -f UTF-16 -t UTF-8 {}";

constexpr std::array kMagics = {
    Magic{"\x1f\x8b"sv, "compressed (gzip)", SLUICE_PIPE_ADVICE("zcat")},
    Magic{"\x28\xb5\x2f\xfd"sv, "compressed (zstd)", SLUICE_PIPE_ADVICE("zstdcat")},
    Magic{"\xfd"
          "7zXZ\0"sv,
          "compressed (xz)", SLUICE_PIPE_ADVICE("xzcat")},
    Magic{"\x04\x22\x4d\x18"sv, "compressed (lz4)", SLUICE_PIPE_ADVICE("lz4cat")},
    Magic{"1AY&SY"sv, "compressed (bzip2)", SLUICE_PIPE_ADVICE("bzcat"), 4},
    Magic{"PK\x03\x04"sv, "an archive (zip)", SLUICE_PIPE_ADVICE("unzip -p")},
    Magic{"7z\xbc\xaf\x27\x1c"sv, "an archive (7z)", "unpack it"},
    Magic{"ustar"sv, "an archive (tar)", "unpack it", 257},
    Magic{"PAR1"sv, "a Parquet file", kTable},
    Magic{"ARROW1\0\0"sv, "an Arrow file", kTable},
    Magic{"\xff\xff\xff\xff"sv, "an Arrow file", kTable},
    Magic{"Obj\x01"sv, "an Avro file", kTable},
    Magic{kHdf5, "an HDF5 file", "a token file is named as data.tokens as it is"},
    Magic{"\x80\x02"sv, "a Python pickle", kPython},
    Magic{"\x80\x03"sv, "a Python pickle", kPython},
    Magic{"\x80\x04"sv, "a Python pickle", kPython},
    Magic{"\x80\x05"sv, "a Python pickle", kPython},
    Magic{"\x93NUMPY"sv, "a NumPy file", kPython},
    Magic{"MMIDIDX\0"sv, "a Megatron index", kPython},
    Magic{"SQLite format 3\0"sv, "an SQLite database", kPython},
    Magic{"GGUF"sv, "a GGUF model", "text is expected here"},
    Magic{"%PDF-"sv, "a PDF", "make text of it: pdftotext {}"},
    Magic{"\xff\xfe"sv, "text in UTF-16", kUtf16},
    Magic{"\xfe\xff"sv, "text in UTF-16", kUtf16},
};
#undef SLUICE_PIPE_ADVICE

bool begins_with(std::string_view head, const Magic& magic) {
  return head.size() > magic.offset && head.substr(magic.offset).starts_with(magic.bytes);
}

/// Whether a text can have these bytes.
bool is_printable(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](char byte) { return byte >= ' ' && byte <= '~'; });
}

std::string advice_for(const Magic& magic, const std::string& path) {
  std::string advice(magic.advice);
  if (const std::size_t at = advice.find("{}"); at != std::string::npos) advice.replace(at, 2, path);
  return advice;
}

}  // namespace

bool is_hdf5(std::string_view head) {
  constexpr std::size_t kFirstBlock = 512;
  if (head.starts_with(kHdf5)) return true;
  for (std::size_t offset = kFirstBlock; offset < head.size(); offset *= 2)
    if (head.substr(offset).starts_with(kHdf5)) return true;
  return false;
}

void require_no_magic(std::string_view head, const std::filesystem::path& path, Told told) {
  const auto* const found =
      std::ranges::find_if(kMagics, [&](const Magic& magic) { return begins_with(head, magic); });
  if (found == kMagics.end()) return;
  const bool can_be_text = is_printable(found->bytes);
  if (can_be_text && told == Told::kText) return;
  fail({ExitCode::kBadData, "corpus.format"},
       "{} is {}, by its first bytes, expected text or rows of JSON; {}{}", path.string(), found->name,
       advice_for(*found, path.string()), can_be_text ? " (if it is text all the same: --format text)" : "");
}

}  // namespace sluice::corpus
