"""The papers' figures, tables and statements, and our own, as experiments that anyone can run again."""

from tcu.study.registry import ABSENT as ABSENT
from tcu.study.registry import PAPERS as PAPERS
from tcu.study.registry import STUDIES as STUDIES
from tcu.study.registry import chosen as chosen
from tcu.study.registry import named as named
from tcu.study.registry import what_is_missing as what_is_missing
from tcu.study.run import Result as Result
from tcu.study.run import run_study as run_study
from tcu.study.stored import stored_folder as stored_folder
from tcu.study.stored import stored_result as stored_result
from tcu.study.study import Figure as Figure
from tcu.study.study import Line as Line
from tcu.study.study import Outcome as Outcome
from tcu.study.study import Rows as Rows
from tcu.study.study import Shown as Shown
from tcu.study.study import Study as Study
from tcu.study.study import Table as Table
from tcu.study.study import Tree as Tree
from tcu.study.study import Verdict as Verdict
