#pragma once
// An answer whose client wants to know what it cost. Energy is known one reading of the meters after a request's end;
// so its last bytes wait for that, for a bounded time.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/outcome.h"
#include "net/exchange.h"

namespace wattle::gateway {

/// Header of a request that asks: "X-Wattle-Usage: energy".
[[nodiscard]] bool asks_for_energy(const net::HeaderFields& headers);

/// What its usage says of an answer's energy: null where nobody metered it (in full), or not in time;
/// grams, too, where some of it was drawn at an unknown intensity.
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

/// JSON text with these members put into its last usage object; without one, into a new one at the top.
[[nodiscard]] std::string with_energy(std::string_view json, const EnergySaid& energy);

/// Loop thread only, but for charged().
class ChargedAnswer : public std::enable_shared_from_this<ChargedAnswer> {
 public:
  /// A whole answer that has not begun, with its head's lines. `json`: its body has a usage, or may get one.
  static std::shared_ptr<ChargedAnswer> whole(std::shared_ptr<net::Exchange> exchange, std::string type,
                                              std::string headers, std::string body, bool json);
  /// The end of a stream, held back: its usage chunk, if there is one, then what ends it.
  static std::shared_ptr<ChargedAnswer> stream(std::shared_ptr<net::Exchange> exchange, std::string usage_event,
                                               std::string last_events);
  /// Answers with null when nothing has been said by then.
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
