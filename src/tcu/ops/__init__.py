"""Operations: what is computed, whoever executes it.  ``OPERATIONS`` has them all, by name."""

from tcu.ops.cumsum import CUMSUM as CUMSUM
from tcu.ops.dot import DOT as DOT
from tcu.ops.fcumsum import FCUMSUM as FCUMSUM
from tcu.ops.fdot import FDOT as FDOT
from tcu.ops.fmean import FMEAN as FMEAN
from tcu.ops.fnorm import FNORM as FNORM
from tcu.ops.fstd import FSTD as FSTD
from tcu.ops.fsum import FSUM as FSUM
from tcu.ops.fvar import FVAR as FVAR
from tcu.ops.layer_norm import LAYER_NORM as LAYER_NORM
from tcu.ops.log_softmax import LOG_SOFTMAX as LOG_SOFTMAX
from tcu.ops.logsumexp import LOGSUMEXP as LOGSUMEXP
from tcu.ops.mean import MEAN as MEAN
from tcu.ops.norm import NORM as NORM
from tcu.ops.normalize import NORMALIZE as NORMALIZE
from tcu.ops.operation import OPERATIONS as OPERATIONS
from tcu.ops.operation import Call as Call
from tcu.ops.operation import Operation as Operation
from tcu.ops.operation import find_operation as find_operation
from tcu.ops.operation import register as register
from tcu.ops.rms_norm import RMS_NORM as RMS_NORM
from tcu.ops.softmax import SOFTMAX as SOFTMAX
from tcu.ops.std import STD as STD
from tcu.ops.sum import SUM as SUM
from tcu.ops.var import VAR as VAR
