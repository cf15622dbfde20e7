#include "gateway/agent_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gateway/agent_answer.h"
#include "journal/plan_reader.h"
#include "journal/slo_json.h"
#include "net/clock.h"
#include "net/log.h"

namespace wattle::gateway {

namespace {

constexpr std::size_t kAnswerMax = 4 << 20;
constexpr std::size_t kReasonMax = 4096;
constexpr Span kWorkGap = Span::ms(2);
constexpr Span kLookUpGap = Span::s(1);
constexpr std::size_t kHandOversKept = 256;        ///< of an engine whose agent does not answer
constexpr std::int64_t kFinishedKept = 1'000'000;  ///< likewise, of each class

/// Why an agent refuses a message.
std::string problem_of(const std::string& answer, int status) {
  const auto body = nlohmann::json::parse(answer, nullptr, false);
  const nlohmann::json::json_pointer at("/error/message");
  if (!body.contains(at) || !body[at].is_string()) return fmt::format("status {}", status);
  return body[at].get<std::string>();
}

}  // namespace

struct AgentLinks::Link {
  std::shared_ptr<const net::Endpoint> endpoint;
  std::string url;
  Instant heard;                             ///< the last time
  Instant looked_up;                         ///< its name, the last time
  std::set<std::string> engines;             ///< here, as far as it has said
  std::set<std::string> others;              ///< that it says, too, and another agent said first
  std::map<std::string, std::string> facts;  ///< as it has said them last
  bool differs = false;
  std::int64_t started_unix_us = 0;  ///< of the agent that has numbered the next two; 0: it does not say
  std::int64_t next_decision = 0;
  std::int64_t next_step = 0;
  bool polling = false;
  /// Messages of one kind, one at a time.
  struct Outgoing {
    bool sending = false;
    std::string body;     ///< on its way
    std::string refused;  ///< why the newest one was, as logged; empty: it was accepted
  };
  Outgoing commands;
  Instant sent;          ///< the newest command
  bool waiting = false;  ///< until kWorkGap after it
  Outgoing places;
};

class AgentLinks::Poll final : public net::ResponseHandler {
 public:
  Poll(AgentLinks& links, Link& link) : links_(links), link_(link) {}
  void on_head(int status, const net::HeaderFields&, std::int64_t) override { status_ = status; }
  void on_body(std::string_view bytes) override {
    if (answer_.size() + bytes.size() <= kAnswerMax) answer_.append(bytes);
  }
  void on_end() override {
    link_.polling = false;
    if (status_ == 200) links_.polled(link_, answer_, sent_);
  }
  void on_failure(net::CallFailure) override {
    link_.polling = false;
    links_.unreached(link_);
  }

 private:
  AgentLinks& links_;
  Link& link_;
  Instant sent_ = net::steady_now();
  std::string answer_;
  int status_ = 0;
};

/// `flush` sends the next of its kind.
class AgentLinks::Send final : public net::ResponseHandler {
 public:
  Send(AgentLinks& links, const Link& link, Link::Outgoing& kind, void (AgentLinks::*flush)())
      : links_(links), link_(link), kind_(kind), flush_(flush) {}
  void on_head(int status, const net::HeaderFields&, std::int64_t) override { status_ = status; }
  void on_body(std::string_view bytes) override { answer_.append(bytes.substr(0, kReasonMax - answer_.size())); }
  void on_end() override {
    kind_.sending = false;
    say(status_ == 200 ? std::string() : problem_of(answer_, status_));
    if (status_ != 200) return;  // as after a failure
    (links_.*flush_)();          // what was decided meanwhile
  }
  /// The next renewal tries again; until then the old lease holds, or the agent's fallback.
  void on_failure(net::CallFailure) override { kind_.sending = false; }

 private:
  /// Once, until it changes.
  void say(std::string refused) {
    if (kind_.refused == refused) return;
    kind_.refused = std::move(refused);
    if (kind_.refused.empty())
      return net::log_line(net::LogLevel::Info, "the agent takes this gateway's commands again",
                           {{"agent", link_.url}});
    net::log_line(net::LogLevel::Error, "an agent refuses this gateway's commands",
                  {{"agent", link_.url}, {"why", kind_.refused}});
  }

