#include "calibrate/profile_repository.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/file.h"

namespace wattle::calibrate {

namespace {

namespace fs = std::filesystem;
constexpr std::string_view kEnd = ".profile";

std::string file_name(std::string_view name, int version) { return fmt::format("{}.v{}{}", name, version, kEnd); }

/// Versions of the name in a folder, ascending. None where it cannot be read.
std::vector<int> versions(const std::string& folder, std::string_view name) {
  std::vector<int> found;
  std::error_code code;
  const std::string start = fmt::format("{}.v", name);
  for (fs::directory_iterator i(folder, code), end; !code && i != end; i.increment(code)) {
    const std::string file = i->path().filename().string();
    if (!file.starts_with(start) || !file.ends_with(kEnd)) continue;
    const std::string number = file.substr(start.size(), file.size() - start.size() - kEnd.size());
    int version = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), version);
    if (error == std::errc() && stop == number.data() + number.size() && version > 0) found.push_back(version);
  }
  std::ranges::sort(found);
  return found;
}

/// Under a name that no one else has, then in one step to its own, unless that exists. False: it does.
Result<bool> write_new(const std::string& folder, const std::string& file, const std::string& text) {
  std::error_code code;
  fs::create_directories(folder, code);
  const std::string path = (fs::path(folder) / file).string();
  const std::string unfinished = fmt::format("{}.{}.unfinished", path, getpid());
  if (auto ok = write_file(unfinished, text); !ok) return std::unexpected(ok.error());
  const bool linked = link(unfinished.c_str(), path.c_str()) == 0;
  const bool exists = fs::exists(path, code);
  fs::remove(unfinished, code);
  if (!linked && !exists) return external_failure(path, "cannot be written");
  return linked;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '@' || c == '.';
  });
}

}  // namespace

Result<std::optional<ProfileRepository::Found>> ProfileRepository::find(std::string_view name,
                                                                        std::optional<int> version) const {
  if (!is_name(name)) return bad_input(std::string(name), "is no profile's name; letters, digits and -_@. make one");
  const auto in_shared = shared_.empty() ? std::vector<int>{} : versions(shared_, name);
  const auto in_cache = cache_.empty() ? std::vector<int>{} : versions(cache_, name);
  const auto& known = in_shared.empty() ? in_cache : in_shared;
  if (known.empty()) return std::nullopt;
  const int wanted = version.value_or(known.back());
  if (std::ranges::find(known, wanted) == known.end()) {
    return bad_input(fmt::format("{} version {}", name, wanted),
                     fmt::format("is not in the repository; the newest is {}", known.back()));
  }
  const std::string file = file_name(name, wanted);
  const std::string cached = (fs::path(cache_) / file).string();
  const std::string global = (fs::path(shared_) / file).string();
  const auto shared = read_file(in_shared.empty() ? "" : global);
  const auto text = shared || cache_.empty() ? shared : read_file(cached);
  if (!text) return std::unexpected(text.error());
  const std::string& from = shared ? global : cached;
  auto table = plan::parse_load_table(*text, from);
  if (!table) return std::unexpected(table.error());
  if (shared) keep(file, *text);
  return Found{std::move(*table), wanted, from};
}

/// A cached file of this name may come from another directory.
void ProfileRepository::keep(const std::string& file, const std::string& text) const {
  if (cache_.empty()) return;
  const std::string path = (fs::path(cache_) / file).string();
  if (const auto had = read_file(path); had && *had == text) return;
  std::error_code code;
  fs::remove(path, code);
  (void)write_new(cache_, file, text);
}

Result<int> ProfileRepository::publish(std::string_view name, const plan::LoadTable& table) const {
  if (!is_name(name)) return bad_input(std::string(name), "is no profile's name; letters, digits and -_@. make one");
  if (auto ok = plan::check_load_table(table, std::string(name)); !ok) return std::unexpected(ok.error());
  const std::string text = plan::to_text(table);
  const std::string& home = shared_.empty() ? cache_ : shared_;
  if (home.empty()) return 0;
  for (;;) {
    const auto known = versions(home, name);
    const int next = known.empty() ? 1 : known.back() + 1;
    const auto made = write_new(home, file_name(name, next), text);
    if (!made) return std::unexpected(made.error());
    if (!*made) continue;  // another process was faster
    if (!shared_.empty()) keep(file_name(name, next), text);
    return next;
  }
}

}  // namespace wattle::calibrate
