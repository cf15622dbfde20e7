#include "neural/length_net.h"

#include <fmt/core.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/serialize.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <sstream>

#include "base/digest.h"
#include "base/random.h"
#include "neural/long.h"

namespace wattle::neural {

namespace {
using torch::Tensor;

constexpr Long kShape = 3;  ///< numbers about the whole prompt that go past the network to its last layer

/// The sizes a saved network begins with.
Tensor sizes_of(const LengthNetOptions& o) {
  return torch::tensor({o.vocabulary, o.width, o.heads, o.layers, o.chunk, o.chunks, o.hidden, Long{o.long_above}},
                       torch::kLong);
}

Result<void> check(const LengthNetOptions& o) {
  const bool counts = o.vocabulary > 1 && o.width > 0 && o.heads > 0 && o.layers > 0 && o.chunk > 0 && o.chunks > 1 &&
                      o.hidden > 0 && o.batch > 1;
  if (!counts || o.width % o.heads != 0) {
    return bad_input("options", "sizes must be above 0 (two chunks, a batch of two), width a multiple of heads");
  }
  return {};
}

struct EncodedPrompt {
  std::vector<std::vector<Long>> chunks;  ///< at least one, none of them empty
  std::array<float, kShape> shape{};
};

EncodedPrompt encode(std::string_view prompt, const LengthNetOptions& o) {
  std::vector<Long> words = hashed_words(prompt, o.vocabulary);
  EncodedPrompt encoded;
  encoded.shape = {static_cast<float>(std::log1p(static_cast<double>(words.size()))) / 5.0F,
                   static_cast<float>(std::ranges::count(prompt, '?')) > 0.0F ? 1.0F : 0.0F,
                   static_cast<float>(std::ranges::count(prompt, '\n')) > 0.0F ? 1.0F : 0.0F};
  const Long most = o.chunk * o.chunks;
  if (to_long(words.size()) > most) {  // the request itself is at the beginning or the end
    const Long half = most / 2;
    words.erase(words.begin() + half, words.end() - (most - half));
  }
  if (words.empty()) words.push_back(0);
  for (std::size_t at = 0; at < words.size(); at += static_cast<std::size_t>(o.chunk)) {
    const auto end = std::min(words.size(), at + static_cast<std::size_t>(o.chunk));
    encoded.chunks.emplace_back(words.begin() + to_long(at), words.begin() + to_long(end));
  }
  return encoded;
}

struct PromptNetImpl : torch::nn::Module {
  explicit PromptNetImpl(const LengthNetOptions& o) : options(o) {
    words = register_module("words", torch::nn::Embedding(o.vocabulary, o.width));
    places = register_parameter("places", 0.02 * torch::randn({o.chunk, 1, o.width}));
    const auto layer = torch::nn::TransformerEncoderLayer(
        torch::nn::TransformerEncoderLayerOptions(o.width, o.heads).dim_feedforward(2 * o.width).dropout(0.0));
    encoder = register_module("encoder", torch::nn::TransformerEncoder(layer, o.layers));
    lstm = register_module(
        "lstm", torch::nn::LSTM(torch::nn::LSTMOptions(o.width, o.hidden).batch_first(true).bidirectional(true)));
    head = register_module("head", torch::nn::Linear(2 * o.hidden + kShape, 2));
    centre = register_buffer("centre", torch::zeros({1}));
  }

