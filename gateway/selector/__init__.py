"""Message selectors: the SQL-92 conditions of JMS 2.0 §3.8.1, one engine for every version."""

from gateway.selector.errors import SelectorError as SelectorError
from gateway.selector.expressions import Expression as Expression
from gateway.selector.expressions import ExpressionError as ExpressionError
from gateway.selector.expressions import NoExpressions as NoExpressions
from gateway.selector.like import EFFORT as EFFORT
from gateway.selector.properties import PropertiesFilter as PropertiesFilter
from gateway.selector.selectors import Selector as Selector
