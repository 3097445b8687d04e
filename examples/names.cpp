// A character model of names with a custom training loop: an MLP that predicts each letter from the three before it
// (Bengio et al. 2003, "A neural probabilistic language model"), as in makemore.
//   names [FILE]      FILE: one name of letters a-z per line; without it, the names below
#include <fmt/core.h>

#include <fstream>
#include <random>
#include <sstream>

#include "autograd/autograd.hpp"
#include "nn/layers.hpp"
#include "optim/adamw.hpp"

using namespace heed;

constexpr const char* kNames =
    "ada adele agnes alan albert alice alma amalie anna anton arthur august barbara beate benno bertha boris carl "
    "carla clara claude conrad cora daniel david dora edgar edith eduard elena elisa ella elsa emil emma enrico "
    "erich erika erwin esther eugen eva felix ferdinand flora frances franz frieda georg grace greta gustav hanna "
    "hans harald hedda hedy helene henri hermann hugo ida ingrid irene isaac jakob jan johanna john josef julia "
    "karen karl katharina kurt lea lena leo leonie lise lotte louis lucia ludwig magda manuel margaret maria marie "
    "marta martin max mina moritz nina nora olga oskar otto paul paula peter pia richard robert rosa ruth selma "
    "simon sofia stefan tessa theo thomas tilda ulrich ursula vera viktor walter wanda werner wilhelm willa";
constexpr int kContext = 3, kVocab = 27;  // token 0: the boundary of a name; 1 to 26: a to z
constexpr int64_t kEmbedding = 8, kHidden = 64;

// One row for each letter of each name, and one for its end: the kContext tokens before it, and the token itself.
struct Examples {
  std::vector<int32_t> contexts, targets;
};

Examples read_examples(const std::string& text) {
  Examples examples;
  std::istringstream names(text);
  for (std::string name; names >> name;) {
    std::vector<int32_t> tokens(kContext, 0);
    for (const char letter : name) {
      require<DataError>(letter >= 'a' && letter <= 'z', "'{}' has a character that is not a letter a-z", name);
      tokens.push_back(letter - 'a' + 1);
    }
    tokens.push_back(0);
    for (size_t i = kContext; i < tokens.size(); ++i) {
      examples.contexts.insert(examples.contexts.end(), &tokens[i - kContext], &tokens[i]);
      examples.targets.push_back(tokens[i]);
    }
  }
  require<DataError>(!examples.targets.empty(), "there are no names");
  return examples;
}

class Model {
 public:
  Model()
      : embedding_(store_.declare("embedding", {kVocab, kEmbedding}, {.std = 1})),
        hidden_(store_, "hidden", {.inputs = kContext * kEmbedding, .outputs = kHidden, .init_std = 0.3}),
        output_(store_, "output", {.inputs = kHidden, .outputs = kVocab, .init_std = 0.05}) {
    store_.build(1);
  }
  // contexts: i32 (N, kContext) -> logits (N, kVocab)
  Tensor operator()(const Tensor& contexts) const {
    const Tensor embedded = reshape(embedding(embedding_.tensor(), contexts), {-1, kContext * kEmbedding});
    return output_(tanh(hidden_(embedded)));
  }
  std::vector<Tensor> parameters() const { return store_.leaves(); }

 private:
  nn::ParameterStore store_{DType::f32};
  nn::Parameter embedding_;
  nn::Linear hidden_, output_;
};

void train(const Model& model, const Examples& examples, std::mt19937& random) {
  constexpr int kSteps = 1000, kBatch = 64;
  optim::AdamW optimizer(optim::spans_of(model.parameters()), {.weight_decay = 0.01});
  std::uniform_int_distribution<size_t> row(0, examples.targets.size() - 1);
  double sum = 0;
  for (int step = 1; step <= kSteps; ++step) {
    std::vector<int32_t> contexts, targets;
    for (int i = 0; i < kBatch; ++i) {
      const size_t chosen = row(random);
      const auto first = examples.contexts.begin() + static_cast<std::ptrdiff_t>(chosen * kContext);
      contexts.insert(contexts.end(), first, first + kContext);
      targets.push_back(examples.targets[chosen]);
    }
    const Tensor loss = cross_entropy(model(from_tokens({kBatch, kContext}, contexts)), from_tokens({kBatch}, targets));
    optimizer.zero_grad();
    backward(loss);
    optimizer.step(step < kSteps * 3 / 4 ? 1e-2 : 1e-3);
    sum += loss.item();
    if (step % 200 == 0) {
      fmt::print("step {:4}  loss {:.3f}\n", step, sum / 200);
      sum = 0;
    }
  }
}

std::string sample(const Model& model, std::mt19937& random) {
  const NoGradGuard no_grad;
  std::string name;
  std::vector<int32_t> context(kContext, 0);
  while (name.size() < 20) {
    const std::vector<double> probabilities = softmax(model(from_tokens({1, kContext}, context))).values();
    const int token = std::discrete_distribution<int>(probabilities.begin(), probabilities.end())(random);
    if (token == 0) break;
    name += static_cast<char>('a' + token - 1);
    context.erase(context.begin());
    context.push_back(token);
  }
  return name;
}

std::string read_file(const char* path) {
  std::ifstream file(path);
  require<DataError>(file.is_open(), "cannot open {}", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

int main(int count, char** arguments) try {
  std::mt19937 random(1);
  const Examples examples = read_examples(count > 1 ? read_file(arguments[1]) : kNames);
  const Model model;
  train(model, examples, random);
  for (int i = 0; i < 10; ++i) fmt::print("{}\n", sample(model, random));
} catch (const Error& error) {
  fmt::print(stderr, "names: {}\n", error.what());
  return 1;
}
