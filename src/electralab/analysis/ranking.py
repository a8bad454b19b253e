"""How well numbers tell one kind of token from another.

values, truth -> area under the ROC curve
"""

import numpy as np
from numpy.typing import NDArray

from electralab.analysis.finding import Flags


def find_auc(values: NDArray[np.floating], is_asked: Flags) -> float:
    """The chance that one asked for has a higher value than another, a tie being half a chance; 1/2 where one kind is
    absent. By ranks, so that drawing again thousands of times takes seconds."""
    from scipy.stats import rankdata

    asked = int(is_asked.sum())
    others = len(is_asked) - asked
    if not asked or not others:
        return 0.5
    total = float(rankdata(values)[is_asked].sum())
    return (total - asked * (asked + 1) / 2) / (asked * others)
