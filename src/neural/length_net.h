#pragma once
// Output length from the prompt's text, by libtorch: words of a chunk through a transformer encoder, chunks through a
// bidirectional LSTM, out come log(1 + tokens) and whether the answer will be long (FREESH, section IV: XLM-RoBERTa
// over chunks, then a BiLSTM; theirs starts from a pre-trained encoder, this one from nothing, over hashed words).
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace wattle::neural {

struct LengthExample {
  std::string prompt;
  std::int32_t output_tokens = 0;
};

struct LengthNetOptions {
  std::int64_t vocabulary = 8192;  ///< buckets words are hashed into
  std::int64_t width = 64;         ///< of an embedding; a multiple of `heads`
  std::int64_t heads = 4;
  std::int64_t layers = 2;
  std::int64_t chunk = 32;        ///< words a chunk
  std::int64_t chunks = 16;       ///< of a longer prompt, the first and last so many halves
  std::int64_t hidden = 48;       ///< of the LSTM, each direction
  std::int32_t long_above = 444;  ///< tokens; FREESH's first partition
  std::int64_t batch = 32;
  std::int64_t epochs = 5;
  double learning_rate = 1e-3;
  std::uint64_t seed = 1;
  /// After each epoch, its number from 1 and mean loss; null: nobody listens.
  std::function<void(std::int64_t epoch, double loss)> progress = nullptr;
};

struct LengthGuess {
  double tokens = 0.0;            ///< about the median
  double long_probability = 0.0;  ///< of more than long_above tokens
};

/// Not for use by two threads at once.
class LengthNet {
 public:
  virtual ~LengthNet() = default;
  [[nodiscard]] virtual LengthGuess predict(std::string_view prompt) const = 0;
  /// Sizes and weights, for load_length_net().
  [[nodiscard]] virtual std::string save() const = 0;
};

/// AdamW on Huber's loss of log(1 + tokens) plus cross-entropy of the class, on one thread: equal examples give equal
/// networks on one machine. Errors: fewer examples than a batch, a negative length, sizes that do not fit together.
[[nodiscard]] Result<std::unique_ptr<LengthNet>> train_length_net(std::span<const LengthExample> examples,
                                                                  const LengthNetOptions& options = {});
/// Errors: not a saved network.
[[nodiscard]] Result<std::unique_ptr<LengthNet>> load_length_net(std::string_view bytes);

/// The prompt's words and numbers in lower case, other signs one by one; hashed into [1, vocabulary).
[[nodiscard]] std::vector<std::int64_t> hashed_words(std::string_view prompt, std::int64_t vocabulary);

}  // namespace wattle::neural
