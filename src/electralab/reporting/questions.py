"""What an analysis asks with each claim, and the one figure that answers it first.

Subject -> sentence...
"""

from collections.abc import Iterator
from typing import Any

from electralab.reporting.format import format_estimate, is_number
from electralab.reporting.subjects import Subject, Tree

QUESTIONS = {
    "M30": "How many bits does a token of input, and a FLOP, teach?",
    "M31": "At which tokens does the loss pull?",
    "M32": "Are generator and discriminator a match?",
    "M33": "What shape has the cloud of states, and do parts of speech and entities lie apart in it?",
    "M34": "Do analogies hold in the table of embeddings and in the states?",
    "M35": "How much does a state depend on its context, and how smoothly does that come?",
    "M36": "Does a state stay as it is when its row is moved?",
    "M37": "Is a change of the sentence a linear map of its vector?",
    "M38": "How many neighbours does a verdict or a guess take into account?",
    "M39": "What does a token of training cost?",
    "M40": "What do more parameters, data and compute buy?",
    "M42": "What do smaller variants of the model gain and cost?",
    "M43": "How much noise can a linear classifier on the states fit?",
    "M44": "How far are other domains, and what is lost there?",
    "M46": "How plausible are replacements, and how hard to tell?",
    "M47": "What does damage to the input leave of a tuned model's accuracy?",
    "heads": "Where do attention heads look?",
}
# Where the first figure of a claim is not the one that answers its question.
_ANSWERS = {
    "M32": ("verdict AUC",),
    "M33": ("part of speech probe",),
    "M36": ("rotation sameness",),
    "M38": ("verdict AUC, gain by context", "guess loss, gain by context"),
}


def tell_estimate(figure: Any) -> str:
    if not isinstance(figure, dict) or not is_number(figure.get("value")):
        return "–"
    low, high = figure.get("low"), figure.get("high")
    return format_estimate(figure["value"], low if is_number(low) else None, high if is_number(high) else None)


def list_of(tree: Tree, key: str) -> list[Tree]:
    found = tree.get(key, [])
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def find_twins(analysis: Tree) -> dict[str, str]:
    """Untrained twin -> its model."""
    return {
        str(one.get("name")): str(one["control_of"]) for one in list_of(analysis, "models") if one.get("control_of")
    }


def list_own(analysis: Tree, key: str) -> list[Tree]:
    """Findings, or what is missing, of the models themselves."""
    twins = find_twins(analysis)
    return [one for one in list_of(analysis, key) if one.get("model") not in twins]


def tell_answers(subject: Subject) -> Iterator[str]:
    """A sentence for each claim: its first figure, at the last layer, beside the untrained twin's."""
    found, twins = list_of(subject.analysis, "findings"), find_twins(subject.analysis)
    for claim in sorted({str(one.get("claim", "")) for one in found}):
        rows = [one for one in found if one.get("claim") == claim]
        names = [one.get("name") for one in rows if one.get("model") not in twins]
        if not names:
            continue
        name = next((one for one in _ANSWERS.get(claim, ()) if one in names), names[0])
        # Layers come in order: the last one stays.
        last = {str(one.get("model")): one for one in rows if one.get("name") == name}
        untrained = {model: last[twin] for twin, model in twins.items() if twin in last}
        said = [
            f"{model} {tell_estimate(one)}"
            + (f", untrained {tell_estimate(untrained[model])}" if model in untrained else "")
            for model, one in last.items()
            if model not in twins
        ]
        unit = next(str(one.get("unit", "")) for one in last.values())
        yield f"{claim}, {name}{f' ({unit})' if unit and unit not in str(name) else ''}: {'; '.join(said)}."