  /// [B, 2]: log(1 + tokens), and the class's logit.
  Tensor forward(const std::vector<const EncodedPrompt*>& prompts) {
    const Long count = to_long(prompts.size());
    std::vector<const std::vector<Long>*> all;
    Tensor lengths = torch::empty({count}, torch::kLong);
    Tensor shapes = torch::empty({count, kShape});
    for (Long b = 0; b < count; ++b) {
      const EncodedPrompt& prompt = *prompts[static_cast<std::size_t>(b)];
      for (const auto& chunk : prompt.chunks) all.push_back(&chunk);
      lengths[b] = to_long(prompt.chunks.size());
      for (Long k = 0; k < kShape; ++k) shapes[b][k] = prompt.shape[static_cast<std::size_t>(k)];
    }
    const Tensor pooled = encode_chunks(all);
    const Long longest = lengths.max().item<Long>();
    std::vector<Tensor> padded;
    Long at = 0;
    for (Long b = 0; b < count; ++b) {
      const Long n = lengths[b].item<Long>();
      padded.push_back(torch::constant_pad_nd(pooled.narrow(0, at, n), {0, 0, 0, longest - n}));
      at += n;
    }
    const auto packed = torch::nn::utils::rnn::pack_padded_sequence(torch::stack(padded), lengths, true, false);
    const auto states = std::get<0>(std::get<1>(lstm->forward_with_packed_input(packed)));  // [2, B, hidden]
    const Tensor out = head->forward(torch::cat({states[0], states[1], shapes}, 1));
    return torch::stack({out.select(1, 0) + centre, out.select(1, 1)}, 1);
  }

  /// Mean of a chunk's words after the encoder: [chunks, width].
  Tensor encode_chunks(const std::vector<const std::vector<Long>*>& chunks) {
    const Long count = to_long(chunks.size());
    std::size_t longest = 0;
    for (const auto* chunk : chunks) longest = std::max(longest, chunk->size());
    Tensor ids = torch::zeros({to_long(longest), count}, torch::kLong);
    Tensor absent = torch::ones({count, to_long(longest)}, torch::kBool);
    auto id = ids.accessor<Long, 2>();
    auto gone = absent.accessor<bool, 2>();
    for (Long c = 0; c < count; ++c) {
      const auto& chunk = *chunks[static_cast<std::size_t>(c)];
      for (Long w = 0; w < to_long(chunk.size()); ++w) {
        id[w][c] = chunk[static_cast<std::size_t>(w)];
        gone[c][w] = false;
      }
    }
    const Tensor input = words->forward(ids) + places.narrow(0, 0, to_long(longest));
    const Tensor output = encoder->forward(input, {}, absent);  // [words, chunks, width]
    const Tensor there = absent.logical_not().transpose(0, 1).unsqueeze(2).to(torch::kFloat);
    return (output * there).sum(0) / there.sum(0);
  }

  LengthNetOptions options;
  torch::nn::Embedding words{nullptr};
  Tensor places;
  torch::nn::TransformerEncoder encoder{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Linear head{nullptr};
  Tensor centre;  ///< mean of log(1 + tokens)
};
TORCH_MODULE(PromptNet);

class TrainedNet final : public LengthNet {
 public:
  explicit TrainedNet(PromptNet net) : net_(std::move(net)) { net_->eval(); }

  LengthGuess predict(std::string_view prompt) const override {
    const torch::NoGradGuard no_grad;
    const EncodedPrompt encoded = encode(prompt, net_->options);
    PromptNet net = net_;
    const Tensor said = net->forward({&encoded});
    return {std::max(std::expm1(said[0][0].item<double>()), 0.0), torch::sigmoid(said[0][1]).item<double>()};
  }

  std::string save() const override {
    torch::serialize::OutputArchive archive;
    net_->save(archive);
    archive.write("sizes", sizes_of(net_->options), true);
    std::ostringstream out;
    archive.save_to(out);
    return out.str();
  }

