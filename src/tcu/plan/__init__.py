"""Plans: the order of every MMA and every addition, as data."""

from tcu.plan.bounds import plan_error_bound as plan_error_bound
from tcu.plan.bounds import product_error_bound as product_error_bound
from tcu.plan.bounds import scan_error_bound as scan_error_bound
from tcu.plan.cost import ModelledTime as ModelledTime
from tcu.plan.cost import modelled_time as modelled_time
from tcu.plan.dot import make_dot_plan as make_dot_plan
from tcu.plan.matmul import MatmulPlan as MatmulPlan
from tcu.plan.matmul import make_matmul_plan as make_matmul_plan
from tcu.plan.plan import AddStep as AddStep
from tcu.plan.plan import FmaStep as FmaStep
from tcu.plan.plan import MmaStep as MmaStep
from tcu.plan.plan import Part as Part
from tcu.plan.plan import Plan as Plan
from tcu.plan.plan import granularity as granularity
from tcu.plan.plan import output_length as output_length
from tcu.plan.plan import tile_order as tile_order
from tcu.plan.scan import ScanPlan as ScanPlan
from tcu.plan.scan import make_scan_plan as make_scan_plan
from tcu.plan.segmented import SEGMENTED as SEGMENTED
from tcu.plan.trim import trimmed as trimmed
from tcu.plan.variants import DEFAULT_VARIANT as DEFAULT_VARIANT
from tcu.plan.variants import VARIANTS as VARIANTS
from tcu.plan.variants import make_plan as make_plan
from tcu.plan.version import VERSIONS as VERSIONS
