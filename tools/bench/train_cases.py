"""The cases of bench_train, and what the machine's rates say of a step's time."""
import dataclasses
import itertools
import pathlib

from train_models import COMMON, MODELS, flop_per_token  # noqa: F401  (for bench_train and its test)

BYTES_PER_PARAMETER = 30
LENGTHS, RANKS, EXPERTS = (512, 4096), (1, 3), {"gathered": 1, "routed": 0}
# The levels of ONEDNN_MAX_CPU_ISA, with the flag of /proc/cpuinfo that each asks for.
ISA_FLAGS = {"SSE41": "sse4_1", "AVX": "avx", "AVX2": "avx2", "AVX512_CORE": "avx512f", "AVX512_CORE_VNNI": "avx512_vnni",
             "AVX512_CORE_BF16": "avx512_bf16", "AVX512_CORE_AMX": "amx_tile"}
# What else a level stands for: OPENBLAS_CORETYPE, and the folder beside the program with one whose own loops end there, which no
# variable can tell it (target sluice_levels). Levels that are not named leave both as they are.
ISA_BLAS = {"SSE41": "Prescott", "AVX": "Sandybridge", "AVX2": "Haswell", "AVX512_CORE": "SkylakeX", "AVX512_CORE_VNNI": "SkylakeX"}
ISA_PROGRAMS = {"SSE41": "x86-64-v1", "AVX": "x86-64-v1", "AVX2": "x86-64-v3"}


@dataclasses.dataclass(frozen=True)
class Case:
    model: str
    length: int
    ranks: int
    experts: str
    isa: str = ""  # ONEDNN_MAX_CPU_ISA; "" leaves it as it is

    def __str__(self):
        return f"{self.model}-{self.length}-{self.ranks}-{self.experts}" + (f"@{self.isa}" if self.isa else "")

    @property
    def environment(self):
        """Variables that hold libraries and products to the level."""
        blas = {"OPENBLAS_CORETYPE": ISA_BLAS[self.isa]} if self.isa in ISA_BLAS else {}
        return blas | ({"ONEDNN_MAX_CPU_ISA": self.isa} if self.isa else {})

    def program(self, sluice):
        """The program that runs it, from the path of the one without a level."""
        return sluice.parent / ISA_PROGRAMS.get(self.isa, "") / sluice.name

    @property
    def tokens(self):
        """Of a step, over all ranks."""
        return self.length * self.ranks


def all_cases():
    return [Case(*values) for values in itertools.product(MODELS, LENGTHS, RANKS, EXPERTS)]


def processor_has(level):
    return not level or ISA_FLAGS[level] in pathlib.Path("/proc/cpuinfo").read_text().split()


def at_levels(cases, levels):
    """The cases, and those of one rank at each level as well: one rank alone has all cores."""
    return [each for case in cases for each in
            [case, *(dataclasses.replace(case, isa=level) for level in levels if case.ranks == 1)]]


def limit_of(case, parameters, rates):
    """The seconds that a step must take, with their terms."""
    flop = {name: each * case.tokens for name, each in flop_per_token(MODELS[case.model], case.length).items()}
    memory = BYTES_PER_PARAMETER * parameters
    seconds = {"products": sum(flop.values()) / rates["flop_per_second"], "memory": memory / rates["bytes_per_second"]}
    return {"flop": flop, "memory_bytes": memory, "seconds": seconds, "step_seconds": sum(seconds.values())}
