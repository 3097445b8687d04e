"""Who may know whom: which file may include which, and where each library may be used."""

import re

from tree import Violation, search

# A folder and what it may include.
MAY_INCLUDE = {
    "autograd": ["autograd/"],
    "nn": ["nn/", "autograd/"],
    "optim": ["optim/", "autograd/"],
    "data": ["data/", "autograd/core/"],
    "train": ["train/", "nn/", "optim/", "data/", "autograd/"],
    "tests": [""],
    "examples": ["autograd/", "nn/", "optim/"],
}

# The rooms of data and train, and which other rooms of theirs each may include. A room below knows none above.
ROOMS = {
    "data/io": [],
    "data/text": ["data/io"],
    "data": ["data/io", "data/text"],
    "data/synthetic": ["data"],
    "train/output": [],
    "train/config": ["train/output"],
    "train/checkpoint": ["train/output"],
    "train/comm": ["train/output"],
    "train/trainer": ["train/output", "train/config", "train/comm"],
    "train/run": ["train/output", "train/config", "train/comm", "train/checkpoint", "train/trainer"],
    "train/plot": ["train/output", "train/config", "train/run"],
    "train/report": ["train/output", "train/config", "train/run", "train/plot"],
    "train/bench": ["train/output", "train/config", "train/comm", "train/trainer"],
    "train/ablate": ["train/output", "train/config", "train/checkpoint", "train/trainer", "train/run", "train/plot"],
    "train/huggingface": ["train/output", "train/config", "train/checkpoint", "train/trainer", "train/run"],
    "train/inspect": ["train/output", "train/checkpoint", "train/trainer", "train/run"],
    "train/commands": [""],
}

# Inside autograd a file may include its own level and those below. The longest prefix counts.
AUTOGRAD_LEVELS = {
    "autograd/core/": 0,
    "autograd/cpu/": 1,
    "autograd/cuda/": 1,
    "autograd/tensor": 1,
    "autograd/tape": 2,
    "autograd/node": 2,
    "autograd/anomaly": 2,
    "autograd/ops/": 3,
    "autograd/operators": 4,
    "autograd/check/": 4,
    "autograd/autograd": 5,
}

# Headers of a library and the only files that may include them.
LIBRARY_PLACES = [
    (
        r"cuda.*|cublas.*|curand.*|nvml.*|nvtx.*|mma\.h|cub/.*|cooperative_groups.*",
        r".*\.cuh?|autograd/cuda/.*|train/comm/nccl_communicator\.cpp",
    ),
    (r"nccl\.h", r"train/comm/nccl_communicator\.cpp"),
    (r"mpi\.h", r"train/comm/mpi_communicator\.cpp|tests/support/mpi_main\.cpp"),
    (r"hdf5.*|H5.*", r"data/io/hdf5_(handle|file)\.cpp|train/checkpoint/hdf5_element\.hpp|tests/(data|fuzz|train)/.*"),
    (r"dnnl.*|oneapi/dnnl.*", r"autograd/cpu/(gemm/onednn_gemm|build_info)\.cpp"),
    (r"omp\.h", r"autograd/cpu/parallel\.cpp"),
    (r"hwy/contrib/math/.*", r"autograd/cpu/simd\.hpp"),
    (r"hwy/.*", r"autograd/cpu/.*|.*_cpu\.cpp|tests/support/instruction_set\.cpp"),
    (r"toml\+\+/.*", r"train/config/[^/]*\.cpp"),
    (r"boost/.*", r"train/ablate/statistics\.cpp"),
    (r"nlohmann/.*", r"train/run/summary_reader\.cpp|train/huggingface/[^/]*\.cpp|data/io/(json_reader|safetensors_).*|data/text/[^/]*\.cpp|tests/(data|fuzz)/.*"),
    (r"pcre2.*", r"data/text/word_pattern\.cpp"),
    (r"CLI/.*", r"train/commands/[^/]*\.[ch]pp"),
    (r"gtest/.*|gmock/.*", r"tests/.*"),
]
# The CUDA emulator is a project of its own, which includes from its own root and knows nothing of heed.
EMULATOR = "tests/hostcuda/"
# What stands for the CUDA world is itself that world.
LIBRARY_EXEMPT = re.compile(rf"{EMULATOR}|tests/gpu/")

KERNELS = re.compile(r"autograd/(cpu|cuda)/|.*_cpu\.cpp$|.*\.cuh?$")
OP_CASES = re.compile(r"autograd/ops/.*_case\.[ch]pp$")


def level_of(path):
    if OP_CASES.match(path):
        return AUTOGRAD_LEVELS["autograd/check/"]
    prefixes = [prefix for prefix in AUTOGRAD_LEVELS if path.startswith(prefix)]
    return AUTOGRAD_LEVELS[max(prefixes, key=len)] if prefixes else None


def own_includes(tree, path):
    return [include for include in tree.includes(path) if include.quoted and include.name in tree.files]


