// Progress while a text is read, its vocabulary is learned and its tokens are encoded.
#pragma once

#include "data/text/text_file.hpp"

namespace heed::train {

// The callback draws a progress line on stderr if that is a terminal, and clears it at the end of each phase; otherwise
// it prints a plain line at most every 30 seconds.
data::Progress text_progress();

}  // namespace heed::train
