#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "commands.h"
#include "net/secret.h"

namespace wattle::apps {

void add_key(Command app, int& exit_code) {
  Command command = app.add_subcommand("key", "Make an API key for wattle gateway --keys");
  struct Flags {
    std::string tenant;
    std::string note;
  };
  auto flags = std::make_shared<Flags>();
  command.add_option("tenant", flags->tenant, "Whose it is").required().check(not_empty());
  command.add_option("--note", flags->note, "A note on its purpose, stored in the file");
  command.callback([flags, &exit_code] {
    const std::string key = net::random_key("wattle-");
    nlohmann::ordered_json row{{"sha256", net::hex(net::sha256(key))}, {"tenant", flags->tenant}};
    if (!flags->note.empty()) row["note"] = flags->note;
    fmt::print("key, for the client; it is kept nowhere:\n  {}\nline of \"keys\" in the keys file:\n  {}\n", key,
               row.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    exit_code = 0;
  });
}

}  // namespace wattle::apps
