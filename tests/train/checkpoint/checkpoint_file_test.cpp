#include "train/checkpoint/checkpoint_file.hpp"

#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/support/child_process.hpp"
#include "tests/train/checkpoint/checkpoint_samples.hpp"
#include "train/checkpoint/hdf5_image.hpp"

namespace heed::train {
namespace {

using namespace test;

// Names with and without folders, shapes with and without elements, some hundred or a few values.
CheckpointContent random_content(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned limit) { return static_cast<int64_t>(random() % limit); };
  CheckpointContent content;
  const int64_t values = below(seed % 4 == 0 ? 1000 : 60);
  const unsigned max_rows = 1U << below(14);
  for (int64_t i = 0; i < values; ++i) {
    std::string name = fmt::format("{}{}", std::string(static_cast<size_t>(below(60)), 'x'), i);
    for (int64_t folders = below(4); folders > 0; --folders) name = fmt::format("folder.{}/{}", below(20), name);
    const int64_t kind = below(6);
    if (kind < 3) content.tensors[name] = full({below(max_rows), 3}, kind == 0 ? DType::f64 : DType::f32, 1);
    if (kind == 3) content.integers[name] = i;
    if (kind == 4) content.reals[name] = 0.5;
    if (kind == 5) content.texts[name] = std::string(static_cast<size_t>(below(max_rows)), 'a');
  }
  return content;
}

class CheckpointFileTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "last.h5";
};

TEST_F(CheckpointFileTest, EveryKindComesBackBitForBit) {
  save_checkpoint(path_, sample_content());
  EXPECT_EQ(verify_checkpoint(path_), std::nullopt);
  const CheckpointContent loaded = load_checkpoint(path_);
  expect_same(loaded, sample_content());
  EXPECT_EQ(loaded.file, path_.string());
  EXPECT_EQ(names_in(folder_.path()), std::vector<std::string>{"last.h5"});
}

TEST_F(CheckpointFileTest, NothingComesBackAsNothing) {
  save_checkpoint(path_, {});
  expect_same(load_checkpoint(path_), {});
}

// More bytes than one step of reading, and so many values that HDF5 stores their names in another way.
TEST_F(CheckpointFileTest, MuchComesBackBitForBit) {
  CheckpointContent content;
  for (int i = 0; i < 1500; ++i) {
    const std::string name = fmt::format("parameters/blocks.{}.feed_forward.weight", i);
    content.tensors[name] = full({i % 5, 3}, DType::f32, i);
    content.tensors[fmt::format("folder.{}/weight", i % 40)] = full({2}, DType::f64, i);
    content.integers[fmt::format("count.{}", i)] = i;
  }
  content.tensors["large"] = full({700, 1000}, DType::f32, 0.3);
  content.texts["large"] = std::string(3'000'001, 'x') + '\0';
  save_checkpoint(path_, content);
  expect_same(load_checkpoint(path_), content);
}

// A part may begin and end anywhere.
TEST_F(CheckpointFileTest, PartsOfAFileAreThoseOfTheWhole) {
  const CheckpointContent content = random_content(3);
  const std::string whole = content_to_image(content);
  const Hdf5Layout layout = lay_out(content);
  ASSERT_EQ(layout.size(), whole.size());
  std::mt19937 random(1);
  for (size_t step : {size_t{1}, size_t{7}, size_t{1000}, size_t{100'000}}) {
    for (int repeat = 0; repeat < 300; ++repeat) {
      const size_t begin = random() % whole.size();
      std::string part(std::min(step, whole.size() - begin), 'x');
      layout.copy(static_cast<int64_t>(begin), part);
      ASSERT_TRUE(part == whole.substr(begin, part.size())) << begin << " " << part.size();
    }
  }
}

TEST_F(CheckpointFileTest, ASaveReplacesWhatWasThere) {
  save_checkpoint(path_, sample_content(1));
  CheckpointContent second;
  second.integers["step"] = 2;
  save_checkpoint(path_, second);
  expect_same(load_checkpoint(path_), second);
}

TEST_F(CheckpointFileTest, TheSameContentGivesTheSameBytes) {
  save_checkpoint(path_, sample_content());
  const std::string first = read_file(path_);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // timestamps would count seconds
  save_checkpoint(path_, sample_content());
  EXPECT_TRUE(read_file(path_) == first);
}

// What other programs rely on: the block is a user block of HDF5, whose own file follows it.
TEST_F(CheckpointFileTest, AnHdf5FileFollowsTheBlock) {
  save_checkpoint(path_, sample_content());
  const std::string bytes = read_file(path_);
  EXPECT_EQ(bytes.substr(0, 16), "heed checkpoint\n");
  EXPECT_EQ(bytes.substr(kBlockBytes, 8), "\x89HDF\r\n\x1a\n");
}

TEST_F(CheckpointFileTest, AValueThatIsMissingIsNamed) {
  CheckpointContent content = sample_content();
  content.tensors.erase("parameters/blocks.0.norm.weight");
  save_checkpoint(path_, content);
  const CheckpointContent loaded = load_checkpoint(path_);
  const std::string start = "checkpoint " + path_.string() + ": dataset ";
  EXPECT_EQ(checkpoint_error([&] { loaded.tensor("parameters/blocks.0.norm.weight", DType::f32, {2}); }),
            start + "tensors/parameters/blocks.0.norm.weight is missing");
  EXPECT_EQ(checkpoint_error([&] { loaded.integer("steps"); }), start + "integers/steps is missing");
  EXPECT_EQ(checkpoint_error([&] { loaded.real("step"); }), start + "reals/step is missing");
  EXPECT_EQ(checkpoint_error([&] { loaded.text("tokenizer"); }), start + "texts/tokenizer is missing");
}

TEST_F(CheckpointFileTest, ATensorThatIsAnotherOneIsNamedWithBoth) {
  save_checkpoint(path_, sample_content());
  const CheckpointContent loaded = load_checkpoint(path_);
  const std::string name = "parameters/blocks.0.attention.qkv.weight";
  EXPECT_EQ(checkpoint_error([&] { loaded.tensor(name, DType::f32, {3, 4}); }), "no error");
  expect_text(checkpoint_error([&] {
                loaded.tensor(name, DType::f32, {4, 3});
              }),
              "dataset tensors/" + name + " is f32 of shape (3, 4), it must be f32 of shape (4, 3)");
  expect_text(checkpoint_error([&] { loaded.tensor(name, DType::f64, {3, 4}); }), "it must be f64 of shape (3, 4)");
}

TEST_F(CheckpointFileTest, NamesThatCannotBeStoredAreRefused) {
  for (const std::string& name : {std::string(), std::string("a b"), std::string("a\0b", 3), std::string("/a"),
                                  std::string("a/"), std::string("a//b"), std::string("."), std::string("a/../b"),
                                  std::string("\xC3\xA4"), std::string("a\n"), std::string(201, 'a')}) {
    CheckpointContent content;
    content.texts[name] = "";
    EXPECT_THROW(save_checkpoint(path_, content), ValueError) << name;
  }
  CheckpointContent both;
  both.integers = {{"a", 1}, {"a.b", 1}, {"a/b", 2}};
  EXPECT_THROW(save_checkpoint(path_, both), ValueError);
  CheckpointContent empty_handle;
  empty_handle.tensors["a"] = Tensor();
  EXPECT_THROW(save_checkpoint(path_, empty_handle), ValueError);
  EXPECT_FALSE(std::filesystem::exists(path_));

  CheckpointContent longest;
  longest.integers = {{std::string(200, 'a'), 1}, {"a.b/c", 2}, {"a", 3}, {"...", 4}, {"~!\"#$%&'()*", 5}};
  save_checkpoint(path_, longest);
  expect_same(load_checkpoint(path_), longest);
}

TEST_F(CheckpointFileTest, TheSizeOfAFileIsKnownBeforeItIsMade) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const CheckpointContent content = random_content(seed);
    save_checkpoint(path_, content);
    EXPECT_EQ(checkpoint_file_bytes(content), std::filesystem::file_size(path_)) << "seed " << seed;
  }
  save_checkpoint(path_, {});
  EXPECT_EQ(checkpoint_file_bytes({}), std::filesystem::file_size(path_));
}

