#pragma once
// Classes of requests by size, which planners count and pools serve. DynamoLLM's nine (SS ... LL) and FREESH's
// partitions are classifiers with different borders.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/request.h"
#include "units/quantity.h"

namespace wattle {

/// Classes are numbered by prompt, then by output size, from short to long: SS is 0, the last has the largest requests.
/// "Larger" means a higher number (DynamoLLM, section IV-B).
class Classifier {
 public:
  /// One class for all.
  Classifier() = default;
  /// Borders in tokens, ascending, each above 0: a size belongs to the class of the first border above it, or to the
  /// last class. No borders: this size is ignored.
  Classifier(std::vector<std::int32_t> prompt_below, std::vector<std::int32_t> output_below)
      : prompt_below_(std::move(prompt_below)), output_below_(std::move(output_below)) {}

  /// The same sizes, with a class of its own for each tier. `loosest_first`: tier names; `rank`: position in that list,
  /// by TierId. Classes of one size are neighbours, with the strictest tier last.
  [[nodiscard]] Classifier by_tier(std::vector<std::string> loosest_first, std::vector<std::int32_t> rank) const {
    Classifier made(prompt_below_, output_below_);
    if (loosest_first.size() < 2) return made;
    made.tiers_ = std::move(loosest_first);
    made.tier_rank_ = std::move(rank);
    return made;
  }

  [[nodiscard]] ClassId of(std::int32_t prompt_tokens, std::int32_t output_tokens, TierId tier = TierId(0)) const {
    const std::int32_t size = rank(prompt_below_, prompt_tokens) * outputs() + rank(output_below_, output_tokens);
    return ClassId(size * tiers() + tier_rank(tier));
  }
  /// By predicted output; without a prediction max_tokens is assumed, which is safe.
  [[nodiscard]] ClassId of(const Request& request) const {
    return of(request.prompt_tokens, believed_output(request), request.tier);
  }
  [[nodiscard]] static std::int32_t believed_output(const Request& request) {
    return request.predicted_output_tokens > 0 ? request.predicted_output_tokens : request.max_tokens;
  }

  [[nodiscard]] std::int32_t size() const { return sizes() * tiers(); }
  [[nodiscard]] std::int32_t sizes() const { return prompts() * outputs(); }
  [[nodiscard]] std::int32_t tiers() const { return tiers_.empty() ? 1 : static_cast<std::int32_t>(tiers_.size()); }
  /// Position from the loosest tier (0) to the strictest; unknown tiers count as the first.
  [[nodiscard]] std::int32_t tier_rank(TierId tier) const {
    if (tier_rank_.empty()) return 0;
    const auto t = static_cast<std::size_t>(std::max(tier.value(), 0));
    return tier_rank_[t < tier_rank_.size() ? t : 0];
  }
  [[nodiscard]] const std::vector<std::string>& tier_names() const { return tiers_; }
  [[nodiscard]] const std::vector<std::int32_t>& tier_ranks() const { return tier_rank_; }
  [[nodiscard]] std::int32_t prompts() const { return static_cast<std::int32_t>(prompt_below_.size()) + 1; }
  [[nodiscard]] std::int32_t outputs() const { return static_cast<std::int32_t>(output_below_.size()) + 1; }
  [[nodiscard]] const std::vector<std::int32_t>& prompt_below() const { return prompt_below_; }
  [[nodiscard]] const std::vector<std::int32_t>& output_below() const { return output_below_; }

  /// "SS" to "LL"; with more than four sizes "1-1" and so on; with only one prompt or output size the other's letter;
  /// "all" if there is one class.
  [[nodiscard]] std::string name(ClassId id) const {
    if (!tiers_.empty()) {
      const Classifier plain(prompt_below_, output_below_);
      return plain.name(ClassId(id.value() / tiers())) + "/" + tiers_[static_cast<std::size_t>(id.value() % tiers())];
    }
    if (size() == 1) return "all";
    const std::string prompt = letter(id.value() / outputs(), prompts());
    const std::string output = letter(id.value() % outputs(), outputs());
    const bool numbers = std::max(prompts(), outputs()) > kLetters && !prompt.empty() && !output.empty();
    return prompt + (numbers ? "-" : "") + output;
  }
  [[nodiscard]] std::optional<ClassId> find(std::string_view wanted) const {
    for (std::int32_t c = 0; c < size(); ++c) {
      if (name(ClassId(c)) == wanted) return ClassId(c);
    }
    return std::nullopt;
  }
  bool operator==(const Classifier&) const = default;

 private:
  static constexpr std::int32_t kLetters = 4;

  static std::int32_t rank(const std::vector<std::int32_t>& below, std::int32_t tokens) {
    return static_cast<std::int32_t>(std::ranges::upper_bound(below, tokens) - below.begin());
  }
  [[nodiscard]] std::string letter(std::int32_t i, std::int32_t of) const {
    if (of == 1) return "";
    if (std::max(prompts(), outputs()) > kLetters) return std::to_string(i + 1);
    constexpr std::string_view kNames[] = {"SL", "SML", "SMLX"};
    return std::string(1, kNames[of - 2][static_cast<std::size_t>(i)]);
  }

  std::vector<std::int32_t> prompt_below_;
  std::vector<std::int32_t> output_below_;
  std::vector<std::string> tiers_;       ///< loosest first; empty: tiers are ignored
  std::vector<std::int32_t> tier_rank_;  ///< by TierId
};

}  // namespace wattle
