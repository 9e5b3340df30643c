"""Hardware vectors: what a GPU returned, in one file that anyone can send, and its replay on the model."""

from tcu.probes.vectors.collection import collect as collect
from tcu.probes.vectors.file import Entry as Entry
from tcu.probes.vectors.file import Machine as Machine
from tcu.probes.vectors.file import Vectors as Vectors
from tcu.probes.vectors.verification import Difference as Difference
from tcu.probes.vectors.verification import Replay as Replay
from tcu.probes.vectors.verification import Verification as Verification
from tcu.probes.vectors.verification import value_of as value_of
from tcu.probes.vectors.verification import verify as verify
