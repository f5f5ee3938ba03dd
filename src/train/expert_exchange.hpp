// Sends tokens to the ranks that own their experts, and the experts' outputs or gradients back.
//
// A small group all-gathers its tokens: with k choices a token goes to nearly every rank anyway, and no
// counts need to be exchanged. In a larger group a token is sent once to each rank that owns one of its
// experts (all-to-all). Either way each rank returns one row for each token it received.
//
// Tokens, and in backward the gradients of their outputs, may go out as 8-bit codes. All tokens are then rounded to
// them, those that stay here too, and experts work with the rounded ones; the gradient of the rounding is taken as 1.
#pragma once

#include "base/wire_formats.hpp"
#include "comm/communicator.hpp"
#include "device/stream.hpp"
#include "ops/experts.hpp"
#include "train/phase_timer.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

class ExpertExchange final : public ops::TokenExchange {
 public:
  /// Whether a group all-gathers its tokens: if that is cheaper for its size, always, or never.
  enum class Gathering : std::uint8_t { kBySize, kAlways, kNever };

  /// `experts`: number of a layer's experts, over all ranks of `group`. `memory`: kind of memory of the
  /// tokens; `format`: what they are sent as, on devices kDType. `group` (null: every rank has all experts) and
  /// `timer` must outlive the exchange.
  ExpertExchange(Communicator* group, std::int64_t experts, PhaseTimer& timer, MemoryKind memory,
                 TokenFormat format = TokenFormat::kDType, Gathering gathering = Gathering::kBySize);

  /// Collective over the group. Announces the number of tokens in each micro-batch that this rank will take
  /// through every layer; returns the number of micro-batches of the rank with the most. Each layer then
  /// dispatches that many times in each forward pass, and as often in backward, on every rank.
  [[nodiscard]] std::size_t begin(const std::vector<std::int64_t>& tokens);

  /// Whether tokens are exchanged between ranks at all.
  [[nodiscard]] bool travels() const { return group_ != nullptr; }
  [[nodiscard]] std::int64_t first_expert() const override;
  void begin_dispatch(const ops::ExpertTokens& own) override;
  [[nodiscard]] ops::ArrivingTokens arriving() override;
  void finish_dispatch() override;
  [[nodiscard]] at::Tensor sums(std::int64_t rows, std::int64_t width) override;
  [[nodiscard]] at::Tensor combine(const at::Tensor& sums) override;
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> combine(const at::Tensor& sums,
                                                          const at::Tensor& d_weights) override;

 private:
  /// Number of tokens sent to, or received from, each rank of the group, in rank order.
  using Counts = std::vector<std::int64_t>;

  /// Memory that is kept from step to step, as every step needs about as much.
  class Buffer {
   public:
    explicit Buffer(at::Device device) : device_(device) {}
    /// View [rows, width] of the buffer, which grows if needed; the content is undefined.
    [[nodiscard]] at::Tensor rows(std::int64_t rows, std::int64_t width, at::ScalarType dtype);

   private:
    at::Device device_;
    at::Tensor bytes_;
  };

  void begin_gather(const ops::ExpertTokens& own);
  void begin_route(const ops::ExpertTokens& own);
  /// Begins to exchange each tensor that a pass needs; `start`(own rows, rows of all ranks) begins one
  /// exchange.
  template <class Start>
  void begin_each(const ops::ExpertTokens& own, Start start);
  /// Own tokens as experts get them if they are sent as codes.
  [[nodiscard]] at::Tensor as_coded(const at::Tensor& rows, Buffer& buffer) const;
  /// Reads codes that have arrived, of some of the received tokens.
  void read_codes(Range tokens) const;
  /// This rank's own among the received tokens.
  [[nodiscard]] Range own_received() const;
  void list_receivers(const at::Tensor& experts);
  [[nodiscard]] Counts exchange_counts(const Counts& to_each) const;
  [[nodiscard]] at::Tensor sent_back(const at::Tensor& sums);
  [[nodiscard]] at::Tensor send_back(const at::Tensor& rows);

  Communicator* group_;
  SideStream stream_;
  std::int64_t experts_;
  PhaseTimer& timer_;
  bool is_coded_;  ///< whether tokens are sent as 8-bit codes
  bool gathers_;
  /// Rank in the group of each expert; empty if tokens are gathered.
  std::vector<std::uint32_t> rank_of_expert_;
  std::vector<Counts> tokens_;  ///< tokens of each rank in each round: [round][rank]
  std::size_t round_ = 0;

  // combine() runs when the received tokens are no longer needed: it sends from the buffer of the tokens and
  // receives into the buffer of their outputs' gradients.
  Buffer x_, d_out_, chosen_, weights_, sums_;
  Buffer x_codes_, d_out_codes_;  ///< codes of the received tokens, if they are sent as such

  // The members below are the state of a dispatch in flight.
  ops::ExpertTokens own_, here_;
  /// Codes that are being received, and the rows that they are read to.
  struct CodedRows {
    at::Tensor codes, rows;
  };
  std::vector<CodedRows> coded_;
  std::vector<at::Tensor> packed_, own_codes_;
  std::vector<Work> works_;

  // The members below last from a dispatch to its combine().
  Phase around_ = Phase::kOther;
  at::ScalarType dtype_ = at::kFloat;
  std::int64_t own_tokens_ = 0;
  Counts given_, received_;
  std::vector<std::int32_t> given_tokens_;  ///< own tokens, by receiving rank; empty: each rank receives all
};

}  // namespace sluice
