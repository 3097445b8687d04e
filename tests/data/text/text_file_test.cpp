#include "data/text/text_file.hpp"

#include <gtest/gtest.h>

#include "data/batch_loader.hpp"
#include "data/prepare.hpp"
#include "data/text_dataset.hpp"
#include "data/token_file.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text, test::ScratchFolder;

struct Normal {
  std::string text, changes;
};

Normal normalized(TextForm form, const std::string& text, size_t piece_bytes) {
  TextNormalizer normalizer(form);
  Normal normal;
  for (size_t begin = 0; begin < text.size(); begin += piece_bytes) {
    normalizer.add(std::string_view(text).substr(begin, piece_bytes), begin + piece_bytes >= text.size(), normal.text);
  }
  normal.changes = normalizer.changes();
  return normal;
}

TEST(TextForm, LeavesOutTheMarkAndReturnsBeforeLineFeeds) {
  const std::string text =
      "\xEF\xBB\xBF"
      "a\r\n\r\nb\rc\n\xEF\xBB\xBF\r\r\nd\r\r";
  for (const size_t piece_bytes : {size_t{100}, size_t{3}, size_t{4}, size_t{5}}) {
    const Normal as_text = normalized(TextForm::text, text, piece_bytes);
    EXPECT_EQ(as_text.text, "a\n\nb\rc\n\xEF\xBB\xBF\nd\r\r");
    EXPECT_EQ(as_text.changes, "byte order mark removed, 3 CRLF line endings converted to LF");
    const Normal as_lines = normalized(TextForm::lines, text, piece_bytes);
    EXPECT_EQ(as_lines.text, "a\n\nb\rc\n\xEF\xBB\xBF\nd");
    EXPECT_EQ(as_lines.changes, "byte order mark removed, 4 CRLF line endings converted to LF");
    EXPECT_EQ(normalized(TextForm::bytes, text, piece_bytes).text, text);
    EXPECT_EQ(normalized(TextForm::bytes, text, piece_bytes).changes, "");
  }
  EXPECT_EQ(normalized(TextForm::text, "a\nb\r", 1).text, "a\nb\r");
  EXPECT_EQ(normalized(TextForm::text, "a\nb\r", 1).changes, "");
  std::string inside;
  TextNormalizer(TextForm::text, false).add("\xEF\xBB\xBFx", true, inside);
  EXPECT_EQ(inside, "\xEF\xBB\xBFx");
}

TEST(TextForm, DependsOnTheTokenizer) {
  EXPECT_EQ(text_form(TokenizerKind::character, false), TextForm::text);
  EXPECT_EQ(text_form(TokenizerKind::bpe, false), TextForm::text);
  EXPECT_EQ(text_form(TokenizerKind::byte, false), TextForm::bytes);
  EXPECT_EQ(text_form(TokenizerKind::byte, true), TextForm::lines);
  EXPECT_EQ(text_form(TokenizerKind::character, true), TextForm::lines);
}

// The same tokens from the text and from its token file, and neither mark nor CR among them.
TEST(TextForm, IsThatOfTheTextAndOfItsTokenFile) {
  std::string text = "\xEF\xBB\xBF";
  for (int i = 0; i < 60; ++i) text += "a b\r\nb a\r\n";
  for (const TokenizerKind kind : {TokenizerKind::character, TokenizerKind::byte, TokenizerKind::bpe}) {
#ifndef HEED_HAVE_SENTENCEPIECE
    if (kind == TokenizerKind::bpe) continue;
#endif
    const ScratchFolder folder;
    PrepareConfig prepare;
    prepare.text_path = folder.write("text.txt", text);
    prepare.output_path = folder.path("tokens.h5");
    prepare.tokenizer = kind;
    prepare.vocab_size = 258;
    prepare_token_file(prepare);
    const TokenFile file(prepare.output_path);
    std::vector<int32_t> tokens(file.size());
    file.read(0, tokens);
    const bool is_byte = kind == TokenizerKind::byte;
    const std::string decoded = file.tokenizer()->decode(tokens);
    EXPECT_EQ(decoded.size(), is_byte ? 603u : 480u);
    EXPECT_EQ(decoded.find('\r') != std::string::npos, is_byte);
    EXPECT_EQ(decoded.starts_with("\xEF\xBB\xBF"), is_byte);
    if (kind == TokenizerKind::character) {
      EXPECT_EQ(file.tokenizer()->vocab_size(), 4);
    }
    EXPECT_EQ(file.provenance().source_bytes, 603);
    TextConfig config;
    config.path = prepare.text_path;
    config.tokenizer = kind;
    config.vocab_size = 258;
    config.seq_len = 8;
    const auto source = make_text_dataset(config);
    const std::string changes = is_byte ? "" : "byte order mark removed, 120 CRLF line endings converted to LF";
    EXPECT_EQ(source->text_changes(), changes);
    EXPECT_EQ(make_token_dataset({prepare.output_path, 1, 8})->text_changes(), changes);
    EXPECT_EQ(source->fingerprint(), make_token_dataset({prepare.output_path, 1, 8})->fingerprint());
    EXPECT_EQ(describe_token_file(prepare.output_path).find("120 CRLF") != std::string::npos, !is_byte);
  }
}

TEST(TextForm, NoCarriageReturnIsPartOfALine) {
  const ScratchFolder folder;
  TextConfig config;
  config.split = TextSplit::lines;
  config.parts.val_fraction = 0;
  config.seq_len = 8;
  for (const TokenizerKind kind : {TokenizerKind::character, TokenizerKind::byte}) {
    config.tokenizer = kind;
    config.path = folder.write("unix.txt", "emma\nava\nmia");
    const auto expected = make_text_dataset(config);
    config.path = folder.write("dos.txt",
                               "\xEF\xBB\xBF"
                               "emma\r\nava\r\nmia\r");
    const auto source = make_text_dataset(config);
    EXPECT_EQ(source->fingerprint(), expected->fingerprint());
    EXPECT_EQ(source->vocab_size(), kind == TokenizerKind::byte ? 257 : 6);
    EXPECT_EQ(source->text_changes(), "byte order mark removed, 3 CRLF line endings converted to LF");
  }
}

// The offset is that in the file, not in what it becomes.
TEST(TextForm, AByteThatIsNoUtf8IsFoundInTheFile) {
  const ScratchFolder folder;
  TextConfig config;
  config.path = folder.write("text.txt",
                             "\xEF\xBB\xBF"
                             "a\r\nb\r\n\xFF");
  config.seq_len = 2;
  EXPECT_TRUE(contains(error_text<DataError>([&] { make_text_dataset(config); }), {config.path, "0xff", "offset 9"}));
}

}  // namespace
}  // namespace heed::data
