// Writing a file so that at any moment, also after a kill or a power cut, either the old or the new one is there whole.
//
// The bytes go to ".<name>.heed-<process id>" in the same folder, are flushed to the disk, and take the name by a
// rename, which is flushed too. On any failure (no space, size limit, input/output error, no permission) the temporary
// is removed and the old file stays as it is. A size limit (ulimit -f) is such an error too: the signal SIGXFSZ that
// comes with it does not end the process.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace heed::train {

// The folder must be there. One call at a time; others wait.
// Throws CheckpointError with the reason only: the caller knows what the file is.
void write_file_durably(const std::filesystem::path& path, std::string_view bytes);

// The name of the temporary for a file of this name.
std::string temporary_name(std::string_view file_name);
// Whether this is the name of a temporary that a killed write_file_durably() left.
bool is_temporary_name(std::string_view file_name);

}  // namespace heed::train
