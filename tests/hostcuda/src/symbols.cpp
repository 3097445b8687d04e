#include "src/symbols.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "src/report.hpp"

namespace hostcuda {
namespace {

constexpr const char* kExecutable = "/proc/self/exe";

int take_first_module(dl_phdr_info* module, size_t, void* to) {
  *static_cast<dl_phdr_info*>(to) = *module;
  return 1;  // the first one is the executable
}

dl_phdr_info executable() {
  dl_phdr_info module{};
  dl_iterate_phdr(take_first_module, &module);
  return module;
}

Image read_image() {
  const dl_phdr_info module = executable();
  Image image{module.dlpi_addr, UINTPTR_MAX, 0, 0};
  for (int i = 0; i < module.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = module.dlpi_phdr[i];
    if (part.p_type == PT_TLS) image.thread_local_bytes = part.p_memsz;
    if (part.p_type != PT_LOAD) continue;
    image.begin = std::min(image.begin, image.base + part.p_vaddr);
    image.end = std::max(image.end, image.base + part.p_vaddr + part.p_memsz);
  }
  return image;
}

// A variable inside a function that is thread-local and was compiled by g++ with -fno-gnu-unique, as only .cu files
// are: in other files such a variable of a template or inline function is "unique", and one of another function stands
// behind the name of its file.
bool is_shared_array(const ElfW(Sym) & symbol, const char* name, bool in_cuda_file) {
  if (ELF64_ST_TYPE(symbol.st_info) != STT_TLS || symbol.st_size == 0) return false;
  if (std::strncmp(name, "_ZZ", 3) != 0) return false;
  switch (ELF64_ST_BIND(symbol.st_info)) {
    case STB_LOCAL:
      return in_cuda_file;
    case STB_WEAK:
      return true;
    default:
      return false;
  }
}

struct Tables {
  std::vector<Symbol> functions, shared;
  Tables();
  void read(const char* file);
};

Tables::Tables() {
  const int descriptor = open(kExecutable, O_RDONLY);
  struct stat status {};
  if (descriptor < 0 || fstat(descriptor, &status) != 0) give_up("cannot read the executable");
  // Stays mapped: the symbols point to their names in it.
  void* file = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
  close(descriptor);
  if (file == MAP_FAILED) give_up("cannot map the executable");
  read(static_cast<const char*>(file));
  const auto by_address = [](const Symbol& a, const Symbol& b) { return a.begin < b.begin; };
  std::sort(functions.begin(), functions.end(), by_address);
  std::sort(shared.begin(), shared.end(), by_address);
}

void Tables::read(const char* file) {
  const auto& header = *reinterpret_cast<const ElfW(Ehdr)*>(file);
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(file + header.e_shoff);
  for (int i = 0; i < header.e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(file + sections[i].sh_offset);
    const char* names = file + sections[sections[i].sh_link].sh_offset;
    bool in_cuda_file = false;
    for (size_t k = 0; k < sections[i].sh_size / sizeof(*symbols); ++k) {
      const ElfW(Sym)& symbol = symbols[k];
      const char* name = names + symbol.st_name;
      const int type = ELF64_ST_TYPE(symbol.st_info);
      if (type == STT_FILE) in_cuda_file = std::string_view(name).ends_with(".cu");
      if (type == STT_FUNC && symbol.st_size != 0) {
        functions.push_back({image().base + symbol.st_value, symbol.st_size, name});
      }
      if (is_shared_array(symbol, name, in_cuda_file)) shared.push_back({symbol.st_value, symbol.st_size, name});
    }
    return;
  }
  give_up("the executable has no symbol table, in which __shared__ arrays are found");
}

const Tables& tables() {
  static const Tables* tables = new Tables;  // for the whole process: reports are made until its end
  return *tables;
}

std::string demangle(const char* name) {
  int status = 0;
  char* readable = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = readable == nullptr ? name : readable;
  std::free(readable);
  constexpr std::string_view kNoName = "(anonymous namespace)::";
  for (size_t at; (at = text.find(kNoName)) != std::string::npos;) text.erase(at, kNoName.size());
  return text;
}

// addr2line prints what was inlined first: "/path/a.cuh:12 (discriminator 2)".
std::string ask_addr2line(uintptr_t address) {
  char path[4096] = {};
  if (readlink(kExecutable, path, sizeof(path) - 1) < 0) return "?";
  FILE* lines = popen(format("addr2line -i -e '%s' %zx 2>/dev/null", path, static_cast<size_t>(address)).c_str(), "r");
  if (lines == nullptr) return "?";
  std::string text;
  char line[4096];
  while (std::fgets(line, sizeof(line), lines) != nullptr) {
    const std::string place(line, std::strcspn(line, " \n"));
    if (place.find("/hostcuda/include/") != std::string::npos || place.find("/usr/include/") != std::string::npos) {
      continue;
    }
    text += (text.empty() ? "" : " in ") + file_of(place);
  }
  pclose(lines);
  return text.empty() ? "?" : text;
}

}  // namespace

const Image& image() {
  static const Image image = read_image();
  return image;
}

const std::vector<Symbol>& shared_arrays() { return tables().shared; }

const Symbol* find_symbol(const std::vector<Symbol>& symbols, uintptr_t address) {
  auto behind = std::upper_bound(symbols.begin(), symbols.end(), address,
                                 [](uintptr_t a, const Symbol& symbol) { return a < symbol.begin; });
  if (behind == symbols.begin()) return nullptr;
  const Symbol& symbol = *--behind;
  return address - symbol.begin < symbol.bytes ? &symbol : nullptr;
}

uintptr_t thread_local_begin() {
  static thread_local const auto begin = reinterpret_cast<uintptr_t>(executable().dlpi_tls_data);
  return begin;
}

std::string function_name(const void* function) {
  const Symbol* symbol = find_symbol(tables().functions, reinterpret_cast<uintptr_t>(function));
  if (symbol == nullptr) return format("%p", function);
  std::string name = demangle(symbol->name);
  if (name.starts_with("void ")) name.erase(0, 5);
  return name.substr(0, name.find('('));
}

std::string variable_name(const Symbol& symbol) {
  const std::string name = demangle(symbol.name);
  const size_t colons = name.rfind("::");
  return colons == std::string::npos ? name : name.substr(colons + 2);
}

std::string source_line(const void* return_address) {
  static std::map<const void*, std::string> known;
  if (return_address == nullptr) return "?";
  auto [entry, is_new] = known.try_emplace(return_address);
  // The call lies before the address that it returns to.
  if (is_new) entry->second = ask_addr2line(reinterpret_cast<uintptr_t>(return_address) - 1 - image().base);
  return entry->second;
}

std::string file_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace hostcuda