def included_files_exist(tree):
    """Quotes are for our own files, from the root of the repository, and in the emulator from its own root."""
    return [
        Violation(
            path,
            include.line,
            "include-path",
            f'"{include.name}" is no file from the {"emulator" if path.startswith(EMULATOR) else "repository"} root; '
            "libraries go in <>",
        )
        for path in tree.cpp()
        for include in tree.includes(path)
        if include.quoted and (EMULATOR if path.startswith(EMULATOR) else "") + include.name not in tree.files
    ]


def folders(tree):
    found = []
    for path in tree.cpp():
        allowed = MAY_INCLUDE.get(path.split("/")[0], [])
        for include in own_includes(tree, path):
            if not any(include.name.startswith(prefix) for prefix in allowed):
                text = f"{path.split('/')[0]} may not include {include.name}, only {' '.join(allowed)}"
                found.append(Violation(path, include.line, "layers", text))
    return found


def rooms(tree):
    found = []
    for path in tree.cpp():
        here = path.rsplit("/", 1)[0]
        top = here.split("/")[0]
        if top not in ("data", "train"):
            continue
        if here not in ROOMS:
            found.append(Violation(path, 1, "rooms", f"{here} is no room yet: give it a line in tests/lint/layers.py"))
            continue
        for include in own_includes(tree, path):
            there = include.name.rsplit("/", 1)[0]
            if not there.startswith(top) or there == here or "" in ROOMS[here] or there in ROOMS[here]:
                continue
            found.append(Violation(path, include.line, "rooms", f"{here} may not include {include.name}"))
    return found


def inside_autograd(tree):
    found = []
    for path in tree.cpp():
        if not path.startswith("autograd/"):
            continue
        level = level_of(path)
        if level is None:
            found.append(Violation(path, 1, "autograd-levels", "has no level yet: give it one in tests/lint/layers.py"))
            continue
        for include in own_includes(tree, path):
            above = level_of(include.name)
            if above is not None and above > level:
                text = f"includes {include.name}, which stands above it (core < tensor < tape < ops)"
                found.append(Violation(path, include.line, "autograd-levels", text))
    return found


def kernels_know_no_tape(tree):
    """Neither directly nor through another header."""
    found = []
    for path in tree.cpp():
        if not KERNELS.match(path):
            continue
        todo, seen = [(include, [path]) for include in own_includes(tree, path)], set()
        while todo:
            include, chain = todo.pop()
            if include.name == "autograd/tape.hpp":
                line = next(i.line for i in tree.includes(path) if i.name == (chain + [include.name])[1])
                text = "a kernel must not know the tape: " + " -> ".join(chain + [include.name])
                found.append(Violation(path, line, "kernel-tape", text))
            elif include.name not in seen:
                seen.add(include.name)
                todo += [(next_one, chain + [include.name]) for next_one in own_includes(tree, include.name)]
    return found


def op_cases_know_no_tests(tree):
    """A case is linked into `heed gradcheck` and `heed bench` too."""
    return [
        Violation(
            path,
            include.line,
            "op-case-includes",
            f"an op case includes no tests, kernels or GoogleTest: {include.name}",
        )
        for path in tree.cpp()
        if OP_CASES.match(path)
        for include in tree.includes(path)
        if re.match(r"tests/|autograd/(cpu|cuda)/|gtest|gmock|benchmark", include.name)
    ]


def libraries(tree):
    found = []
    for path in tree.cpp():
        if LIBRARY_EXEMPT.match(path):
            continue
        for include in tree.includes(path):
            for headers, places in LIBRARY_PLACES:
                if not include.quoted and re.fullmatch(headers, include.name):
                    if not re.fullmatch(places, path):
                        found.append(
                            Violation(path, include.line, "library-place", f"<{include.name}> only in {places}")
                        )
                    break
    return found


def openmp(tree):
    """clang 14 crashes on OpenMP inside functions that are compiled for a SIMD target; parallel_for has the one use."""
    paths = [path for path in tree.cpp() if path != "autograd/cpu/parallel.cpp"]
    return search(
        tree, paths, r"#\s*pragma\s+omp\b|\b_Pragma\s*\(\s*\"omp", "openmp", "threads only through parallel_for"
    )


def nan_safe_simd(tree):
    """Highway's own functions lose NaN and Inf."""
    paths = [path for path in tree.cpp() if path != "autograd/cpu/simd.hpp"]
    names = "Exp|Expm1|Log|Log1p|Log2|Log10|Tanh|Max|Min|MaxOfLanes|MinOfLanes|Clamp"
    pattern = rf"\b(hn|HWY_NAMESPACE)\s*::\s*(Call)?({names})\s*\("
    return search(tree, paths, pattern, "nan-safe-simd", "{0}) loses NaN: take the one of autograd/cpu/simd.hpp")


RULES = [
    included_files_exist,
    folders,
    rooms,
    inside_autograd,
    kernels_know_no_tape,
    op_cases_know_no_tests,
    libraries,
    openmp,
    nan_safe_simd,
]
