"""The report: what the studies found, as one page."""

from tcu.report.chapters import Chapter as Chapter
from tcu.report.chapters import Origin as Origin
from tcu.report.chapters import Part as Part
from tcu.report.chapters import collect as collect
from tcu.report.chapters import parts_of as parts_of
from tcu.report.page import MARKS as MARKS
from tcu.report.page import explorer_page as explorer_page
from tcu.report.page import origin_of as origin_of
from tcu.report.page import report_page as report_page
