"""Checks the machine code of the kernels for sm_90 against limits:

    machine_code_test.py [--cuobjdump PROGRAM] OBJECT... [--write]

The objects are those of a build with CUDA. OBJECT.ptxas has the output of ptxas -v (autograd/cuda/ptxas_report.sh).

warps         the least number of warps for which the 65536 registers of a multiprocessor suffice
spill_bytes   the most bytes that ptxas spills to local memory, stores and loads together
narrow_stores the most stores to adjacent addresses that one store of 8 or 16 bytes could replace
widest_store  the least width, in bits, of the widest store to global memory

nvcc splits a vector store into single elements unless it can prove that the index is a multiple of the vector width. The
last two limits check that a vector kernel stores 16 bytes at once. They need cuobjdump.

A kernel has the limits of its row in kernel_limits.csv, or else those of default_limits(). --write rewrites the table from
this build; review the difference.
"""
import argparse
import csv
import pathlib
import re
import subprocess
import sys

TABLE = pathlib.Path(__file__).parent / "kernel_limits.csv"
ARCHITECTURE = "sm_90"
REGISTERS, SKIPPED = 65536, 77
# --write rounds the warps per multiprocessor down to one of these, so that small changes of registers pass.
STEPS = [40, 32, 24, 20, 16, 12, 8]
WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128}
COLUMNS = ["kernel", "warps", "spill_bytes", "narrow_stores", "widest_store"]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    return done.stdout


def report_of(target):
    path = pathlib.Path(f"{target}.ptxas")
    report = path.read_text() if path.exists() else ""
    if "ptxas info" not in report:  # ptxas writes this even for a source without kernels
        sys.exit(f"{path} is missing or empty: remove {target} and build again")
    return report


def resources(report):
    """ptxas' report: kernel -> (registers, bytes of spills)."""
    found, name, spills = {}, None, 0
    for line in report.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            name = entry[1] if entry[2] == ARCHITECTURE else None
        elif spilled := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spills = int(spilled[1]) + int(spilled[2])
        elif name and (used := re.search(r"Used (\d+) registers", line)):
            found[name], name = (int(used[1]), spills), None
    return found


def stores(listing):
    """cuobjdump's listing: kernel -> (narrow stores, bits of the widest store)."""
    found, name, before = {}, None, None
    for line in listing.splitlines():
        if function := re.search(r"Function : (\w+)", line):
            name, before = function[1], None
            found[name] = (0, 0)
        elif store := re.search(r"STG\.E(\S*) (?:desc\[\w+\])?\[(\w+)[^]+]*(?:\+(-?0x[0-9a-f]+))?\]", line):
            bits = next((WIDTHS[word] for word in store[1].split(".") if word in WIDTHS), 32)
            at = int(store[3] or "0", 16)
            # Above 16 bytes there are two stores: those of 128 bits are never narrow.
            adjacent = bits < 128 and before == (store[2], bits, at - bits // 8)
            narrow, widest = found[name]
            found[name] = (narrow + adjacent, max(widest, bits))
            before = (store[2], bits, at)
    return found


def readable(mangled):
    """Kernel names without namespaces and parameter lists, such as dropout_kernel<8, true, bf16>."""
    lines = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True).stdout
    names = []
    for line in lines.splitlines():
        line = re.sub(r"\(anonymous namespace\)::|\b\w+::", "", line).removeprefix("void ")
        depth = 0
        for at, letter in enumerate(line):  # up to the list of parameters
            depth += (letter == "<") - (letter == ">")
            if letter == "(" and depth == 0 and at > 0:
                line = line[:at]
                break
        names.append(line.replace("__nv_bfloat16", "bf16"))
    return dict(zip(mangled, names))


def measure(cuobjdump, target):
    used = resources(report_of(target))
    written = stores(run([cuobjdump, "-sass", "-arch", ARCHITECTURE, target])) if cuobjdump else {}
    names = readable(list(used))
    return {names[kernel]: (*used[kernel], *written.get(kernel, (None, None))) for kernel in used}


def warps_of(registers):
    return min(64, REGISTERS // (32 * -(-registers // 8) * 8))


def default_limits(name):
    """Enough warps to hide memory latency, no spills, and 16-byte stores if the first template argument is a width."""
    is_vector = re.match(r"\w+<(RowPlan<\d+, \d+, )?[48]\b", name)
    return {"warps": 40, "spill_bytes": 0, "narrow_stores": 0, "widest_store": 128 if is_vector else 0}


def problems(found, table):
    for name, (registers, spills, narrow, widest) in found.items():
        limit = table.get(name) or default_limits(name)
        if warps_of(registers) < limit["warps"]:
            yield (f"{name} uses {registers} registers, which allow {warps_of(registers)} warps per multiprocessor; "
                   f"it needs {limit['warps']}, so at most {REGISTERS // 32 // limit['warps'] // 8 * 8} registers")
        if spills > limit["spill_bytes"]:
            yield f"{name} spills {spills} bytes, {limit['spill_bytes']} are allowed"
        if narrow is not None and narrow > limit["narrow_stores"]:
            yield (f"{name} has {narrow} stores of single elements to adjacent addresses, {limit['narrow_stores']} are "
                   "allowed: write the index of store<N>() as a product with N")
        if widest is not None and widest < limit["widest_store"]:
            yield f"{name} stores at most {widest} bits at once, it must be {limit['widest_store']}"
    for name in table.keys() - found.keys():
        yield f"{name} is in {TABLE.name}, but there is no such kernel: remove its row, or run --write"


def write_table(found):
    with TABLE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, (registers, spills, narrow, widest) in sorted(found.items()):
            limit = default_limits(name)
            if warps_of(registers) < limit["warps"] or widest < limit["widest_store"] or spills or narrow:
                warps = next(step for step in STEPS if step <= warps_of(registers))
                writer.writerow([name, min(warps, limit["warps"]), spills, narrow, min(widest, limit["widest_store"])])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuobjdump")
    parser.add_argument("objects", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--list", action="store_true",
                        help="print registers, spilled bytes, narrow stores and the width of the widest store (bits) of each kernel")
    arguments = parser.parse_args()
    if not arguments.objects:
        print("skipped: this build has no CUDA")
        sys.exit(SKIPPED)
    if arguments.write and not arguments.cuobjdump:
        sys.exit("--write needs cuobjdump: name it with --cuobjdump PROGRAM")
    found = {}
    for target in arguments.objects:
        found |= measure(arguments.cuobjdump, target)
    if not found:
        sys.exit(f"no report has a kernel for {ARCHITECTURE}: is it in CMAKE_CUDA_ARCHITECTURES?")
    if arguments.list:
        for name, values in sorted(found.items()):
            print(name, *values, sep="\t")
    if arguments.write:
        write_table(found)
        return
    with TABLE.open(newline="") as file:
        table = {row["kernel"]: {key: int(row[key]) for key in COLUMNS[1:]} for row in csv.DictReader(file)}
    faults = sorted(problems(found, table))
    print(*faults, sep="\n")
    stores_text = "" if arguments.cuobjdump else "; stores not checked, because cuobjdump is missing"
    print(f"{len(found)} kernels, {len(faults)} problems{stores_text}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
