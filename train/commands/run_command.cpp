#include "train/commands/run_command.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <thread>

#include "autograd/core/check.hpp"
#include "autograd/core/cuda_backend.hpp"
#include "train/comm/agreement.hpp"
#include "train/comm/backend.hpp"
#include "train/comm/init.hpp"
#include "train/comm/launch.hpp"
#include "train/output/output.hpp"
#include "train/run/stop_signal.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {
namespace {

std::string as_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const auto code = static_cast<uint8_t>(c);
    line += code < 0x20 || code == 0x7F ? fmt::format("\\u{:04X}", code) : std::string(1, c);
  }
  return line;
}

// Ranks without MPI can only train on CUDA devices. Without a device, a rank fails before it waits for the others:
// often no other rank will start, since the variables are left over from another program.
void require_devices(const comm::Launch& launch, const Config& config, const std::exception_ptr& config_error) {
  if (launch.size == 1 || launch.by_mpi) return;
  const std::string absence = cuda::absence();
  if (config_error) {
    if (!absence.empty()) std::rethrow_exception(config_error);
    return;
  }
  const TrainConfig& train = config.train;
  const char* reason = train.device == DeviceChoice::cpu ? "train.device = \"cpu\""
                       : train.precision == DType::f64   ? "train.precision = \"f64\""
                                                         : absence.c_str();
  if (*reason == '\0') {
    require<CommunicationError>(!comm::nccl_version().empty(),
                                "{} ranks on CUDA devices need NCCL, and this heed is built without it: install NCCL "
                                "with its header and build heed again, or unset RANK and WORLD_SIZE",
                                launch.size);
    return;  // the device of each rank is known only after the rendezvous
  }
  require<CommunicationError>(choose_device(config) == Device::cuda,
                              "{} ranks on the CPU need MPI: the environment has {} without it, and this run trains on "
                              "the CPU ({}); unset RANK "
                              "and WORLD_SIZE, or start with mpirun",
                              launch.size, launch.variables, reason);
}

// The largest exit code, once all ranks have called this. A launcher ends the other ranks as soon as one exits with a
// code other than 0 (Open MPI reports that on stderr and exits with the same code), so no rank may exit before the root
// has saved. Nor may a second signal end a rank that waits: some launchers send it to the process group and also
// forward it.
int common_code(comm::ProcessGroup& ranks, int code) {
  std::optional<StopSignal> noted_only;
  if (ranks.size() > 1) noted_only.emplace();
  const std::vector<int> codes = ranks.gather(code);
  return *std::max_element(codes.begin(), codes.end());
}

int run_joined(comm::ProcessGroup& ranks, const Config& config, const std::exception_ptr& config_error,
               const RankedCommand& command) {
  try {
    comm::check_on_all_ranks(ranks, [&] {
      if (config_error) std::rethrow_exception(config_error);
    });
    if (ranks.size() > 1) cuda::use_device(ranks.local_rank());
    comm::share_processors(ranks);
    return common_code(ranks, command(config, ranks));
  } catch (const comm::CollectiveError& error) {
    if (ranks.is_root()) write_notice(fmt::format("heed: {}\n", error.what()));
    return error.exit_code;
  } catch (const std::exception& error) {
    if (ranks.size() == 1) throw;
    const std::string place = ranks.step() == 0 ? std::string() : fmt::format(", step {}", ranks.step());
    write_notice(fmt::format("heed: rank {}{}: {}\n", ranks.rank(), place, comm::error_text(error)));
    ranks.abort(comm::exit_code(error));
  }
  return 1;  // unreachable: abort() does not return
}

}  // namespace

int print_error(const std::string& text, int code) {
  write_notice(fmt::format("heed: {}\n", as_one_line(text)));
  return code;
}

int guarded(const std::function<int()>& command) {
  try {
    return command();
  } catch (const std::filesystem::filesystem_error& error) {
    return print_error(fmt::format("the path \"{}\" cannot be used: {}; is the current folder still there?",
                                   error.path1().string(), error.code().message()),
                       2);
  } catch (const std::exception& error) {
    return print_error(comm::error_text(error), comm::exit_code(error));
  }
}

int run_alone(const std::string& command, const std::function<int()>& action) {
  return guarded([&] {
    const comm::Launch launch = comm::find_launch();
    if (launch.size == 1) return action();
    if (launch.rank > 0) {
      // A launcher ends all processes when the first one fails, which must not happen before rank 0 has printed the
      // error.
      std::this_thread::sleep_for(std::chrono::seconds(1));
      return 2;
    }
    throw ConfigError(fmt::format("{} runs as one process, but {} has started {}: start it without {}{}", command,
                                  launch.launcher, launch.size, launch.launcher,
                                  launch.by_mpi ? "" : ", or unset RANK and WORLD_SIZE"));
  });
}

int run_on_ranks(const std::function<Config()>& load, const RankedCommand& command) {
  Config config;
  std::exception_ptr config_error;
  try {
    config = load();
  } catch (...) {
    config_error = std::current_exception();  // rethrown on all ranks, once they have joined
  }
  require_devices(comm::find_launch(), config, config_error);
  const std::unique_ptr<comm::ProcessGroup> ranks = comm::join_ranks(config.train.comm_timeout_s);
  return run_joined(*ranks, config, config_error, command);
}

}  // namespace heed::train