TEST_F(CheckpointFileTest, TheSizeOfAFileIsKnownBeforeItsTensorsAreThere) {
  CheckpointContent content = sample_content();
  std::vector<TensorSpec> specs;
  for (int i = 299; i >= 0; --i) {
    const std::string name = fmt::format("parameters/blocks.{}.feed_forward.weight", i);
    const Shape shape{i, 7};
    specs.push_back({name, shape, i % 2 == 0 ? DType::f32 : DType::f64});
    content.tensors[name] = full(shape, specs.back().dtype, i);
  }
  save_checkpoint(path_, content);
  EXPECT_EQ(checkpoint_file_bytes(sample_content(), specs), std::filesystem::file_size(path_));
  // Terabytes take no memory.
  const std::vector<TensorSpec> huge = {{"huge", {int64_t{1} << 20, int64_t{1} << 20}, DType::f32}};
  EXPECT_EQ(checkpoint_file_bytes({}, huge) >> 40, 4);
}

#ifndef HEED_ADDRESS_SANITIZER
int64_t kibibytes_of(std::string_view line) {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key; status.ignore(1000, '\n')) {
    int64_t value = 0;
    if (key == line && status >> value) return value;
  }
  return -1;
}

// The tensors are written from where they are; with HDF5's metadata of many of them, too.
TEST_F(CheckpointFileTest, ASaveTakesNoSecondCopyOfTheTensors) {
  CheckpointContent content;
  content.tensors["large"] = full({8 << 20}, DType::f32, 0.5);
  for (int i = 0; i < 512; ++i) content.tensors[fmt::format("parameters/{}", i)] = full({16 << 10}, DType::f32, i);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins again
  const int64_t before = kibibytes_of("VmHWM:"), now = kibibytes_of("VmRSS:");
  if (before < 0 || before > now + 1024) GTEST_SKIP() << "this system does not let a process begin its peak again";
  save_checkpoint(path_, content);
  EXPECT_GT(std::filesystem::file_size(path_), 64 << 20);
  EXPECT_LT(kibibytes_of("VmHWM:") - before, 8 << 10);
}

// No memory for a part is a lack of memory, not a bad checkpoint, and is known before anything is written.
TEST_F(CheckpointFileTest, NoMemoryForAPartOfTheFile) {
  const std::string outcome = in_child([&]() -> std::string {
    const rlimit limit{1 << 20, 1 << 20};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) return "no limit";
    static void* taken[64];                                     // static, so that no allocation is optimised away
    for (void*& block : taken) block = std::malloc(512 << 10);  // takes what the heap has already
    try {
      save_checkpoint(path_, sample_content());
    } catch (const MemoryError& error) {
      return error.what();
    }
    return "saved";
  });
  expect_text(outcome, "out of memory: 1048576 bytes asked for (a checkpoint)");
  EXPECT_EQ(names_in(folder_.path()), std::vector<std::string>{});
}
#endif

TEST_F(CheckpointFileTest, ErrorsNameTheFileByItsFullPath) {
  expect_refused(std::filesystem::relative(folder_.path()) / "none.h5", "No such file or directory");
}

}  // namespace
}  // namespace heed::train
