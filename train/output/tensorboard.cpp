#include "train/output/tensorboard.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <system_error>

#include "autograd/core/check.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNameStart = "events.out.tfevents.";
constexpr size_t kTimeDigits = 10, kMostUnwrittenBytes = 64 * 1024;

void append_little_endian(std::string& bytes, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
}

// A protobuf message. Every field is written, also one that has its default value.
class Message {
 public:
  Message& integer(int field, uint64_t value) {  // int32, int64, bool, enum
    key(field, 0);
    varint(value);
    return *this;
  }
  Message& real(int field, double value) {
    key(field, 1);
    append_little_endian(bytes_, std::bit_cast<uint64_t>(value), 8);
    return *this;
  }
  Message& real(int field, float value) {
    key(field, 5);
    append_little_endian(bytes_, std::bit_cast<uint32_t>(value), 4);
    return *this;
  }
  Message& text(int field, std::string_view value) {  // string, bytes
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int wire_type) { varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

Message event(double wall_time, int64_t step) {
  return Message().real(1, wall_time).integer(2, static_cast<uint64_t>(step));
}

// The Event of a Summary with one Value.
std::string value_event(double wall_time, int64_t step, const Message& value) {
  return event(wall_time, step).message(5, Message().message(1, value)).bytes();
}

// The hparams dashboard reads its data from the metadata of a tag. The tensor has shape (0): a value without one would
// be skipped.
std::string plugin_event(double wall_time, std::string_view tag, const Message& plugin_data) {
  constexpr uint64_t kFloat = 1;
  const Message shape = Message().message(2, Message());
  const Message plugin = Message().text(1, "hparams").text(2, plugin_data.bytes());
  return value_event(wall_time, 0,
                     Message()
                         .text(1, tag)
                         .message(8, Message().integer(1, kFloat).message(2, shape))
                         .message(9, Message().message(1, plugin)));
}

Message to_message(const Hparam& hparam) {  // google.protobuf.Value
  if (const bool* flag = std::get_if<bool>(&hparam.value)) return Message().integer(4, *flag ? 1 : 0);
  if (const double* number = std::get_if<double>(&hparam.value)) return Message().real(2, *number);
  return Message().text(3, std::get<std::string>(hparam.value));
}

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0u);
    table[byte] = crc;
  }
  return table;
}();

uint32_t masked(uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8u; }

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Removes the text after the last dot, and returns it; the whole text if it has none.
std::string_view take_last_part(std::string_view& text) {
  const size_t dot = text.rfind('.');
  const std::string_view part = text.substr(dot + 1);  // npos + 1 is 0
  text = text.substr(0, dot == text.npos ? 0 : dot);
  return part;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  std::string host = name.data();
  std::replace(host.begin(), host.end(), '/', '_');
  return host;
}

std::string new_file(const fs::path& folder) {
  auto time = static_cast<int64_t>(now());
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    // Also if the clock was set back, or both processes started in the same second.
    if (const auto other = event_file_time(entry->path().filename().string())) time = std::max(time, *other + 1);
  }
  require<CheckpointError>(!error, "cannot list {}: {}", folder.string(), error.message());
  return (folder / fmt::format("{}{:0{}}.{}.{}.0", kNameStart, time, kTimeDigits, host_name(), ::getpid())).string();
}

// What data::PosixFile throws, as the error of a file of the run folder.
template <class Call>
auto writing(Call call) {
  try {
    return call();
  } catch (const DataError& error) {
    throw CheckpointError(error.what());
  }
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char c : bytes) crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

std::string event_record(std::string_view event) {
  std::string record;
  append_little_endian(record, event.size(), 8);
  append_little_endian(record, masked(crc32c(record)), 4);
  record += event;
  append_little_endian(record, masked(crc32c(event)), 4);
  return record;
}

std::string file_version_event(double wall_time) { return event(wall_time, 0).text(3, "brain.Event:2").bytes(); }

std::string session_start_event(double wall_time, int64_t first_step) {
  constexpr uint64_t kStart = 1;
  return event(wall_time, first_step).message(7, Message().integer(1, kStart)).bytes();
}

std::string scalars_event(double wall_time, int64_t step, const std::vector<Scalar>& scalars) {
  Message summary;
  for (const Scalar& scalar : scalars) {
    summary.message(1, Message().text(1, scalar.tag).real(2, static_cast<float>(scalar.value)));
  }
  return event(wall_time, step).message(5, summary).bytes();
}

std::string image_event(double wall_time, int64_t step, std::string_view tag, const PngImage& image) {
  const Message content = Message()
                              .integer(1, static_cast<uint64_t>(image.height))
                              .integer(2, static_cast<uint64_t>(image.width))
                              .text(4, image.png);
  return value_event(wall_time, step, Message().text(1, tag).message(4, content));
}

std::string hparams_event(double wall_time, const std::vector<Hparam>& hparams) {
  Message start;
  for (const Hparam& one : hparams) start.message(1, Message().text(1, one.name).message(2, to_message(one)));
  start.real(5, wall_time);
  return plugin_event(wall_time, "_hparams_/session_start_info", Message().message(3, start));
}

std::string hparams_end_event(double wall_time, SessionStatus status) {
  const Message end = Message().integer(1, static_cast<uint64_t>(status)).real(2, wall_time);
  return plugin_event(wall_time, "_hparams_/session_end_info", Message().message(4, end));
}

std::optional<int64_t> event_file_time(std::string_view file_name) {
  if (!file_name.starts_with(kNameStart)) return {};
  std::string_view host = file_name.substr(kNameStart.size());
  const std::string_view time = host.substr(0, kTimeDigits);
  if (time.size() != kTimeDigits || !is_number(time) || !host.substr(kTimeDigits).starts_with('.')) return {};
  host.remove_prefix(kTimeDigits + 1);
  const std::string_view number = take_last_part(host), process = take_last_part(host);
  if (!is_number(number) || !is_number(process) || host.empty()) return {};
  int64_t seconds = 0;
  std::from_chars(time.data(), time.data() + time.size(), seconds);
  return seconds;
}

EventFile::EventFile(const fs::path& folder, int64_t first_step)
    : file_(writing([&] { return data::PosixFile(new_file(folder), data::PosixFile::Access::create); })) {
  add(file_version_event(now()));
  add(session_start_event(now(), first_step));
}

EventFile::~EventFile() {
  try {
    flush();
  } catch (const CheckpointError&) {
    // A destructor must not throw; who needs to know has called flush().
  }
}

void EventFile::add_scalars(int64_t step, const std::vector<Scalar>& scalars) {
  add(scalars_event(now(), step, scalars));
}

void EventFile::add_image(int64_t step, std::string_view tag, const PngImage& image) {
  add(image_event(now(), step, tag, image));
}

void EventFile::add_hparams(const std::vector<Hparam>& hparams) { add(hparams_event(now(), hparams)); }

void EventFile::add_hparams_end(SessionStatus status) { add(hparams_end_event(now(), status)); }

void EventFile::add(std::string_view event) {
  unwritten_ += event_record(event);
  if (unwritten_.size() > kMostUnwrittenBytes) flush();
}

void EventFile::flush() {
  writing([&] { file_.write(written_bytes_, unwritten_); });
  written_bytes_ += static_cast<int64_t>(unwritten_.size());
  unwritten_.clear();
}

void EventFile::sync() {
  flush();
  writing([&] { file_.sync(); });
}

}  // namespace heed::train
