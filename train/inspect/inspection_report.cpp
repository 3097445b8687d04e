#include "train/inspect/inspection_report.hpp"

#include <algorithm>
#include <cmath>

#include "data/io/utf8.hpp"
#include "train/output/json.hpp"
#include "train/output/number_text.hpp"
#include "train/output/progress.hpp"
#include "train/output/table.hpp"
#include "train/run/run_mark.hpp"

namespace heed::train {
namespace {

constexpr int64_t kColumns = 80;
constexpr int64_t kMostHeatMaps = 12;  // layers, and heads of a layer, in the picture

std::string share_text(double share) { return fmt::format("{:.2f}", share); }

std::string heads_table(const Inspection& inspection) {
  constexpr std::pair<HeadScore, const char*> kShown[] = {{HeadScore::current, "curr"},
                                                          {HeadScore::previous, "prev"},
                                                          {HeadScore::first, "first"},
                                                          {HeadScore::duplicate, "dup"},
                                                          {HeadScore::induction, "ind"}};
  std::vector<std::vector<std::string>> rows{{"head", "name"}};
  for (const auto& shown : kShown) rows[0].emplace_back(shown.second);
  rows[0].insert(rows[0].end(), {"offset", "entropy", "loss rise"});
  const auto add_row = [&](const std::string& head, const std::string& name, const HeadScores& scores,
                           const std::string& loss_rise) {
    std::vector<std::string> row{head, name};
    for (const auto& shown : kShown) row.push_back(share_text(scores.of(shown.first)));
    const size_t offset = scores.strongest_offset();
    row.insert(row.end(), {fmt::format("{:3} {}", offset, share_text(scores.offset[offset])),
                           share_text(scores.entropy), loss_rise});
    rows.push_back(row);
  };
  for (size_t layer = 0; layer < inspection.heads.size(); ++layer) {
    for (size_t h = 0; h < inspection.heads[layer].size(); ++h) {
      const InspectedHead& head = inspection.heads[layer][h];
      add_row(fmt::format("{}.{}", layer, h), head.name.name, head.scores, fmt::format("{:+.4f}", head.mean_ablation));
    }
  }
  add_row("", "(uniform)", inspection.range.uniform, "");
  return in_columns(rows, {0, 1}) +
         wrap_words(
             "Head: layer.head. Shares of the attention on the current, the previous and the first token, on earlier "
             "copies of the token (dup) and on the tokens after them (ind). Offset d, with the attention on it: the "
             "key d "
             "tokens before the query, which is d + 1 before the target. Entropy in nats. Loss rise: if the head's "
             "output is replaced by its mean over all positions (mean ablation). Last row: a head that attends to all "
             "keys equally.",
             kColumns);
}

std::string layers_table(const Inspection& inspection) {
  std::vector<std::vector<std::string>> rows{
      {"layer", "parameters", "weight norm", "gradient norm", "residual rms", "logit lens"}};
  for (const InspectedLayer& layer : inspection.layers) {
    const bool has_residual = &layer != &inspection.layers.back();
    rows.push_back({layer.name, count_text(static_cast<double>(layer.parameters)), number_text(layer.weight_norm),
                    number_text(layer.gradient_norm), has_residual ? number_text(layer.residual_rms) : "",
                    has_residual ? loss_text(layer.lens_loss) : ""});
  }
  return in_columns(rows, {0}) +
         wrap_words(
             "Logit lens: the loss if the last norm and the output head are applied to the residual stream after "
             "this layer.",
             kColumns);
}

// Positions 1, 2, 3-4, 5-8, …: the first and one past the last of each group.
std::vector<std::pair<size_t, size_t>> position_groups(size_t length) {
  std::vector<std::pair<size_t, size_t>> groups;
  for (size_t begin = 0; begin < length;) {
    const size_t end = std::min(length, std::max<size_t>(begin + 1, 2 * begin));
    groups.emplace_back(begin, end);
    begin = end;
  }
  return groups;
}

// The mean over the positions [begin, end) that have a value; NaN if none has.
double mean_of(const std::vector<double>& values, size_t begin, size_t end) {
  double sum = 0, count = 0;
  for (size_t i = begin; i < end; ++i) {
    if (std::isnan(values[i])) continue;
    sum += values[i];
    ++count;
  }
  return count > 0 ? sum / count : NAN;
}

std::string positions_table(const InspectionReport& report) {
  const std::vector<double>& loss = report.inspection.position_loss;
  const bool has_exact = !report.exact_position_loss.empty();
  std::vector<std::vector<std::string>> rows{{"context", "loss"}};
  if (has_exact) rows[0].insert(rows[0].end(), {"bayes", "excess"});
  for (const auto& [begin, end] : position_groups(loss.size())) {
    const double mean = mean_of(loss, begin, end);
    if (std::isnan(mean)) continue;
    rows.push_back({end - begin == 1 ? fmt::format("{}", end) : fmt::format("{}-{}", begin + 1, end), loss_text(mean)});
    if (!has_exact) continue;
    const double exact = mean_of(report.exact_position_loss, begin, end);
    rows.back().insert(rows.back().end(), {loss_text(exact), loss_text(mean - exact)});
  }
  return in_columns(rows, {0}) + "Context: number of tokens before the target." +
         std::string(has_exact ? " Bayes: the lowest possible loss." : "") + "\n";
}

std::string tokens_table(const InspectionReport& report) {
  std::vector<std::vector<std::string>> rows{{"token", "next", "loss", "most likely next tokens"}};
  for (const InspectedToken& token : report.inspection.tokens) {
    const bool has_target = token.target != data::kIgnoreTarget;
    std::string likely;
    for (const auto& [id, probability] : token.top) {
      likely += fmt::format("{}{} {:.3f}", likely.empty() ? "" : "  ", report.token_text(id), probability);
    }
    rows.push_back({report.token_text(token.token), has_target ? report.token_text(token.target) : "",
                    has_target ? loss_text(token.loss) : "", likely});
  }
  return in_columns(rows, {0, 1, 3});
}

Tensor vector_of(const std::vector<double>& values) {
  return from_values({static_cast<int64_t>(values.size())}, DType::f64, values);
}

void add_heads(CheckpointContent& content, const Inspection& inspection) {
  const auto layers = static_cast<int64_t>(inspection.heads.size());
  const auto heads = static_cast<int64_t>(inspection.heads[0].size());
  const auto length = static_cast<int64_t>(inspection.range.uniform.offset.size());
  std::vector<double> scores, entropy, distance, mean_ablation, offset;
  std::string names;
  for (const auto& layer : inspection.heads) {
    for (const InspectedHead& head : layer) {
      scores.insert(scores.end(), head.scores.share.begin(), head.scores.share.end());
      offset.insert(offset.end(), head.scores.offset.begin(), head.scores.offset.end());
      entropy.push_back(head.scores.entropy);
      distance.push_back(head.scores.distance);
      mean_ablation.push_back(head.mean_ablation);
      names += head.name.name + "\n";
    }
  }
  content.tensors["scores"] = from_values({layers, heads, int64_t{kNumHeadScores}}, DType::f64, scores);
  content.tensors["offset"] = from_values({layers, heads, length}, DType::f64, offset);
  content.tensors["entropy"] = from_values({layers, heads}, DType::f64, entropy);
  content.tensors["distance"] = from_values({layers, heads}, DType::f64, distance);
  content.tensors["mean_ablation"] = from_values({layers, heads}, DType::f64, mean_ablation);
  const auto& [uniform, largest] = inspection.range;
  content.tensors["uniform"] = vector_of({uniform.share.begin(), uniform.share.end()});
  content.tensors["largest"] = vector_of({largest.share.begin(), largest.share.end()});
  content.texts["names"] = names;
  content.texts["scores"] = fmt::format("{}\n", fmt::join(kHeadScoreNames, "\n"));
}

}  // namespace

std::string inspection_text(const InspectionReport& report) {
  const Inspection& inspection = report.inspection;
  std::string text = fmt::format("{}\n{}: loss {} over {} targets\n\n", data::printable(report.checkpoint),
                                 report.description, loss_text(inspection.loss), inspection.targets);
  if (report.shows_tokens) text += tokens_table(report) + "\n";
  text += heads_table(inspection) + "\n" + layers_table(inspection);
  if (!report.shows_tokens) text += "\n" + positions_table(report);
  return text;
}

std::string heads_csv(const Inspection& inspection) {
  std::string text = fmt::format("{},offset,offset_share\n", kHeadsColumns);
  for (size_t layer = 0; layer < inspection.heads.size(); ++layer) {
    for (size_t h = 0; h < inspection.heads[layer].size(); ++h) {
      const InspectedHead& head = inspection.heads[layer][h];
      const size_t offset = head.scores.strongest_offset();
      text += fmt::format("{},{},{},{:.9g},{:.9g},{:.9g},{:.9g},{:.9g},{},{:.9g}\n", layer, h, head.name.name,
                          head.name.relative, head.scores.entropy, head.scores.distance,
                          fmt::join(head.scores.share, ","), head.mean_ablation, offset, head.scores.offset[offset]);
    }
  }
  return text;
}

std::string heads_document(const InspectionReport& report) {
  const Inspection& inspection = report.inspection;
  const int64_t length = inspection.patterns.shape()[2], shown = std::min<int64_t>(length, 64);
  std::vector<std::string> tokens, layers;
  for (int64_t t = 0; t < shown; ++t) tokens.push_back(json::text(report.token_text(inspection.tokens[t].token)));
  const auto most = static_cast<size_t>(kMostHeatMaps);
  for (size_t l = 0; l < std::min(most, inspection.heads.size()); ++l) {
    std::vector<std::string> heads;
    for (size_t h = 0; h < std::min(most, inspection.heads[l].size()); ++h) {
      const float* const pattern = inspection.patterns.data<float>() +
                                   static_cast<int64_t>(l * inspection.heads[l].size() + h) * length * length;
      std::vector<std::string> rows;
      for (int64_t i = 0; i < shown; ++i) {
        rows.push_back(fmt::format("[{:.3g}]", fmt::join(pattern + i * length, pattern + i * length + shown, ",")));
      }
      heads.push_back(
          json::object({{"name", json::text(inspection.heads[l][h].name.name)}, {"pattern", json::list(rows)}}));
    }
    layers.push_back(json::list(heads));
  }
  return json::object(
      {{"figure", json::text("heads")},
       {"title", json::text(data::printable(report.checkpoint))},
       {"subtitle", json::text(fmt::format(
                        "Attention patterns (rows: queries, columns: keys) of the first {} tokens of the first of {}",
                        shown, report.description))},
       {"tokens", json::list(tokens)},
       {"layers", json::list(layers)}});
}

CheckpointContent inspection_content(const InspectionReport& report) {
  const Inspection& inspection = report.inspection;
  const Shape shape{report.sequences.rows, report.sequences.seq_len};
  CheckpointContent content;
  content.texts = {{"kind", "inspection"}, {"checkpoint", report.checkpoint}, {"sequences", report.description}};
  content.tensors["patterns"] = inspection.patterns;
  content.tensors["tokens"] = from_tokens(shape, report.sequences.inputs);
  content.tensors["targets"] = from_tokens(shape, report.sequences.targets);
  content.tensors["position_loss"] = vector_of(inspection.position_loss);
  if (!report.exact_position_loss.empty()) {
    content.tensors["exact_position_loss"] = vector_of(report.exact_position_loss);
  }
  add_heads(content, inspection);
  std::vector<double> lens, token_loss, token_lens;
  for (size_t layer = 0; layer + 1 < inspection.layers.size(); ++layer) {
    lens.push_back(inspection.layers[layer].lens_loss);
    for (const InspectedToken& token : inspection.tokens) token_lens.push_back(token.lens_loss[layer]);
  }
  for (const InspectedToken& token : inspection.tokens) token_loss.push_back(token.loss);
  content.tensors["lens_loss"] = vector_of(lens);
  content.tensors["token_loss"] = vector_of(token_loss);
  content.tensors["token_lens_loss"] =
      from_values({static_cast<int64_t>(lens.size()), static_cast<int64_t>(token_loss.size())}, DType::f64, token_lens);
  return content;
}

}  // namespace heed::train
