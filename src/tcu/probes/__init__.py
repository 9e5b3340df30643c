"""Experiments that find out what any matrix unit computes, from its answers alone."""

from tcu.probes.audit import Audit as Audit
from tcu.probes.audit import WrongOutput as WrongOutput
from tcu.probes.audit import audit as audit
from tcu.probes.finding import Case as Case
from tcu.probes.finding import Finding as Finding
from tcu.probes.finding import Probe as Probe
from tcu.probes.infer import Inference as Inference
from tcu.probes.infer import infer as infer
from tcu.probes.probe import probe as probe
from tcu.probes.replay import predict as predict
from tcu.probes.reveal import reveal as reveal
from tcu.probes.revealed import Revealed as Revealed
from tcu.probes.revealed import SpecialDifference as SpecialDifference
from tcu.probes.revealed import SumCounterexample as SumCounterexample
