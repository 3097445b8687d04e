#include "train/ranked_command.hpp"

#include <exception>

#include "autograd/core/cuda_backend.hpp"
#include "train/comm/agreement.hpp"
#include "train/output.hpp"

namespace heed::train {
namespace {

int run_joined(comm::Ranks& ranks, const Config& config, const std::exception_ptr& config_error,
               const std::function<void(const Config&, comm::Ranks&)>& command) {
  try {
    comm::agree(ranks, [&] {
      if (config_error) std::rethrow_exception(config_error);
    });
    if (ranks.size() > 1) cuda::use_device(ranks.local_rank());
    comm::share_processors(ranks);
    command(config, ranks);
    return 0;
  } catch (const comm::SharedError& error) {
    if (ranks.is_root()) write_notice(fmt::format("heed: {}\n", error.what()));
    return error.exit_code;
  } catch (const std::exception& error) {
    if (ranks.size() == 1) throw;
    const std::string place = ranks.update() == 0 ? std::string() : fmt::format(", update {}", ranks.update());
    write_notice(fmt::format("heed: rank {}{}: {}\n", ranks.rank(), place, comm::error_text(error)));
    ranks.abort(comm::exit_code(error));
  }
  return 1;  // never: abort() does not return
}

}  // namespace

int run_on_ranks(const std::function<Config()>& load, const std::function<void(const Config&, comm::Ranks&)>& command) {
  Config config;
  std::exception_ptr config_error;
  try {
    config = load();
  } catch (...) {
    config_error = std::current_exception();  // for all ranks to know, once they are joined
  }
  const std::unique_ptr<comm::Ranks> ranks = comm::join_ranks(config.train.comm_timeout_s);
  return run_joined(*ranks, config, config_error, command);
}

}  // namespace heed::train
