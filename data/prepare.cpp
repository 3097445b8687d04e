#include "data/prepare.hpp"

#include <filesystem>

#include "autograd/core/check.hpp"
#include "data/io/atomic_file.hpp"
#include "data/io/checksum.hpp"
#include "data/io/utf8.hpp"
#include "data/splits.hpp"
#include "data/text/text_encoding.hpp"
#include "data/token_file.hpp"

namespace heed::data {

void prepare_token_file(const PrepareConfig& config, const Progress& progress) {
  split_by_fractions(0, config.val_fraction, config.test_fraction);
  const TextFile text(config.text_path);
  require<DataError>(text.size() > 0, "{} is empty, it has no tokens", text.name());
  std::error_code ignored;
  require<DataError>(!std::filesystem::exists(std::filesystem::symlink_status(config.output_path, ignored)),
                     "{} is there already: choose another name or remove it", quoted_path(config.output_path));
  NewFile output(config.output_path);

  const std::unique_ptr<Tokenizer> tokenizer =
      make_tokenizer(text, {config.tokenizer, config.vocab_size, false, config.tokenizer_file}, progress);
  TokenFileWriter writer(output.working_path(), *tokenizer, text.size(), quoted_path(config.output_path));
  Checksum sum;
  const std::string changes = encode_file(
      text, *tokenizer,
      [&](std::span<const int32_t> tokens, std::string_view bytes) {
        writer.append(tokens);
        sum.update(bytes.data(), static_cast<int64_t>(bytes.size()));
      },
      progress);
  const std::string source_name = std::filesystem::path(config.text_path).filename().string();
  writer.finish(split_by_fractions(writer.size(), config.val_fraction, config.test_fraction),
                {source_name, text.size(), fmt::format("{:016x}", sum.value()), config.written_by, changes});
  output.commit();
}

std::string describe_token_file(const std::string& path, const Progress& progress) {
  const TokenFile file(path);
  file.verify(progress);
  const Provenance& from = file.provenance();
  const auto [train, validation, test] = file.sizes();
  const std::string changes = from.source_changes.empty() ? "" : "\nnormalized    " + printable(from.source_changes);
  return fmt::format(
      "file          {}\n"
      "tokens        {} ({}), every one checked\n"
      "splits        {} training, {} validation, {} test\n"
      "tokenizer     {}, {} entries\n"
      "from          {}, {} bytes ({:.3f} a token), XXH64 {}{}\n"
      "written by    {}\n",
      file.name(), file.size(), hdf5_type_name(file.type()), train, validation, test,
      tokenizer_name(file.tokenizer()->kind()), file.tokenizer()->vocab_size(), quoted_text(from.source_name),
      from.source_bytes, static_cast<double>(from.source_bytes) / static_cast<double>(file.size()),
      printable(from.source_checksum), changes, printable(from.written_by));
}

}  // namespace heed::data
