#pragma once
// A temporary folder for tests and for runs that need files.
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/file.h"

namespace wattle {

/// Created with a unique name; removed with everything in it by the destructor. If it cannot be created, writing to its
/// files fails.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (temporary_folder() / "wattle-scratch-XXXXXX").string();
    (void)mkdtemp(pattern.data());
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  /// Writes a file, with the folders of its name; returns its path.
  std::string write(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace wattle
