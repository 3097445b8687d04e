#include "train/checkpoint_content.hpp"

#include <algorithm>
#include <set>
#include <vector>

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

// Adds "kind/name" of every value whose name starts with the folder and that is not in `expected`.
template <class T>
void add_others(const CheckpointContent::Named<T>& values, std::string_view kind, std::string_view folder,
                const std::set<std::string_view>& expected, std::vector<std::string>& others) {
  for (const auto& entry : values) {
    const std::string& name = entry.first;
    if (!name.starts_with(folder)) continue;
    const std::string path = fmt::format("{}/{}", kind, name);
    if (!expected.contains(kind == "tensors" ? name : path)) others.push_back(path);
  }
}

void require_none(const CheckpointContent& content, const std::vector<std::string>& others, std::string_view what) {
  if (others.empty()) return;
  constexpr size_t kNamed = 3;
  std::string names;
  for (size_t i = 0; i < std::min(others.size(), kNamed); ++i) names += (i == 0 ? "" : ", ") + others[i];
  if (others.size() > kNamed) names += fmt::format(" and {} more", others.size() - kNamed);
  throw CheckpointError(fmt::format("checkpoint {}: it has {} {} that {}: {}", file_name(content), others.size(),
                                    others.size() == 1 ? "dataset" : "datasets", what, names));
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

void require_no_other_tensors(const CheckpointContent& content, std::span<const std::string> expected,
                              std::string_view folder) {
  const std::set<std::string_view> names(expected.begin(), expected.end());
  std::vector<std::string> others;
  add_others(content.tensors, "tensors", folder, names, others);
  require_none(content, others, "this model and its optimizer do not use");
}

void require_no_other_values(const CheckpointContent& content, std::span<const std::string> expected) {
  const std::set<std::string_view> names(expected.begin(), expected.end());
  std::vector<std::string> others;
  add_others(content.integers, "integers", {}, names, others);
  add_others(content.reals, "reals", {}, names, others);
  add_others(content.texts, "texts", {}, names, others);
  require_none(content, others, "this version of heed does not know");
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
