#include "train/checkpoint/checkpoint_content.hpp"

#include <algorithm>
#include <set>

namespace heed::train {
namespace {

std::string_view file_name(const CheckpointContent& content) {
  return content.file.empty() ? std::string_view("to be saved") : content.file;
}

template <class T>
const T& find(const CheckpointContent& content, const CheckpointContent::Named<T>& values, std::string_view group,
              std::string_view name) {
  const auto found = values.find(name);
  require<CheckpointError>(found != values.end(), "checkpoint {}: dataset {}/{} is missing", file_name(content), group,
                           name);
  return found->second;
}

void require_name(std::string_view name) {
  const bool fits = !name.empty() && static_cast<int64_t>(name.size()) <= kMaxNameLength;
  require<ValueError>(fits, "a name in a checkpoint has {} characters, it must have 1 to {}: \"{}\"", name.size(),
                      kMaxNameLength, name);
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
  require<ValueError>(printable, "the name \"{}\" in a checkpoint may have printable ASCII characters only, no spaces",
                      name);
  for (std::string_view rest = name;;) {
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    require<ValueError>(!part.empty() && part != "." && part != "..",
                        "the name \"{}\" in a checkpoint has a part \"{}\"; parts cannot be empty, \".\" or \"..\"",
                        name, part);
    if (slash == std::string_view::npos) return;
    rest.remove_prefix(slash + 1);
  }
}

template <class T>
void require_names(const CheckpointContent::Named<T>& values) {
  for (const auto& entry : values) {
    const std::string_view name = entry.first;
    require_name(name);
    for (size_t slash = name.find('/'); slash != std::string_view::npos; slash = name.find('/', slash + 1)) {
      require<ValueError>(!values.contains(name.substr(0, slash)),
                          "a checkpoint cannot hold both \"{}\" and \"{}\": a name is a folder or a value",
                          name.substr(0, slash), name);
    }
  }
}

}  // namespace

bool is_name_part(std::string_view part) {
  return !part.empty() && part != "." && part != ".." &&
         std::all_of(part.begin(), part.end(), [](char c) { return c > ' ' && c <= '~' && c != '/'; });
}

const Tensor& CheckpointContent::tensor(std::string_view name, DType dtype, const Shape& shape) const {
  const Tensor& found = find(*this, tensors, "tensors", name);
  require<CheckpointError>(found.dtype() == dtype && found.shape() == shape,
                           "checkpoint {}: dataset tensors/{} is {} of shape {}, it must be {} of shape {}", file, name,
                           found.dtype(), found.shape(), dtype, shape);
  return found;
}

int64_t CheckpointContent::integer(std::string_view name) const { return find(*this, integers, "integers", name); }
double CheckpointContent::real(std::string_view name) const { return find(*this, reals, "reals", name); }
const std::string& CheckpointContent::text(std::string_view name) const { return find(*this, texts, "texts", name); }

void require_no_other_tensors(const CheckpointContent& content, std::span<const std::string> expected) {
  constexpr size_t kNamed = 3;
  const std::set<std::string_view> names(expected.begin(), expected.end());
  size_t others = 0;
  std::string named;
  for (const auto& entry : content.tensors) {
    if (names.contains(entry.first)) continue;
    if (++others <= kNamed) named += fmt::format("{}tensors/{}", named.empty() ? "" : ", ", entry.first);
  }
  if (others > kNamed) named += fmt::format(" and {} more", others - kNamed);
  require<CheckpointError>(others == 0, "checkpoint {}: it has {} {} that this model and its optimizer do not use: {}",
                           file_name(content), others, others == 1 ? "dataset" : "datasets", named);
}

void require_storable(const CheckpointContent& content) {
  require_names(content.tensors);
  require_names(content.integers);
  require_names(content.reals);
  require_names(content.texts);
  for (const auto& [name, tensor] : content.tensors) {
    require<ValueError>(static_cast<bool>(tensor), "tensor \"{}\" for a checkpoint is an empty handle", name);
  }
}

}  // namespace heed::train
