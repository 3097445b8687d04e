// Atomic, durable replacement of a file: at any moment, also after a kill or a power failure, the file has either its
// complete old content or its complete new content.
//
// The bytes are written to the temporary file ".<name>.heed-<process id>" in the same directory and flushed to the
// disk. The temporary file is then renamed to the final name, and the directory is flushed. On any failure before the
// rename (no space, size limit, I/O error, no permission) the temporary file is removed and the old file stays
// unchanged. If only the flush of the directory fails, the new file is already in place. Exceeding the size limit
// (ulimit -f) is such a failure, too: its signal SIGXFSZ does not end the process.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace heed::train {

// The directory must exist. Calls are serialized within the process.
// Throws CheckpointError with only the reason: the caller adds the name of the file.
void write_file_durably(const std::filesystem::path& path, std::string_view bytes);

// The name of the temporary file for a file of this name.
std::string temporary_name(std::string_view file_name);
// Whether this is the name of a temporary file that a killed write_file_durably() left.
bool is_temporary_name(std::string_view file_name);

}  // namespace heed::train
