// TensorBoard event files, which `tensorboard --logdir FOLDER` shows. The protobuf messages are encoded here by hand.
//
// A file is a sequence of records, each with one Event message. All numbers are little-endian:
//   uint64 length   uint32 masked(crc32c(length))   length bytes of the Event   uint32 masked(crc32c(these bytes))
//   masked(c) = rotate_right(c, 15) + 0xa282ead8
// TensorBoard reads the files of a folder in the order of their names, and each folder as one run.
//
// TensorFlow, core/lib/io/record_writer.h (records) and core/util/event.proto; TensorBoard, compat/proto/summary.proto
// and plugins/hparams/{api,plugin_data}.proto; Protocol Buffers, "Encoding" (protobuf.dev).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/io/posix_file.hpp"

namespace heed::train {

struct Scalar {
  std::string_view tag;  // "train/loss": TensorBoard groups tags by the text before the slash
  double value = 0;      // stored as f32
};

struct PngImage {
  int64_t width = 0, height = 0;  // pixels
  std::string_view png;           // the bytes of a PNG file
};

// A hyperparameter of the run.
struct Hparam {
  std::string name;
  std::variant<bool, double, std::string> value;
};

// Status of tensorboard/plugins/hparams/api.proto, with its numbers.
enum class SessionStatus { success = 1, failure = 2 };

// CRC-32C (Castagnoli; RFC 3720, appendix B.4): reflected polynomial 0x82F63B78, initial value and final xor
// 0xFFFFFFFF.
uint32_t crc32c(std::string_view bytes);
// The record of an Event message.
std::string event_record(std::string_view event);

// Event messages. wall_time: seconds since 1970; step: the number of steps done.
std::string file_version_event(double wall_time);
// The start of a process that writes this step first: TensorBoard drops what earlier files have of this step and later
// ones. The first start of a run drops nothing, but is needed: only later ones count as restarts.
std::string session_start_event(double wall_time, int64_t first_step);
std::string scalars_event(double wall_time, int64_t step, const std::vector<Scalar>& scalars);
std::string image_event(double wall_time, int64_t step, std::string_view tag, const PngImage& image);
// For the hparams dashboard. Its metrics are all scalars of the run. TensorBoard uses only the first event of each
// kind.
std::string hparams_event(double wall_time, const std::vector<Hparam>& hparams);
std::string hparams_end_event(double wall_time, SessionStatus status);

// The time in the name of an event file, "events.out.tfevents.<10 digits>.<host>.<process>.<number>" (seconds since
// 1970); nullopt if the file name has another form.
std::optional<int64_t> event_file_time(std::string_view file_name);

// Writes a new event file. Records are collected in memory and written by flush(), or once they exceed 64 KiB; the
// file therefore always ends with a complete record, unless a write fails. Every function throws CheckpointError with
// the file and the reason.
class EventFile {
 public:
  // Creates the file in `folder`, which must exist, under a name that sorts after those of all event files there; then
  // adds the file version and the session start at first_step.
  EventFile(const std::filesystem::path& folder, int64_t first_step);
  ~EventFile();  // flushes; an error is ignored
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // The functions below add an event with the current time.
  void add_scalars(int64_t step, const std::vector<Scalar>& scalars);
  void add_image(int64_t step, std::string_view tag, const PngImage& image);
  void add_hparams(const std::vector<Hparam>& hparams);
  void add_hparams_end(SessionStatus status);

  void flush();
  // Returns when the events are durable (fsync).
  void sync();

 private:
  void add(std::string_view event);

  data::PosixFile file_;
  int64_t written_bytes_ = 0;
  std::string unwritten_;
};

}  // namespace heed::train
