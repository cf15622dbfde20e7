// What becomes of a request when something goes wrong: docs/faults.md is what this test finds. WATTLE_WRITE_DOCS=1
// writes the page again.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/file.h"
#include "gateway/rig_test.h"
#include "net/await_test.h"
#include "net/raw_server_test.h"

namespace wattle::gateway {
namespace {

using Change = std::function<void(GatewayOptions&)>;

using RawEngine = net::RawServer;

/// In words.
std::string client_saw(const std::string& answer) {
  if (answer.empty()) return "the connection closes";
  std::string out = answer.substr(9, 3);
  const std::string body = answer.substr(std::min(answer.find("\r\n\r\n"), answer.size()));
  if (out != "200") {
    const auto error = nlohmann::json::parse(Rig::body_of(answer), nullptr, false);
    if (error.is_object() && error.contains("error")) out += ": " + error["error"].value("message", "");
    return answer.find("Retry-After") != std::string::npos ? out + " (Retry-After)" : out;
  }
  if (body.find("data: {\"error\"") != std::string::npos) return "200, then an error event";
  if (body.find("data: ") == std::string::npos) return out;
  return body.find("[DONE]") != std::string::npos ? "200, the whole stream" : "200, then the end of the connection";
}

class FaultTable : public testing::Test {
 protected:
  void heading(const std::string& text) {
    page_ +=
        "\n## " + text + "\n\n| what happens | the client sees | sent | booked | counted |\n|---|---|---|---|---|\n";
  }
  /// `sent`: to engines, so many times; below 0: that is not the question.
  void row(const std::string& fault, const std::string& answer, Rig& rig, int sent) {
    const auto counts = rig.settled();
    std::string booked;
    const auto fate = [&](std::int64_t count, const char* name) {
      if (count == 0) return;
      booked += (booked.empty() ? "" : ", ") + std::string(name) + (count > 1 ? " " + std::to_string(count) : "");
    };
    fate(counts.finished, "finished");
    fate(counts.rejected, "rejected");
    fate(counts.failed, "failed");
    fate(counts.cancelled, "cancelled");
    if (counts.arrived == 0) booked = "no request";
    const std::string metrics = rig.admin("/metrics");
    std::string counted;
    for (const char* name : {"retries_total 1", "resent_total 1", "worker_failures_total"}) {
      const std::size_t at = metrics.find("\nwattle_gateway_" + std::string(name));
      if (at != std::string::npos) counted += (counted.empty() ? "`" : ", `") + std::string(name) + "`";
    }
    if (const std::size_t one = counted.find(" 1`"); one != std::string::npos) counted.erase(one, 2);
    page_ += "| " + fault + " | " + client_saw(answer) + " | " + (sent < 0 ? "" : std::to_string(sent)) + " | " +
             booked + " | " + counted + " |\n";
    EXPECT_EQ(counts.arrived, counts.finished + counts.rejected + counts.failed + counts.cancelled) << fault;
  }
  /// The first worker stands at `url`, the others are sound.
  std::string with_first(const std::string& fault, const std::string& url, bool sibling, int requests = 1) {
    Rig rig(sibling ? std::vector{Role::Colocated, Role::Colocated} : std::vector{Role::Colocated}, 64, "",
            [&](GatewayOptions& options, GatewayPolicies&) {
              options.workers.front().url = url;
              options.threads = 1;  // one loop, one set of kept connections
            });
    std::string answer;
    for (int i = 0; i < requests; ++i) answer = stream(rig, "");
    row(fault, answer, rig, -1);
    return answer;
  }
  static std::string stream(Rig& rig, const std::string& user, const std::string& extra = "") {
    net::RawClient client(rig.gateway->port());
    client.send(Rig::chat(user, true, extra + "Connection: close\r\n"));
    return client.all();
  }
  void streamed(const std::string& fault, const std::string& user, const Change& change = nullptr,
                std::vector<Role> roles = {Role::Colocated}) {
    Rig rig(std::move(roles), 64, "", [&](GatewayOptions& options, GatewayPolicies&) {
      if (change) change(options);
    });
    const std::string answer = stream(rig, user);
    row(fault, answer, rig, rig.upstream.seen_count());
  }
  void unreachable();
  void before_first_byte();
  void in_its_stream();
  void prefill_and_decode();
  void clients();
  std::string page_;
};

void short_first_byte(GatewayOptions& options) { options.client.head_timeout = Span::ms(100); }
void short_gap(GatewayOptions& options) { options.client.body_timeout = Span::ms(100); }

void probing(GatewayOptions& options) {
  options.probe_health = true;
  options.probe_timeout = Span::ms(300);
  options.health_period = Span::ms(20);
  options.lost_after = Span::ms(300);
}

void wait_ready(Rig& rig, int workers) {
  for (int i = 0; i < workers; ++i) {
    await([&] { return rig.ready(i); });
  }
}

void FaultTable::unreachable() {
  heading("An engine that cannot be reached");
  with_first("refuses connections, another is there", "http://127.0.0.1:1", true);
  with_first("refuses connections, no other", "http://127.0.0.1:1", false);
  {
    RawEngine closing([](int, int fd) {
      if (!RawEngine::read_request(fd)) return;
      RawEngine::say(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
      const std::string events =
          Upstream::token(0) + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
      std::ostringstream chunk;
      chunk << std::hex << events.size() << "\r\n" << events << "\r\n0\r\n\r\n";
      RawEngine::say(fd, chunk.str());
      // It keeps the connection, and closes it the moment the next request comes: no byte of an answer.
      RawEngine::read_request(fd);
    });
    with_first("closes a kept connection as the next request goes out on it (sent again on a new one)", closing.url(),
               false, 2);
  }
}

void FaultTable::before_first_byte() {
  heading("An engine that fails before its first byte");
  {
    RawEngine dying([](int, int fd) { RawEngine::read_request(fd); });
    with_first("dies with the request, another is there", dying.url(), true);
    with_first("dies with the request, no other (sent to it once more)", dying.url(), false);
    RawEngine garbage([](int, int fd) {
      if (RawEngine::read_request(fd)) RawEngine::say(fd, "\x16\x03\x01 what?\r\n\r\n");
    });
    with_first("answers no HTTP", garbage.url(), true);
    with_first("answers no HTTP, no other (sent to it once more)", garbage.url(), false);
    RawEngine packed([](int, int fd) {
      if (!RawEngine::read_request(fd)) return;
      RawEngine::say(fd, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b");
    });
    with_first("answers with a `Content-Encoding`, no other (sent to it once more)", packed.url(), false);
    RawEngine broken([](int, int fd) {
      const char* const answer =
          "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: 31\r\n\r\n"
          "{\"error\":{\"message\":\"CUDA OOM\"}}";
      if (RawEngine::read_request(fd)) RawEngine::say(fd, answer);
    });
    with_first("answers 500 (relayed as it is)", broken.url(), true);
  }
  streamed("refuses the request (422, relayed as it is)", "refuse");
  for (const bool alone : {false, true}) {
    Upstream second;
    Rig rig(alone ? std::vector{Role::Colocated} : std::vector{Role::Colocated, Role::Colocated}, 64, "",
            [&](GatewayOptions& options, GatewayPolicies&) { options.workers.back().url = second.url(); });
    (alone ? second : rig.upstream).other_model = true;
    const std::string answer = stream(rig, "");
    row(alone ? "answers 404, no other (sent to it three times more, relayed as it is)"
              : "answers 404: it was started again with another model; another is there",
        answer, rig, rig.upstream.seen_count() + second.seen_count());
  }
  streamed("sends nothing for `--first-byte-timeout-s`", "silent", short_first_byte);
  for (const char* fault : {"hangs: no health probe is answered, another engine is there",
                            "the same, and the answer is no stream", "the same while it drains"}) {
    Upstream second;
    Rig rig({Role::Colocated, Role::Colocated}, 64, "", [&](GatewayOptions& options, GatewayPolicies&) {
      probing(options);
      options.workers.back().url = second.url();
    });
    wait_ready(rig, 2);
    rig.upstream.hangs = true;
    const std::string name = fault;
    net::RawClient client(rig.gateway->port());
    client.send(Rig::chat("", name.starts_with("hangs"), "Connection: close\r\n"));
    await([&] { return rig.upstream.seen_count() == 1; });
    if (name.ends_with("drains")) rig.ask_admin("DELETE /workers/0 HTTP/1.1\r\nHost: h\r\n\r\n");
    rig.upstream.answers_health = false;
    const std::string answer = client.all();
    row(fault, answer, rig, rig.upstream.seen_count() + second.seen_count());
  }
  for (const bool wait : {false, true}) {
    Rig rig({Role::Colocated}, 64, "", [&](GatewayOptions& options, GatewayPolicies&) {
      probing(options);
      if (wait) options.unready_wait = Span::s(60);
    });
    wait_ready(rig, 1);
    rig.upstream.hangs = true;
    rig.upstream.answers_health = false;
    net::RawClient client(rig.gateway->port());
    client.send(Rig::chat("", false));
    if (wait) {  // it comes back
      await([&] { return rig.gateway->counts().held >= 1; });
      rig.upstream.hangs = false;
      rig.upstream.answers_health = true;
    }
    const std::string answer = client.response();
    row(wait ? "hangs, no other, and is back within `--unready-wait-s`"
             : "hangs, no other, and `--unready-wait-s` passes",
        answer, rig, rig.upstream.seen_count());
  }
}

void FaultTable::in_its_stream() {
  heading("An engine that fails in its stream");
  streamed("dies: the connection breaks", "die-midway");
  streamed("ends the stream without `[DONE]`", "no-done");
  streamed("says that it failed, then `[DONE]` (relayed as it is)", "error-done");
  streamed("says `[DONE]`, and no choice had finished", "no-finish");
  streamed("sends nothing for `--gap-timeout-s`", "park", short_gap);
  streamed("says `[DONE]`, and leaves its answer open for `--gap-timeout-s`", "stays-open", short_gap);
  {
    Rig rig({Role::Colocated}, 64, "", [](GatewayOptions& options, GatewayPolicies&) { probing(options); });
    wait_ready(rig, 1);
    net::RawClient client(rig.gateway->port());
    client.send(Rig::chat("park", true, "Connection: close\r\n"));
    const std::string first = client.until("t0");
    rig.upstream.answers_health = false;
    const std::string rest = client.all();
    row("hangs: no health probe is answered", first + rest, rig, 1);
  }
}

void FaultTable::prefill_and_decode() {
  heading("Prefill and decode apart (vLLM's contract)");
  const std::vector<Role> pair{Role::Prefill, Role::Decode};
  streamed("prefill refuses the request", "refuse", nullptr, pair);
  streamed("prefill dies with the request", "die", nullptr, pair);
  streamed("prefill sends nothing for `--first-byte-timeout-s`", "silent", short_first_byte, pair);
  streamed("prefill says nothing of its KV (decode computes the prompt again)", "no-params", nullptr, pair);
  {
    Upstream second;
    Rig rig({Role::Prefill, Role::Decode, Role::Decode}, 64, "",
            [&](GatewayOptions& options, GatewayPolicies&) { options.workers[1].url = second.url(); });
    second.drops = true;
    const std::string answer = stream(rig, "");
    row("decode dies before its first byte, another is there (from prefill on, again)", answer, rig,
        rig.upstream.seen_count() + second.seen_count());
  }
  streamed("decode dies in its stream", "die-midway", nullptr, pair);
  streamed("decode sends nothing for `--gap-timeout-s`", "park", short_gap, pair);
  {
    Rig rig(pair, 64, "",
            [](GatewayOptions& options, GatewayPolicies&) { options.workers.back().url = "http://127.0.0.1:1"; });
    const std::string answer = stream(rig, "");
    row("decode refuses the connection, no other", answer, rig, 1);
  }
}

void FaultTable::clients() {
  heading("Clients");
  const auto client = [&](const std::string& fault, const std::string& bytes, const Change& change = nullptr) {
    Rig rig({Role::Colocated}, 1, "", [&](GatewayOptions& options, GatewayPolicies&) {
      if (change) change(options);
    });
    net::RawClient raw(rig.gateway->port());
    raw.send(bytes);
    const std::string answer = raw.all();
    row(fault, answer, rig, rig.upstream.seen_count());
  };
  client("header byte by byte (slow-loris), beyond 10 s", "POST /v1/chat/completions HTTP/1.1\r\nHost:",
         [](GatewayOptions& options) { options.listen.header_timeout = Span::ms(100); });
  client("body that does not come, beyond 60 s",
         "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n{",
         [](GatewayOptions& options) { options.listen.body_timeout = Span::ms(100); });
  client("garbage", "\x01\x02\x03\r\n\r\n");
  client("header above 32 KiB", "GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(40'000, 'x') + "\r\n\r\n");
  client("body above `--max-body-bytes`", Rig::post(std::string(5000, ' ')));
  client("TLS where plain text is spoken", "\x16\x03\x01\x02\x01\x01\r\n\r\n");
  {
    Rig rig;
    net::RawClient raw(rig.gateway->port());
    raw.send(Rig::chat("park", true));
    raw.until("t0");
    raw.close();
    row("leaves in the middle (the engine stops)", "", rig, 1);
    page_.replace(page_.rfind("the connection closes"), std::string("the connection closes").size(), "");
  }
  {
    Rig rig;
    net::RawClient raw(rig.gateway->port());
    raw.send(Rig::chat("park", true));
    raw.until("t0");
    ::shutdown(raw.descriptor(), SHUT_WR);
    raw.all();
    row("closes its half of the connection (taken for leaving)", "", rig, 1);
  }
  {
    Rig rig({Role::Colocated}, 1);
    net::RawClient first(rig.gateway->port());
    first.send(Rig::chat("park", true));
    first.until("t0");
    const std::string answer = rig.ask(Rig::chat("", false));
    first.close();
    row("more requests than `--max-requests` (one of them is under way)", answer, rig, 1);
  }
}

TEST_F(FaultTable, IsWhatTheDocumentSays) {
  unreachable();
  before_first_byte();
  in_its_stream();
  prefill_and_decode();
  clients();
  page_ +=
      "\n## Shown elsewhere\n\n- 64 descriptors and 200 clients: `ctest -R e2e.few_descriptors`\n- engines and agents "
      "killed (while streaming, too), hung and slowed by fourteen scripts: `ctest -R e2e.fault_scripts`; the gateway "
      "killed, the disk full: `ctest -R e2e.journal_survives`\n- both "
      "legs "
      "at once (SGLang's contract): `gateway_test --gtest_filter=Bootstrap.*`\n- keys, limits, addresses: "
      "`gateway_test --gtest_filter=Security.*`\n- the agent, its guardian, both, or the container of both killed with "
      "-9, the agent or its guardian stopped: "
      "`ctest -R e2e.kills` (no clock stays locked once the guardian, the next start or `wattle agent --unlock` has "
      "run; the systemd unit's `ExecStopPost` does the latter), on AMD SMI `ctest -R e2e.amd_smi.kills`\n- Zeus' "
      "daemon "
      "away, of another kind, or refusing: `ctest -R e2e.zeusd`; GPUs that take no lock: `ctest -R e2e.power_caps`; a "
      "watt "
      "budget that cannot be kept: `ctest -R e2e.watt_budget`\n";
  const std::string head =
      "# Faults\n\nMade by `gateway_test --gtest_filter=FaultTable.*` (`WATTLE_WRITE_DOCS=1` writes it again; without, "
      "a "
      "difference fails). *Sent*: to engines, so many times. *Booked*: the request's one fate. *Counted*: beside that, "
      "`wattle_gateway_` goes before it.\n";
  const std::string path = WATTLE_SOURCE_DIR "/docs/faults.md";
  if (std::getenv("WATTLE_WRITE_DOCS") != nullptr) std::ofstream(path, std::ios::trunc) << head << page_;
  EXPECT_EQ(read_file(path).value_or(""), head + page_);
}

}  // namespace
}  // namespace wattle::gateway
