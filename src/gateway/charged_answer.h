#pragma once
// An answer whose client asks for its cost. Energy is known one meter reading after a request's end, so the answer's
// last bytes wait for it, for a bounded time.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/outcome.h"
#include "net/exchange.h"

namespace wattle::gateway {

/// Whether the request has the header "X-Wattle-Usage: energy".
[[nodiscard]] bool asks_for_energy(const net::HeaderFields& headers);

/// The energy of an answer as its usage states it: null if it was not (fully) metered or not known in time; grams also
/// null if some of it was drawn at an unknown intensity.
struct EnergySaid {
  std::optional<double> joules;
  std::optional<double> grams;
  const char* meters = "none";  ///< as LiveLedger::meters()

  static EnergySaid of(const Outcome& outcome, const char* meters);
  /// `"energy_j":..,"carbon_g":..,"energy_meters":".."`
  [[nodiscard]] std::string members() const;
  /// Response header lines.
  [[nodiscard]] std::string headers() const;
};

/// The JSON text with these members added to its last usage object; if there is none, in a new one at the top level.
[[nodiscard]] std::string with_energy(std::string_view json, const EnergySaid& energy);

/// Loop thread only, except charged().
class ChargedAnswer : public std::enable_shared_from_this<ChargedAnswer> {
 public:
  /// A complete answer that has not begun, with its header lines. `json`: its body has a usage object, or may get one.
  static std::shared_ptr<ChargedAnswer> whole(std::shared_ptr<net::Exchange> exchange, std::string type,
                                              std::string headers, std::string body, bool json);
  /// The end of a stream, held back: its usage chunk, if any, then its final events.
  static std::shared_ptr<ChargedAnswer> stream(std::shared_ptr<net::Exchange> exchange, std::string usage_event,
                                               std::string last_events);
  /// After `most`, answers with null values if charged() has not been called.
  void wait(Span most);
  /// Any thread.
  void charged(const EnergySaid& energy);

 private:
  ChargedAnswer(std::shared_ptr<net::Exchange> exchange, bool whole)
      : loop_(&exchange->loop()), exchange_(std::move(exchange)), whole_(whole) {}
  void answer(const EnergySaid& energy);

  net::Loop* loop_;
  std::shared_ptr<net::Exchange> exchange_;  ///< null: answered
  bool whole_;
  bool json_ = true;
  std::string type_;
  std::string headers_;
  std::string body_;  ///< or the usage chunk
  std::string end_;
};

}  // namespace wattle::gateway
