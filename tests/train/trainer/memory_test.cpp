// The check of memory before a run, without a run: sizes and limits are made up.
#include "train/trainer/memory.hpp"

#include <gtest/gtest.h>

#include "autograd/core/check.hpp"
#include "nn/gpt.hpp"
#include "tests/train/tiny.hpp"
#include "train/comm/agreement.hpp"

namespace heed::train {
namespace {

using test::tiny_config;

constexpr int64_t kMiB = 1 << 20;

MemoryLimit machine(int64_t free, int64_t swap = 0) {
  return {.source = MemoryLimit::Source::machine, .free_bytes = free, .total_bytes = 2 * free, .swap_bytes = swap};
}

// 25 million parameters.
Config large_config(std::vector<std::string> more = {}) {
  more.insert(more.end(), {"model.d_model=1024", "model.num_layers=2"});
  return tiny_config(more);
}

TEST(MemoryCheck, CountsWhatIsKnownToTheByte) {
  const Config config = tiny_config();
  const nn::Gpt model(config.model, DType::f32);
  const int64_t parameters = model.parameters().parameters();
  const MemoryEstimate e = estimate_memory(config, Device::cpu);
  EXPECT_EQ(e.parameters, 4 * parameters);
  EXPECT_EQ(e.gradients, 4 * parameters);
  EXPECT_EQ(e.optimizer, 8 * parameters);
  EXPECT_EQ(e.batch, 12 * 8 * 2 * 4);
  EXPECT_EQ(e.data, 16 * 6 * 6 + 36 * 6);
  EXPECT_EQ(e.total(),
            e.parameters + e.gradients + e.optimizer + std::max(e.activations, e.checkpoint) + e.data + e.batch);
  EXPECT_EQ(estimate_memory(tiny_config({"optimizer=sgd"}), Device::cpu).optimizer, 0);
  EXPECT_EQ(estimate_memory(tiny_config({"optimizer=sgd", "momentum=0.9"}), Device::cpu).optimizer, 4 * parameters);
  EXPECT_EQ(estimate_memory(tiny_config({"ema_decay=0.99"}), Device::cpu).optimizer, 12 * parameters);
  const int64_t in_blocks = 2 * (4 + 2 * 4) * 16 * 16;  // one value instead of two
  EXPECT_EQ(estimate_memory(tiny_config({"optimizer=muon"}), Device::cpu).optimizer, 4 * (2 * parameters - in_blocks));
  EXPECT_EQ(estimate_memory(tiny_config({"precision=f64"}), Device::cpu).optimizer, 16 * parameters);
}

TEST(MemoryCheck, CountsTheCopiesOfASave) {
  const Config config = tiny_config();
  const int64_t parameters = nn::Gpt(config.model, DType::f32).parameters().parameters();
  const auto copies = [](const std::vector<std::string>& overrides, Device device = Device::cpu) {
    return estimate_memory(tiny_config(overrides), device).checkpoint - 2 * kMiB;
  };
  EXPECT_EQ(copies({}), 0);
  EXPECT_EQ(copies({}, Device::cuda), 12 * parameters);
  EXPECT_EQ(copies({"ema_decay=0.99"}, Device::cuda), 16 * parameters);
  EXPECT_EQ(copies({"embedding_lr_scale=2"}), 8 * parameters);
  EXPECT_EQ(copies({"optimizer=muon", "ema_decay=0.99"}), 12 * parameters);
  EXPECT_EQ(copies({"shard_optimizer=true"}), 8 * parameters);
  EXPECT_EQ(copies({"shard_optimizer=true", "precision=bf16"}), 12 * parameters);
}

TEST(MemoryCheck, CountsWhatAFormOfTheModelSaves) {
  const auto activations = [](const std::vector<std::string>& overrides) {
    return estimate_memory(tiny_config(overrides), Device::cpu).activations;
  };
  constexpr int64_t kTokens = 12 * 8, kLayers = 2;
  EXPECT_EQ(activations({"position=rope"}) - activations({"position=none"}), 4 * 8 * 8);  // positions, head size
  EXPECT_EQ(activations({"activation=swiglu", "d_ff=64"}) - activations({"d_ff=64"}), 4 * kTokens * kLayers * 64);
  EXPECT_EQ(activations({"logit_softcap=30"}) - activations({}), 4 * kTokens * 6);
  // Large logits count as one chunk.
  const auto of_rows = [&](const std::string& rows) {
    return activations({"vocab_size=50257", "order=1", "batch_size=" + rows, "micro_batch_size=" + rows});
  };
  const int64_t without = activations({"batch_size=64", "micro_batch_size=64"}) - 4 * 64 * 8 * 6;
  EXPECT_EQ(of_rows("64") - without, int64_t{4} * 256 * 50257);
}

TEST(MemoryCheck, CountsTheCopyOfTheWeightsForLayerNorms) {
  const MemoryEstimate without = estimate_memory(tiny_config(), Device::cpu);
  const MemoryEstimate with = estimate_memory(tiny_config({"log_layers=true"}), Device::cpu);
  EXPECT_EQ(with.total() - without.total(), without.parameters);
  EXPECT_EQ(memory_table(without).find("layer norms"), std::string::npos);
  EXPECT_NE(memory_table(with).find("train.log_layers = false"), std::string::npos);
}

TEST(MemoryCheck, TheTokensOfATextCount) {
  const test::TemporaryFolder folder;
  const std::string path = (folder.path() / "text.txt").string();
  std::ofstream(path) << std::string(1000, 'a');
  const auto certain = [&](const char* tokenizer, bool loaded) {
    const Config config = parse_config(
        "[data]\nsource = \"text\"\npath = \"" + path + "\"\ntokenizer = \"" + tokenizer + "\"\n", "text.toml", {});
    EXPECT_EQ(estimate_memory(config, Device::cpu).data, 4000);
    return host_memory(config, Device::cpu, loaded, false).certain;
  };
  EXPECT_EQ(certain("byte", false) - certain("byte", true), 4000);
  EXPECT_EQ(certain("char", false) - certain("char", true), 1000);
  EXPECT_EQ(certain("bpe", false) - certain("bpe", true), 0);
}

TEST(MemoryCheck, TheTablesOfSyntheticDatasetsCount) {
  const auto bytes = [](const std::vector<std::string>& overrides) {
    return estimate_memory(parse_config("[data]\nsource = \"ngram\"", "a.toml", overrides), Device::cpu).data;
  };
  EXPECT_EQ(bytes({"vocab_size=6", "order=3", "prefix=uniform"}), 24 * 6 * 6 * 6);
  EXPECT_EQ(bytes({"source=skip", "vocab_size=6", "offsets=[2, 31]", "prefix=uniform"}), 24 * 6 * 6 * 6);
  EXPECT_EQ(bytes({"source=hidden_markov", "vocab_size=6", "num_states=3"}), 16 * 3 * (3 + 6));
  EXPECT_EQ(bytes({"source=modular_addition", "modulus=10", "seq_len=3"}), 400);
  for (const char* source : {"markov_in_context", "repeat", "dyck"})
    EXPECT_EQ(bytes({"source=" + std::string(source)}), 0);
}

TEST(MemoryCheck, OnCudaOnlyWhatTheHostHolds) {
  const Config config = large_config();
  const MemoryEstimate e = estimate_memory(config, Device::cuda);
  EXPECT_EQ(host_memory(config, Device::cuda, true, true).certain, e.checkpoint + e.batch);
  EXPECT_EQ(host_memory(config, Device::cuda, true, false).certain, e.batch);
}

TEST(MemoryCheck, RefusesWhatCannotFit) {
  const HostMemory need = host_memory(large_config(), Device::cpu, true, true);
  EXPECT_GT(need.certain, 400 * kMiB);
  EXPECT_EQ(check_host_memory(need, std::nullopt), std::nullopt);
  EXPECT_EQ(check_host_memory(need, machine(2 * need.expected)), std::nullopt);
  EXPECT_NE(check_host_memory(need, machine(need.certain)), std::nullopt) << "a near miss is said";
  EXPECT_NE(check_host_memory(need, machine(need.certain - kMiB, kMiB)), std::nullopt) << "swap is memory";
  try {
    check_host_memory(need, machine(need.certain - 1));
    ADD_FAILURE() << "not refused";
  } catch (const MemoryError& error) {
    const std::string text = error.what();
    for (const char* part :
         {"before the first step", "MiB free of", "(this machine)", "optimizer", "optim.optimizer"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_EQ(comm::exit_code(error), 5);
  }
}

// P4: an estimate far above any machine.
TEST(MemoryCheck, RefusesActivationsThatCannotFit) {
  const HostMemory need = host_memory(tiny_config({"seq_len=1048576", "batch_size=4096"}), Device::cpu, true, true);
  EXPECT_GT(need.certain, int64_t{1} << 40);
  try {
    check_host_memory(need, machine(int64_t{1} << 36));
    ADD_FAILURE() << "not refused";
  } catch (const MemoryError& error) {
    const std::string text = error.what();
    for (const char* part : {" TiB", "activations", "train.batch_size", "64.0 GiB free"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
  EXPECT_LT(host_memory(tiny_config({"seq_len=1048576", "batch_size=4096", "micro_batch_size=1", "recompute=true"}),
                        Device::cpu, true, true)
                .certain,
            int64_t{1} << 36);
}

// What a text that is in memory already has taken is what the user can change.
TEST(MemoryCheck, NamesLoadedData) {
  HostMemory need = host_memory(tiny_config({"vocab_size=1000"}), Device::cpu, true, true);
  EXPECT_GT(need.loaded_data, 16'000'000);
  try {
    check_host_memory(need, machine(kMiB));
    ADD_FAILURE() << "not refused";
  } catch (const MemoryError& error) {
    const std::string text = error.what();
    for (const char* part :
         {"in addition to the loaded data", "largest part of the run: data, 15.3 MiB", "data.vocab_size, data.order"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
}

TEST(MemoryCheck, NoConfigOverflows) {
  // The largest values that the keys allow.
  Config config =
      tiny_config({"d_model=65536", "d_ff=1048576", "num_layers=1024", "seq_len=1048576", "batch_size=4096"});
  const HostMemory need = host_memory(config, Device::cpu, true, true);
  EXPECT_GT(need.certain, int64_t{1} << 59);
  EXPECT_GE(need.expected, need.certain);
}

TEST(MemoryCheck, TheTableNamesTheKeys) {
  const std::string table = memory_table(estimate_memory(large_config(), Device::cpu));
  EXPECT_EQ(table.substr(0, table.find('\n')), "memory (estimate) 398.2 MiB; reduce it with") << table;
  for (const char* line :
       {"  parameters     96.2 MiB  model.d_model, model.num_layers\n", "  checkpoint      2.0 MiB  ",
        "  gradients      96.2 MiB  model.d_model, model.num_layers\n"}) {
    EXPECT_NE(table.find(line), std::string::npos) << table;
  }
}

TEST(MemoryCheck, BareErrorsOfTheLibraryAreNamed) {
  for (const std::exception* error : {static_cast<const std::exception*>(new std::bad_alloc),
                                      static_cast<const std::exception*>(new std::length_error("vector::reserve"))}) {
    const std::unique_ptr<const std::exception> owner(error);
    EXPECT_EQ(comm::exit_code(*error), 5);
    const std::string text = comm::error_text(*error);
    EXPECT_TRUE(text.starts_with("out of memory: ")) << text;
    EXPECT_NE(text.find(" free of "), std::string::npos) << text;
  }
  EXPECT_EQ(comm::error_text(DataError("the text")), "the text");
}

}  // namespace
}  // namespace heed::train
