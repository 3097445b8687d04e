// Progress while a text is read, its vocabulary learned and its tokens encoded.
#pragma once

#include "data/text/text_file.hpp"

namespace heed::train {

// A progress line on stderr where that is a terminal, cleared at the end of each phase; elsewhere a plain line at most
// every 30 seconds.
data::Progress text_progress();

}  // namespace heed::train
