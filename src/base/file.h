#pragma once
// Whole files in and out, with errors that name the file and the remedy.
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"

namespace wattle {

/// The file's bytes. Errors: missing file, a directory, no permission (BadInput, where = path).
[[nodiscard]] Result<std::string> read_file(const std::string& path);

/// Writes over the file; an error may leave part of it. Errors: External, where = path.
[[nodiscard]] Result<void> write_file(const std::string& path, std::string_view bytes);
/// Whether write_file() could open the file, asked before work that takes time; makes nothing. Errors: as write_file().
[[nodiscard]] Result<void> check_writable(const std::string& path);
/// Replaces the file in one step: a reader finds all of it or what was there before, which an error leaves as it was.
/// One writer at a time. Pipes and terminals are written to directly. Errors: External, where = path.
[[nodiscard]] Result<void> replace_file(const std::string& path, std::string_view bytes);

/// The folder named by TMPDIR, or /tmp if that is unset.
[[nodiscard]] std::filesystem::path temporary_folder();

}  // namespace wattle
