"""The rule of operators' files: whoever looks for an operator finds it under one name, that of its struct in
compute/op.h, among the rules of models and in each backend."""
import os
import pathlib
import re

VARIANT = "compute/op.h"
SOURCES = {".h", ".cc", ".cu", ".cuh"}
# The folders with a file for each operator; and what is in them besides: what several operators share, and what leads to
# them.
HELPERS = {
    "models/ops": {"axes", "cost_terms", "op_rules", "part", "partition", "shape_checks"},
    "compute/reference": {"attention_softmax", "backend", "channels", "formula", "links_formula"},
    "compute/cpu": {"aligned_inputs", "arithmetic", "backend", "batch_norm_loops", "column_sum", "context",
                    "conv_linear_kernel", "formats", "gemm", "gemm_primitive", "loops", "lstm_gates", "norm_kernel",
                    "norm_layout", "plain_inputs", "primitive", "reordered_primitive", "unary_kernel", "vector_math"},
    "compute/cuda": {"absent", "channel_shape", "convolution", "cuda_backend", "device_context", "device_queues",
                     "elementwise", "gemm", "joint_kernel", "kernels", "launch", "libraries", "movement", "operators",
                     "optimizer", "optimizer_kernel", "partial_sums", "philox", "reductions", "strided_index",
                     "window_bounds", "workspace_division"},
}


def file_of(operator):
    """"BatchNorm" is in batch_norm.cc."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operator).lower()


def operators(tree):
    """(line of the variant, [its alternatives])."""
    text = tree.text(VARIANT)
    variant = re.search(r"using Operator =\s+std::variant<([^>]*)>;", text)
    if not variant:
        return 1, []
    return text.count("\n", 0, variant.start()) + 1, re.findall(r"\w+", variant[1])


def operators_by_other_names(tree):
    """Files for operators under a name that is no operator's, operators without a file of theirs, and helpers on the list
    that are no more."""
    line, names = operators(tree)
    if not names:
        return [f"{VARIANT}:1: no list of operators"]
    of_operators = {file_of(name) for name in names}
    found = []
    for name in tree.of(SOURCES):
        path = pathlib.PurePath(name)
        folder = str(path.parent)
        if folder not in HELPERS or path.stem.endswith("_test"):
            continue
        if path.stem not in of_operators | HELPERS[folder]:
            found.append(f"{name}:1: named for no operator of {VARIANT}, and not among {folder}'s helpers")
    for name in names:
        without = [folder for folder in HELPERS if f"{folder}/{file_of(name)}.cc" not in tree.known]
        if without:
            found.append(f"{VARIANT}:{line}: {name} has no {file_of(name)}.cc in {', '.join(without)}")
    there = {os.path.splitext(name)[0] for name in tree.known}
    found += [f"tests/style/operators.py:1: {folder} has no helper {helper}" for folder, helpers in HELPERS.items()
              for helper in sorted(helpers) if f"{folder}/{helper}" not in there]
    return found


RULES = [operators_by_other_names]