 private:
  PromptNet net_;
};

void train(PromptNet& net, const std::vector<EncodedPrompt>& prompts, const Tensor& logs, const Tensor& longs,
           const LengthNetOptions& o) {
  torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(o.learning_rate));
  RandomStream random(o.seed, "neural.examples");
  std::vector<std::size_t> order(prompts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (Long epoch = 0; epoch < o.epochs; ++epoch) {
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    double losses = 0.0;
    for (std::size_t at = 0; at + static_cast<std::size_t>(o.batch) <= order.size();
         at += static_cast<std::size_t>(o.batch)) {
      std::vector<const EncodedPrompt*> batch;
      Tensor rows = torch::empty({o.batch}, torch::kLong);
      for (Long i = 0; i < o.batch; ++i) {
        const std::size_t row = order[at + static_cast<std::size_t>(i)];
        batch.push_back(&prompts[row]);
        rows[i] = to_long(row);
      }
      adam.zero_grad();
      const Tensor said = net->forward(batch);
      const Tensor loss = torch::huber_loss(said.select(1, 0), logs.index_select(0, rows)) +
                          torch::binary_cross_entropy_with_logits(said.select(1, 1), longs.index_select(0, rows));
      loss.backward();
      torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
      adam.step();
      losses += loss.item<double>();
    }
    if (o.progress) o.progress(epoch + 1, losses / static_cast<double>(to_long(order.size()) / o.batch));
  }
}
}  // namespace

std::vector<std::int64_t> hashed_words(std::string_view prompt, std::int64_t vocabulary) {
  std::vector<Long> out;
  std::string word;
  const auto is_letter = [](unsigned char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80; };
  const auto end_word = [&] {
    if (word.empty()) return;
    Digest digest;
    digest.add_text(word);
    out.push_back(1 + static_cast<Long>(digest.value() % static_cast<std::uint64_t>(vocabulary - 1)));
    word.clear();
  };
  for (const char raw : prompt) {
    const auto c = static_cast<unsigned char>(raw);
    const bool digit = c >= '0' && c <= '9';
    if (is_letter(c)) {
      word += static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    } else if (digit) {
      word += raw;
    } else {
      end_word();
      if (c > ' ') {
        word = raw;
        end_word();
      }
    }
  }
  end_word();
  return out;
}

Result<std::unique_ptr<LengthNet>> train_length_net(std::span<const LengthExample> examples,
                                                    const LengthNetOptions& options) {
  if (auto ok = check(options); !ok) return std::unexpected(ok.error());
  if (to_long(examples.size()) < options.batch) {
    return bad_input("examples",
                     fmt::format("are {}; at least a batch of {} is needed", examples.size(), options.batch));
  }
  at::set_num_threads(1);
  torch::manual_seed(options.seed);
  PromptNet net(options);
  std::vector<EncodedPrompt> prompts;
  Tensor logs = torch::empty({to_long(examples.size())});
  Tensor longs = torch::empty({to_long(examples.size())});
  for (std::size_t i = 0; i < examples.size(); ++i) {
    if (examples[i].output_tokens < 0) return bad_input(fmt::format("example {}", i), "has a negative length");
    prompts.push_back(encode(examples[i].prompt, options));
    logs[to_long(i)] = std::log1p(static_cast<float>(examples[i].output_tokens));
    longs[to_long(i)] = examples[i].output_tokens > options.long_above ? 1.0F : 0.0F;
  }
  net->centre.fill_(logs.mean());
  train(net, prompts, logs, longs, options);
  return std::make_unique<TrainedNet>(net);
}

Result<std::unique_ptr<LengthNet>> load_length_net(std::string_view bytes) {
  try {
    torch::serialize::InputArchive archive;
    std::istringstream in{std::string(bytes)};
    archive.load_from(in);
    Tensor sizes;
    archive.read("sizes", sizes, true);
    LengthNetOptions o;
    if (sizes.dim() != 1 || sizes.size(0) != 8 || sizes.scalar_type() != torch::kLong) {
      return bad_input("network", "is of another version");
    }
    const auto size = sizes.accessor<Long, 1>();
    o.vocabulary = size[0], o.width = size[1], o.heads = size[2], o.layers = size[3];
    o.chunk = size[4], o.chunks = size[5], o.hidden = size[6];
    o.long_above = static_cast<std::int32_t>(size[7]);
    if (auto ok = check(o); !ok) return std::unexpected(ok.error());
    PromptNet net(o);
    net->load(archive);
    return std::make_unique<TrainedNet>(net);
  } catch (const std::exception&) {  // torch's messages are stack traces
    return bad_input("network", "is not a saved length network");
  }
}

}  // namespace wattle::neural
