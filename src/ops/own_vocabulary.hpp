// A head that one rank has alone, for code that also serves one whose rows several ranks have.
#pragma once

#include "ops/vocabulary_exchange.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice::ops {

/// All rows of a head that this rank has alone.
class OwnVocabulary final : public VocabularyExchange {
 public:
  explicit OwnVocabulary(std::int64_t rows) : rows_{{0, rows}} {}
  [[nodiscard]] const std::vector<Range>& rows_of_ranks() const override { return rows_; }
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] std::int64_t largest(std::int64_t number) override { return number; }
  [[nodiscard]] std::vector<TokenPiece> pieces(std::int64_t tokens, std::int64_t at_once) override {
    std::vector<TokenPiece> pieces;
    for (std::int64_t begin = 0; begin < tokens; begin += at_once) {
      const std::int64_t end = std::min(begin + at_once, tokens);
      pieces.push_back({{begin, end}, {end - begin}});
    }
    return pieces;
  }
  [[nodiscard]] at::Tensor gather(const TokenPiece& /*piece*/, const at::Tensor& own) override { return own; }
  [[nodiscard]] at::Tensor of_ranks(const TokenPiece& /*piece*/, const at::Tensor& found) override {
    return found.unsqueeze(0);
  }
  [[nodiscard]] at::Tensor columns(const TokenPiece& /*piece*/, const at::Tensor& own) override {
    return own;
  }
  [[nodiscard]] at::Tensor sum(const TokenPiece& /*piece*/, const at::Tensor& parts) override {
    return parts;
  }

 private:
  std::vector<Range> rows_;
};

}  // namespace sluice::ops
