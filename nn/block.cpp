#include "nn/block.hpp"

#include "autograd/ops/attention/attention.hpp"
#include "autograd/ops/dropout.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/gated.hpp"
#include "autograd/ops/qk_norm.hpp"
#include "autograd/ops/rope.hpp"
#include "autograd/tape.hpp"

namespace heed::nn {
namespace {

template <class Module>
std::optional<Module> declare_if(bool exists, ParameterStore& store, const std::string& name, const GptConfig& config) {
  if (!exists) return std::nullopt;
  return Module(store, name, config);
}

}  // namespace

Attention::Attention(ParameterStore& store, const std::string& name, const GptConfig& config, int64_t layer)
    : qkv_(store, name + ".qkv",
           {.inputs = config.d_model,
            .outputs = (config.num_heads + 2 * config.kv_heads()) * config.head_size(),
            .bias = config.bias,
            .init_std = config.hidden_init_std()}),
      projection_(store, name + ".projection",
                  {.inputs = config.d_model,
                   .outputs = config.d_model,
                   .bias = config.bias,
                   .init_std = config.residual_init_std()}),
      qk_norm_(config.qk_norm),
      norm_eps_(config.norm_eps),
      num_heads_(config.num_heads),
      num_kv_heads_(config.kv_heads()),
      head_size_(config.head_size()),
      layer_(layer),
      window_(config.window(layer)),
      rope_(config.position == Position::rope),
      alibi_(config.position == Position::alibi),
      scale_(config.attention_scale()),
      dropout_(config.attention_dropout) {
  if (!config.qk_norm || !config.norm_gain) return;
  q_norm_ = store.declare(name + ".q_norm.weight", {config.head_size()}, {.constant = 1});
  k_norm_ = store.declare(name + ".k_norm.weight", {config.head_size()}, {.constant = 1});
}

Tensor Attention::rotate(const Tensor& x, int64_t heads, int64_t rotated, const ForwardContext& context) const {
  if (!rope_) return x;
  return rope(x, context.rope_table,
              {.num_heads = heads, .rotated_heads = rotated, .first_position = context.first_position()});
}

AttentionOptions Attention::options() const {
  return {.num_heads = num_heads_, .num_kv_heads = num_kv_heads_, .scale = scale_, .window = window_, .alibi = alibi_};
}

Tensor Attention::mix(const Tensor& x, const ForwardContext& context) const {
  Tensor qkv = qkv_(x);
  if (qk_norm_) {
    qkv = qk_norm(qkv, q_norm_.tensor(), k_norm_.tensor(),
                  {.num_heads = num_heads_, .num_kv_heads = num_kv_heads_, .eps = norm_eps_});
  }
  qkv = rotate(qkv, num_heads_ + 2 * num_kv_heads_, num_heads_ + num_kv_heads_, context);
  AttentionOptions all = options();
  all.documents = context.documents;
  all.dropout = context.training ? dropout_ : 0.0;
  all.random = context.random(layer_, DropoutPlace::attention);
  all.first_row = context.first_row;
  if (context.hook != nullptr) context.hook->qkv(layer_, qkv, all);
  const Tensor heads = attention_packed(qkv, all);
  return context.hook == nullptr ? heads : context.hook->heads(layer_, heads);
}

Tensor Attention::normalize_heads(const Tensor& heads, const Parameter& gain) const {
  if (!qk_norm_) return heads;
  const Tensor rows = heads.slice(0, {heads.numel() / head_size_, head_size_});
  return rms_norm(rows, gain.tensor(), norm_eps_).slice(0, heads.shape());
}

// Computes queries, keys and values with separate matmuls: keys and values are then contiguous, and one copy each
// appends them to the cache. Keys are cached after their rotation.
Tensor Attention::mix_with_cache(const Tensor& x, const ForwardContext& context) const {
  KvCache& cache = *context.cache;
  const int64_t queries = num_heads_ * head_size_, keys = num_kv_heads_ * head_size_, fresh = x.shape()[1];
  const Tensor q = rotate(normalize_heads(qkv_.part(x, 0, queries), q_norm_), num_heads_, num_heads_, context);
  const Tensor k = rotate(normalize_heads(qkv_.part(x, queries, keys), k_norm_), num_kv_heads_, num_kv_heads_, context);
  const KvCache::Layer& all = cache.append(layer_, {k, qkv_.part(x, queries + keys, keys)});
  AttentionOptions cached = options();
  cached.lengths = cache.lengths(layer_, fresh, x.device());
  cached.side = PaddingSide::left;
  cached.num_keys = cache.rows(layer_) + fresh;
  return attention(q, all.keys, all.values, cached);
}

Tensor Attention::operator()(const Tensor& x, const ForwardContext& context) const {
  const NameScope scope("attention");
  return projection_(context.cache == nullptr ? mix(x, context) : mix_with_cache(x, context));
}

FeedForward::FeedForward(ParameterStore& store, const std::string& name, const GptConfig& config)
    : up_(store, name + ".up",
          {.inputs = config.d_model,
           .outputs = config.feed_forward_outputs(),
           .bias = config.bias,
           .init_std = config.hidden_init_std()}),
      down_(store, name + ".down",
            {.inputs = config.feed_forward_size(),
             .outputs = config.d_model,
             .bias = config.bias,
             .init_std = config.residual_init_std()}),
      activation_(config.activation) {}

// The activation of the first layer's outputs.
Tensor FeedForward::activate(const Tensor& x) const {
  switch (activation_) {
    case Activation::gelu:
      return up_.with_gelu(x);
    case Activation::gelu_erf:
      return gelu_erf(up_(x));
    case Activation::relu:
      return relu(up_(x));
    case Activation::relu2:
      return relu2(up_(x));
    case Activation::silu:
      return silu(up_(x));
    case Activation::swiglu:
      return swiglu(up_(x));
    case Activation::geglu:
      break;
  }
  return geglu(up_(x));
}

Tensor FeedForward::operator()(const Tensor& x) const {
  const NameScope scope("feed_forward");
  return down_(activate(x));
}

Block::Block(ParameterStore& store, const std::string& name, const GptConfig& config, int64_t layer)
    : attention_norm_(store, name + ".attention_norm", config),
      attention_(store, name + ".attention", config, layer),
      post_attention_norm_(declare_if<Norm>(config.norm_position == NormPosition::sandwich, store,
                                            name + ".post_attention_norm", config)),
      feed_forward_norm_(declare_if<Norm>(!config.attention_only, store, name + ".feed_forward_norm", config)),
      feed_forward_(declare_if<FeedForward>(!config.attention_only, store, name + ".feed_forward", config)),
      post_feed_forward_norm_(
          declare_if<Norm>(post_attention_norm_ && feed_forward_, store, name + ".post_feed_forward_norm", config)),
      norm_position_(config.norm_position),
      dropout_(config.dropout),
      layer_(layer) {}

Tensor Block::join(const Tensor& branch, const Tensor& residual, const ForwardContext& context,
                   DropoutPlace place) const {
  const int64_t rows_per_sequence = branch.shape()[1];
  return dropout_add(branch, residual, context.training ? dropout_ : 0.0, context.random(layer_, place),
                     context.first_row * rows_per_sequence);
}

template <class F>
Tensor Block::sublayer(const Tensor& x, const Norm& norm, const std::optional<Norm>& post_norm,
                       const ForwardContext& context, DropoutPlace place, const F& f) const {
  if (norm_position_ == NormPosition::post) return norm(join(f(x), x, context, place));
  const Tensor branch = f(norm(x));
  return join(post_norm ? (*post_norm)(branch) : branch, x, context, place);
}

Tensor Block::operator()(const Tensor& x, const ForwardContext& context) const {
  const NameScope scope(fmt::format("blocks.{}", layer_));
  const Tensor mixed = sublayer(x, attention_norm_, post_attention_norm_, context, DropoutPlace::attention_residual,
                                [&](const Tensor& in) { return attention_(in, context); });
  if (!feed_forward_) return mixed;
  return sublayer(mixed, *feed_forward_norm_, post_feed_forward_norm_, context, DropoutPlace::feed_forward_residual,
                  *feed_forward_);
}

}  // namespace heed::nn