  AgentLinks& links_;
  const Link& link_;
  Link::Outgoing& kind_;
  void (AgentLinks::*flush_)();
  std::string answer_;
  int status_ = 0;
};

namespace {
std::string flag_of(const std::string& url) { return "--agent " + url; }
}  // namespace

AgentLinks::AgentLinks(const AgentLinksOptions& options, std::vector<std::unique_ptr<Link>> links)
    : options_(options),
      links_(std::move(links)),
      waking_(std::make_shared<Waking>(*this)),
      resolver_(options.look_up) {}

AgentLinks::~AgentLinks() { stop(); }

Result<void> AgentLinks::check(const AgentLinksOptions& options) {
  for (const auto& url : options.urls) {
    if (const auto read = net::normalised_url(url, flag_of(url)); !read) return std::unexpected(read.error());
  }
  return {};
}

Result<std::unique_ptr<AgentLinks>> AgentLinks::make(const AgentLinksOptions& options) {
  std::vector<std::unique_ptr<Link>> links;
  for (const auto& url : options.urls) {
    auto endpoint = net::Resolver(options.look_up).now_or_later(url, flag_of(url));
    if (!endpoint) return std::unexpected(endpoint.error());
    links.push_back(std::make_unique<Link>());
    links.back()->url = url;
    links.back()->endpoint = std::make_shared<const net::Endpoint>(std::move(*endpoint));
  }
  return std::unique_ptr<AgentLinks>(new AgentLinks(options, std::move(links)));
}

void AgentLinks::start(Listener listener) {
  loop_.post([this, taken = std::move(listener)] {
    listener_ = taken;
    client_ = std::make_unique<net::HttpClient>(loop_, net::ClientOptions::within(options_.lease));
    poll_all();
  });
  loop_.every(options_.poll_period, [this] { poll_all(); });
  loop_.every(options_.lease / 4, [this] { renew(); });
}

void AgentLinks::stop() {
  if (std::exchange(stopped_, true)) return;
  loop_.run([this] { client_.reset(); });
  loop_.stop();
}

InstanceId AgentLinks::know(const std::string& engine, InstanceId instance) {
  const std::lock_guard lock(mutex_);
  std::erase_if(engines_, [&](const auto& known) { return known.second == instance && known.first != engine; });
  const auto [place, fresh] = engines_.try_emplace(engine, instance);
  if (fresh || place->second == instance) return kNoInstance;
  const InstanceId before = std::exchange(place->second, instance);
  drop(before);
  return before;
}

void AgentLinks::forget(InstanceId instance) {
  const std::lock_guard lock(mutex_);
  std::erase_if(engines_, [instance](const auto& engine) { return engine.second == instance; });
  drop(instance);
}

void AgentLinks::drop(InstanceId instance) {
  wanted_.erase(instance);
  placed_.erase(instance);
  work_.erase(instance);
  handed_over_.erase(instance);
  finished_.erase(instance);
}

InstanceId AgentLinks::instance_of(const std::string& engine) const {
  const std::lock_guard lock(mutex_);
  const auto found = engines_.find(engine);
  return found == engines_.end() ? kNoInstance : found->second;
}

void AgentLinks::command(InstanceId instance, MegaHertz clock, Instant) {
  {
    const std::lock_guard lock(mutex_);
    wanted_[instance] = {clock, true};
  }
  flush_soon();
}

class AgentLinks::Waking final : public net::Deferred {
 public:
  explicit Waking(AgentLinks& links) : links_(links) {}
  void on_turn_end() override {
    links_.waits_for_turn_ = false;
    links_.flush_soon();
  }

