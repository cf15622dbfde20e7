#include "gateway/charged_answer.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace wattle::gateway {

bool asks_for_energy(const net::HeaderFields& headers) { return headers.get("X-Wattle-Usage") == "energy"; }

EnergySaid EnergySaid::of(const Outcome& outcome, const char* meters) {
  if (!outcome.metered) return {std::nullopt, std::nullopt, meters};
  const double grams = outcome.carbon.value();
  return {outcome.energy.joules().value(), std::isnan(grams) ? std::nullopt : std::optional(grams), meters};
}

std::string EnergySaid::members() const {
  const auto text = [](const std::optional<double>& number) {
    return number ? fmt::format("{:.6g}", *number) : "null";
  };
  return fmt::format(R"("energy_j":{},"carbon_g":{},"energy_meters":"{}")", text(joules), text(grams), meters);
}

std::string EnergySaid::headers() const {
  std::string out = fmt::format("X-Wattle-Energy-Meters: {}\r\n", meters);
  if (joules) out += fmt::format("X-Wattle-Energy-J: {:.6g}\r\n", *joules);
  if (grams) out += fmt::format("X-Wattle-Carbon-G: {:.6g}\r\n", *grams);
  return out;
}

std::string with_energy(std::string_view json, const EnergySaid& energy) {
  constexpr std::string_view kUsage = "\"usage\"";
  const auto insert = [&](std::size_t at, std::string_view before, std::string_view after) {
    std::string out(json.substr(0, at));
    return out.append(before).append(energy.members()).append(after).append(json.substr(at));
  };
  if (const std::size_t key = json.rfind(kUsage); key != std::string_view::npos) {
    const std::size_t open = json.find_first_not_of(" :\t\r\n", key + kUsage.size());
    if (open != std::string_view::npos && json[open] == '{') {
      const std::size_t next = json.find_first_not_of(" \t\r\n", open + 1);
      return insert(open + 1, "", next != std::string_view::npos && json[next] == '}' ? "" : ",");
    }
  }
  const std::size_t close = json.rfind('}');
  if (close == std::string_view::npos) return std::string(json);
  return insert(close, "," + std::string(kUsage) + ":{", "}");
}

std::shared_ptr<ChargedAnswer> ChargedAnswer::whole(std::shared_ptr<net::Exchange> exchange, std::string type,
                                                    std::string headers, std::string body, bool json) {
  auto made = std::shared_ptr<ChargedAnswer>(new ChargedAnswer(std::move(exchange), true));
  made->json_ = json;
  made->type_ = std::move(type);
  made->headers_ = std::move(headers);
  made->body_ = std::move(body);
  return made;
}

std::shared_ptr<ChargedAnswer> ChargedAnswer::stream(std::shared_ptr<net::Exchange> exchange, std::string usage_event,
                                                     std::string last_events) {
  auto made = std::shared_ptr<ChargedAnswer>(new ChargedAnswer(std::move(exchange), false));
  made->body_ = std::move(usage_event);
  made->end_ = std::move(last_events);
  return made;
}

void ChargedAnswer::wait(Span most) {
  exchange_->loop().after(most, [self = shared_from_this()] { self->answer({}); });
}

void ChargedAnswer::charged(const EnergySaid& energy) {
  // exchange_ is the loop's; the loop itself outlives whatever runs on it.
  loop_->post([self = shared_from_this(), energy] { self->answer(energy); });
}

void ChargedAnswer::answer(const EnergySaid& energy) {
  const auto exchange = std::exchange(exchange_, nullptr);
  if (!exchange) return;
  if (whole_) {
    exchange->respond(200, type_, json_ ? with_energy(body_, energy) : body_, headers_ + energy.headers());
    return;
  }
  if (body_.empty()) body_ = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[]}\n\n";
  exchange->write(with_energy(body_, energy));
  exchange->write(end_);
  exchange->finish();
}

}  // namespace wattle::gateway
