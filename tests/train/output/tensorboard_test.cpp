// The expected bytes are those of TensorBoard's own protobuf classes and checksums.
#include "train/output/tensorboard.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "autograd/core/check.hpp"
#include "tests/train/tiny.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using test::read_file;

// 1.5 seconds; step 300; step 0.
const std::string kTime = "\x09\0\0\0\0\0\0\xF8\x3F"s, kStep = kTime + "\x10\xAC\x02", kNoStep = kTime + "\x10\0"s;

TEST(TensorBoard, Crc32c) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, appendix B.4
}

TEST(TensorBoard, TheRecordOfAScalar) {
  const std::string event = scalars_event(1.5, 300, {{"train/loss", 2.5}});
  EXPECT_EQ(event, kStep + "*\x13\n\x11\n\ntrain/loss\x15\0\0\x20\x40"s);
  EXPECT_EQ(event_record(event), "\x21\0\0\0\0\0\0\0\x01\x7B\xEC\xF6"s + event + "\xB4\xCA\x3A\x3B"s);
}

TEST(TensorBoard, OneEventHoldsSeveralScalars) {
  const std::string x = "\n\x08\n\x01x\x15\0\0\x20\x40"s, y = "\n\x08\n\x01y\x15\0\0\0\0"s;
  EXPECT_EQ(scalars_event(1.5, 300, {{"x", 2.5}, {"y", 0}}), kStep + "*\x14" + x + y);
}

TEST(TensorBoard, AnImage) {
  EXPECT_EQ(image_event(1.5, 300, "x", {.width = 3, .height = 2, .png = "PNG"}),
            kStep + "*\x10\n\x0E\n\x01x\"\x09\x08\x02\x10\x03\"\x03PNG");
}

TEST(TensorBoard, TheStartOfAProcess) {
  EXPECT_EQ(file_version_event(1.5), kNoStep + "\x1A\rbrain.Event:2");
  EXPECT_EQ(session_start_event(1.5, 51), kTime + "\x10\x33:\x02\x08\x01");
}

TEST(TensorBoard, Hyperparameters) {
  const std::string tensor = "B\x06\x08\x01\x12\x02\x12\0"s, plugin = "\n\x07hparams\x12";
  const std::string number = "\n\x0E\n\x01n\x12\x09\x11\0\0\0\0\0\0\xD0\x3F"s, text = "\n\x08\n\x01t\x12\x03\x1A\x01x",
                    flag = "\n\x07\n\x01y\x12\x02\x20\x01", start_time = "\x29\0\0\0\0\0\0\xF8\x3F"s;
  EXPECT_EQ(hparams_event(1.5, {{"n", 0.25}, {"t", "x"s}, {"y", true}}),
            kNoStep + "*e\nc\n\x1C_hparams_/session_start_info" + tensor + "J;\n9" + plugin + ".\x1A," + number + text +
                flag + start_time);
  EXPECT_EQ(hparams_end_event(1.5, SessionStatus::failure), kNoStep + "*B\n@\n\x1A_hparams_/session_end_info" + tensor +
                                                                "J\x1A\n\x18" + plugin +
                                                                "\r\"\x0B\x08\x02\x11\0\0\0\0\0\0\xF8\x3F"s);
}

TEST(TensorBoard, NamesOfEventFiles) {
  EXPECT_EQ(event_file_time("events.out.tfevents.1700000000.host.12.0"), 1700000000);
  EXPECT_EQ(event_file_time("events.out.tfevents.0000000007.node-1.example.org.12.34"), 7);
  for (const char* name : {"", "events", "events.out.tfevents.1700000000", "events.out.tfevents.1700000000.",
                           "events.out.tfevents.1.host.12.0", "events.out.tfevents.170000000x.host.12.0",
                           "events.out.tfevents.17000000000.host.12.0", "events.out.tfevents.1700000000.12.0",
                           "events.out.tfevents.1700000000..12.0", "events.out.tfevents.1700000000.host.12.",
                           "events.out.tfevents.1700000000.host.x.0", "events.out.tfevents.1700000000.host.12.0.v2",
                           "my.events.out.tfevents.1700000000.host.12.0"}) {
    EXPECT_EQ(event_file_time(name), std::nullopt) << name;
  }
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST(TensorBoard, AFileSortsAfterAllOthers) {
  const test::TemporaryFolder folder;
  const std::string of_a_clock_ahead = "events.out.tfevents.4000000000.host.12.0";
  std::ofstream(folder.path() / of_a_clock_ahead) << "older";
  const EventFile first(folder.path(), 1), second(folder.path(), 1);
  const std::vector<fs::path> files = files_of(folder.path());
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].filename(), of_a_clock_ahead);
  EXPECT_EQ(event_file_time(files[1].filename().string()), 4000000001);
  EXPECT_EQ(event_file_time(files[2].filename().string()), 4000000002);
  EXPECT_THROW(EventFile(folder.path() / "missing", 1), CheckpointError);
}

TEST(TensorBoard, AFileHoldsWholeRecordsAtAnyTime) {
  const test::TemporaryFolder folder;
  const size_t record = event_record(scalars_event(1.5, 1, {{"x", 1}})).size(), many = 10000;
  size_t start = 0;
  {
    EventFile file(folder.path(), 1);
    const auto size = [&] { return read_file(files_of(folder.path()).at(0)).size(); };
    file.flush();
    start = size();
    file.add_scalars(1, {{"x", 1}});
    EXPECT_EQ(size(), start);
    file.flush();
    EXPECT_EQ(size(), start + record);
    for (size_t i = 1; i < many; ++i) file.add_scalars(1, {{"x", 1}});
    EXPECT_GT(size(), start + many / 2 * record);
    EXPECT_LT(size(), start + many * record);
    EXPECT_EQ((size() - start) % record, 0u);
  }
  EXPECT_EQ(read_file(files_of(folder.path()).at(0)).size(), start + many * record);
}

}  // namespace
}  // namespace heed::train