 private:
  AgentLinks& links_;
};

/// What a client's loop has to send goes out before our thread is woken: it may want that loop's processor.
void AgentLinks::flush_after_turn() {
  net::Loop* const caller = net::Loop::current();
  if (caller == nullptr) return flush_soon();
  if (!waits_for_turn_.exchange(true)) caller->at_turn_end(waking_);
}

/// Once, however many want it meanwhile.
void AgentLinks::flush_soon() {
  if (flushing_.exchange(true)) return;
  loop_.post([this] {
    flushing_ = false;
    flush_now();
  });
}

void AgentLinks::place(InstanceId instance, const Placed& placed) {
  {
    const std::lock_guard lock(mutex_);
    placed_[instance] = {placed, true};
  }
  loop_.post([this] { flush_places(); });
}

void AgentLinks::work(InstanceId instance, const control::InstanceWork& work) {
  bool begins = false;  // to be urgent: from then on a flush is on its way, or a timer for one
  {
    const std::lock_guard lock(mutex_);
    Work& known = work_[instance];
    const bool urgent =
        (known.now.requests == 0) != (work.requests == 0) || (known.now.prompts == 0 && work.prompts > 0);
    begins = urgent && !known.urgent;
    known = {work, true, known.urgent || urgent};
  }
  if (begins) flush_after_turn();
}

void AgentLinks::handed_over(InstanceId instance, Span age, Span wait) {
  const std::lock_guard lock(mutex_);
  auto& unsent = handed_over_[instance];
  if (unsent.size() == kHandOversKept) unsent.erase(unsent.begin());
  unsent.push_back({age, wait});
}

void AgentLinks::finished(InstanceId instance, ClassId request_class, bool late) {
  const std::lock_guard lock(mutex_);
  Finished& unsent = finished_[instance][request_class];
  if (unsent.requests == kFinishedKept) return;
  ++unsent.requests;
  unsent.late += late ? 1 : 0;
}

void AgentLinks::poll_all() {
  if (!client_) return;
  flush(true);
  for (const auto& link : links_) {
    if (std::exchange(link->polling, true)) continue;
    std::string asked = fmt::format("/engines?after={}", link->next_decision);
    if (listener_.steps) asked += fmt::format("&steps={}", link->next_step);
    if (link->started_unix_us != 0) asked += fmt::format("&of={}", link->started_unix_us);
    client_->send(link->endpoint, "GET", asked, {}, {}, std::make_shared<Poll>(*this, *link));
  }
}

/// Once nothing holds any more that was said to it, another agent may have its engines. And its name may lead
/// elsewhere.
void AgentLinks::unreached(Link& link) {
  const Instant now = net::steady_now();
  if (now - link.heard >= options_.lease) link.engines.clear();
  if (now - link.looked_up < kLookUpGap) return;
  link.looked_up = now;
  resolver_.again(link.url, [this, &link](Result<net::Endpoint> found) {
    if (!found) return;
    loop_.post([&link, place = std::make_shared<const net::Endpoint>(std::move(*found))] { link.endpoint = place; });
  });
}

/// An engine is the first agent's that says so, for as long as that does: each has meters that count from its own
/// start, and what one has counted is no reading of the other's. Returns what was the link's before.
std::set<std::string> AgentLinks::sort_out(Link& link, const AgentAnswer& report) {
  std::set<std::string> has, others;
  for (const auto& engine : report.engines) {
    const auto first = std::ranges::find_if(
        links_, [&](const auto& other) { return other.get() != &link && other->engines.contains(engine.name); });
    (first == links_.end() ? has : others).insert(engine.name);
    if (first == links_.end() || link.others.contains(engine.name)) continue;
    net::log_line(net::LogLevel::Error, "two agents say that they have an engine; what the second says is not heard",
                  {{"engine", engine.name}, {"agent", (*first)->url}, {"second", link.url}});
  }
  link.others = std::move(others);
  return std::exchange(link.engines, std::move(has));
}

void AgentLinks::polled(Link& link, const std::string& answer, Instant sent) {
  const Instant received = net::steady_now();
  const Instant middle = sent + (received - sent) / 2;
  const auto report = read_agent_answer(answer);
  if (!report) return;
  link.heard = received;
  const auto before = sort_out(link, *report);
  const auto mine = [&](const std::string& name) {
    return link.engines.contains(name) ? instance_of(name) : kNoInstance;
  };
  for (const auto& engine : report->engines) {
    const InstanceId instance = mine(engine.name);
    if (instance == kNoInstance || !engine.energy_uj) continue;
    listener_.reading({instance, Picojoules(Int128{*engine.energy_uj} * 1'000'000), engine.power, engine.clock,
                       engine.commanded, middle, engine.emulated, report->started_unix_us});
  }
  if (report->facts != link.facts) compare(link, report->facts);
  link.started_unix_us = report->started_unix_us;
  link.next_decision = report->next_decision;
  for (const auto& d : report->decisions) {
    journal::DecisionRecord record;
    record.kind = journal::DecisionKind::Clock;
    record.at = d.at + (middle - *report->now);
    record.instance = mine(d.engine);
    record.mode = d.mode;
    record.value = d.clock.value();
    record.reason = journal::kept_text(d.reason);
    if (record.instance != kNoInstance) listener_.decision(record);
  }
  link.next_step = report->next_step;
  std::vector<MeasuredStep> steps;
  for (const auto& m : report->steps) {
    const InstanceId instance = mine(m.engine);
    if (instance != kNoInstance) steps.push_back({instance, m.step});
  }
  if (!steps.empty() && listener_.steps) listener_.steps(std::move(steps));
  if (link.engines == before) return;
  flush(true);  // commands may have waited for it
  flush_places();
}

void AgentLinks::compare(Link& link, const std::map<std::string, std::string>& facts) {
  link.facts = facts;
  std::vector<std::string> differences;
  for (const auto& [name, said] : facts) {
    const auto ours = options_.facts.find(name);
    if (ours == options_.facts.end() || ours->second == said) continue;
    differences.push_back(fmt::format("{} is {} there, {} here", name, said, ours->second));
  }
  const bool before = std::exchange(link.differs, !differences.empty());
  differing_ += (link.differs ? 1 : 0) - (before ? 1 : 0);
  if (options_.differ && (before || link.differs)) options_.differ(link.url, differences);
}

void AgentLinks::renew() {
  {
    const std::lock_guard lock(mutex_);
    for (auto& [instance, wanted] : wanted_) wanted.dirty = true;
    for (auto& [instance, placed] : placed_) placed.dirty = true;
    for (auto& [instance, work] : work_) work.dirty = true;
  }
  flush(true);
  flush_places();
}

void AgentLinks::flush(bool all) {
  if (!client_) return;
  for (const auto& link : links_) {
    if (link->commands.sending) continue;
    const Instant now = net::steady_now();
    bool commands = false;
    bool urgent = false;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& engine : link->engines) {
        const auto instance = engines_.find(engine);
        if (instance == engines_.end()) continue;
        const auto wanted = wanted_.find(instance->second);
        commands = commands || (wanted != wanted_.end() && wanted->second.dirty);
        const auto known = work_.find(instance->second);
        urgent = urgent || (known != work_.end() && known->second.urgent);
      }
    }
    const bool early = now - link->sent < kWorkGap;
    if (!all && !commands && urgent && early && !std::exchange(link->waiting, true)) {
      loop_.after(kWorkGap, [this, l = link.get()] {
        l->waiting = false;
        flush_now();
      });
    }
    if (!all && !commands && (!urgent || early)) continue;
    auto clocks = nlohmann::ordered_json::array();
    auto work = nlohmann::ordered_json::array();
    auto handed_over = nlohmann::ordered_json::array();
    auto finished = nlohmann::ordered_json::array();
    {
      const std::lock_guard lock(mutex_);
      for (const auto& engine : link->engines) {
        const auto instance = engines_.find(engine);
        if (instance == engines_.end()) continue;
        const auto wanted = wanted_.find(instance->second);
        if (wanted != wanted_.end() && std::exchange(wanted->second.dirty, false)) {
          clocks.push_back({{"engine", engine}, {"clock_mhz", wanted->second.clock.value()}});
        }
        for (const HandedOver& one : std::exchange(handed_over_[instance->second], {})) {
          handed_over.push_back(
              {{"engine", engine}, {"age_us", one.age.ns() / 1'000}, {"wait_us", one.wait.ns() / 1'000}});
        }
        for (const auto& [request_class, n] : std::exchange(finished_[instance->second], {})) {
          finished.push_back(
              {{"engine", engine}, {"class", request_class.value()}, {"requests", n.requests}, {"late", n.late}});
        }
        const auto known = work_.find(instance->second);
        if (known == work_.end() || !std::exchange(known->second.dirty, false)) continue;
        known->second.urgent = false;
        const auto& w = known->second.now;
        // Nobody knows since when requests of others wait, and ours may have come after `now`: an agent refuses ages
        // below 0.
        const auto age_us = [now](Instant since) { return std::max<std::int64_t>(0, (now - since).ns() / 1'000); };
        work.push_back({{"engine", engine},
                        {"requests", w.requests},
                        {"context_tokens", w.context_tokens},
                        {"prompts", w.prompts},
                        {"prompt_tokens", w.prompt_tokens},
                        {"oldest_us", w.prompts > 0 ? age_us(w.oldest) : 0},
                        {"computing", w.computing},
                        {"computing_tokens", w.computing_tokens},
                        {"computing_us", w.computing > 0 ? age_us(w.computing_since) : 0},
                        {"output_tokens", w.output_tokens},
                        {"delivered",
                         {{"prompts", w.delivered.prompts},
                          {"prompt_tokens", w.delivered.prompt_tokens},
                          {"waits_us", w.delivered.waits.ns() / 1'000},
                          {"computing_us", w.delivered.computing.ns() / 1'000},
                          {"tokens", w.delivered.tokens},
                          {"gaps_us", w.delivered.gaps.ns() / 1'000}}}});
      }
    }
    if (clocks.empty() && work.empty() && handed_over.empty() && finished.empty()) continue;
    link->commands.sending = true;
    link->sent = now;
    nlohmann::ordered_json body{
        {"lease_ms", options_.lease.ns() / 1'000'000}, {"gateway", options_.name}, {"clocks", clocks}, {"work", work}};
    if (!handed_over.empty()) body["handed_over"] = std::move(handed_over);
    if (!finished.empty()) body["finished"] = std::move(finished);
    link->commands.body = body.dump();
    client_->send(link->endpoint, "POST", "/clocks", "Content-Type: application/json\r\n", link->commands.body,
                  std::make_shared<Send>(*this, *link, link->commands, &AgentLinks::flush_now));
  }
}

void AgentLinks::flush_places() {
  if (!client_) return;
  for (const auto& link : links_) {
    if (link->places.sending) continue;
    auto engines = nlohmann::ordered_json::array();
    {
      const std::lock_guard lock(mutex_);
      for (const auto& engine : link->engines) {
        const auto instance = engines_.find(engine);
        if (instance == engines_.end()) continue;
        const auto placed = placed_.find(instance->second);
        if (placed == placed_.end() || !std::exchange(placed->second.dirty, false)) continue;
        const Placed& said = placed->second.placed;
        nlohmann::ordered_json one{{"engine", engine}, {"pool", said.pool.value()}};
        if (said.objectives) one["objectives"] = nlohmann::ordered_json::parse(journal::slo_text(*said.objectives));
        if (const auto& range = said.range) {
          one["least_mhz"] = range->least.value();
          one["most_mhz"] = range->most.value();
        }
        engines.push_back(std::move(one));
      }
    }
    if (engines.empty()) continue;
    link->places.sending = true;
    link->places.body = nlohmann::ordered_json{
        {"lease_ms", options_.lease.ns() / 1'000'000},
        {"gateway", options_.name},
        {"engines",
         engines}}.dump();
    client_->send(link->endpoint, "POST", "/plan", "Content-Type: application/json\r\n", link->places.body,
                  std::make_shared<Send>(*this, *link, link->places, &AgentLinks::flush_places));
  }
}

}  // namespace wattle::gateway
