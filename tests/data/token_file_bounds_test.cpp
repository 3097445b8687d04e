// Token files at the bounds of their types and blocks.
#include <gtest/gtest.h>

#include <numeric>

#include "autograd/core/check.hpp"
#include "data/text/char_tokenizer.hpp"
#include "data/text/tokenizer.hpp"
#include "data/token_file.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::ScratchFolder;
using Ids = std::vector<int32_t>;

std::string write_tokens(const ScratchFolder& folder, const Tokenizer& tokenizer, const Ids& tokens) {
  TokenFileWriter writer(folder.path("tokens.h5"), tokenizer, 0);
  writer.append(tokens);
  writer.finish({static_cast<int64_t>(tokens.size()), 0, 0}, {"story.txt", 1, "0", "test"});
  return folder.path("tokens.h5");
}

// The last token of the largest vocabulary for two bytes, and of the smallest for four.
TEST(TokenFileBounds, TwoBytesHold65536Tokens) {
  for (const int32_t vocab_size : {65'535, 65'536, 65'537}) {
    const ScratchFolder folder;
    std::vector<char32_t> characters(static_cast<size_t>(vocab_size));
    std::iota(characters.begin(), characters.end(), char32_t{0x10000});
    const Ids tokens = {0, vocab_size - 1, 1};
    const TokenFile file(write_tokens(folder, CharTokenizer(characters, false), tokens));
    EXPECT_EQ(file.type(), vocab_size <= 65'536 ? Hdf5Type::u16 : Hdf5Type::u32) << vocab_size;
    Ids read(3);
    file.read(0, read);
    EXPECT_EQ(read, tokens) << vocab_size;
  }
}

// Three whole blocks and a part.
TEST(TokenFileBounds, VerifyReadsTheFirstBlockAndTheLast) {
  Ids tokens(200'000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7919 % 256);
  const std::vector<uint16_t> stored(tokens.begin(), tokens.end());
  const auto* bytes = reinterpret_cast<const char*>(stored.data());
  const std::string first(bytes, 400), last(bytes + 2 * (stored.size() - 200), 400);
  const ScratchFolder folder;
  const std::string path = write_tokens(folder, ByteTokenizer(false), tokens);
  TokenFile(path).verify();
  const std::string whole = folder.read("tokens.h5");
  for (const size_t place : {whole.find(first), whole.rfind(last) + 399}) {
    ASSERT_LT(place, whole.size());
    std::string damaged = whole;
    damaged[place] ^= 1;
    const TokenFile file(folder.write("damaged.h5", damaged));
    EXPECT_THROW(file.verify(), DataError) << "byte " << place;
  }
}

}  // namespace
}  // namespace heed::data
