"""The experiments: each names the models that could be, and asks dot products on which their predictions differ.

A model is a variation of one arithmetic, or a reference such as IEEE additions
one after another; the answers confirm some and refute the rest.  Those of
paper 003 (Fasi, Higham, Mikaitis, Pranesh, 2021) use the paper's operands.
"""

from tcu.probes.experiments.accumulator import ACCUMULATOR_EXPERIMENTS
from tcu.probes.experiments.blocks import BLOCK_EXPERIMENTS as BLOCK_EXPERIMENTS
from tcu.probes.experiments.chains import CHAIN_EXPERIMENTS as CHAIN_EXPERIMENTS
from tcu.probes.experiments.experiment import LATER as LATER
from tcu.probes.experiments.experiment import Dot as Dot
from tcu.probes.experiments.experiment import Experiment as Experiment
from tcu.probes.experiments.experiment import Hypothesis as Hypothesis
from tcu.probes.experiments.later_chips import LATER_EXPERIMENTS
from tcu.probes.experiments.rounding import ROUNDING_EXPERIMENTS

ALIGNED_EXPERIMENTS = (*ROUNDING_EXPERIMENTS, *ACCUMULATOR_EXPERIMENTS, *LATER_EXPERIMENTS)
"""Those of units that align and add, in the order in which they are reported."""
