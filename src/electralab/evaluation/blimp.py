"""Does the model find the acceptable sentence of a pair the more plausible one?

blimp.tar.xz | folder | .jsonl -> MinimalPair... -> SuiteResult

The discriminator reads a sentence once: sum of log(1 - p_replaced), or of minus the energy where it was taught those,
which is a pseudo-log-likelihood up to a constant for each token. A generator says sum of log p(token), and what it
is asked with depends on what it was taught:

    pseudo-log-likelihood   with each token in turn hidden from it, a pass for each
    log-likelihood          causal: with what stands before the token, one pass
    cloze                   two towers: with all but the token, one pass
    unmasked                taught to mend rows without [MASK]: with the row as it is, one pass

Special tokens, the unknown one among them, do not count: the networks were never asked about them.

A paradigm's score is the share of its pairs that are the right way round, a tie counting one half; a group's score is
the mean of its paradigms. Intervals cover 95 % of what other pairs of the same paradigms would give.
"""

import json
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from electralab.artifacts import sha256_json
from electralab.config import Settings
from electralab.corpus.sources import find_sources, open_source
from electralab.errors import InputError
from electralab.evaluation import context as evaluation
from electralab.evaluation.context import EvalContext, EvalModel, Progressive, SuiteResult
from electralab.events import Progress
from electralab.model.electra import Discriminator, TokenModel, TwoTower
from electralab.randomness import mix
from electralab.records.evaluation import GroupScores, Scores
from electralab.tokens.batches import batch_by_length
from electralab.tokens.tokenizer import Tokenizer

FloatArray = NDArray[np.float64]
Scoring = Literal["verdicts", "energies", "pseudo-log-likelihood", "log-likelihood", "cloze", "unmasked"]

# What a reader must know of a score; verdicts are what a discriminator usually says.
_NOTES: dict[Scoring, str] = {
    "energies": "the discriminator's score is minus the energy of each token, in one pass",
    "pseudo-log-likelihood": "the generator's score is the pseudo-log-likelihood: log p of each token, hidden from it "
    "in turn",
    "log-likelihood": "the generator's score is the log-likelihood: log p of each token after those before it, in one "
    "pass",
    "cloze": "the generator's score is the cloze likelihood: log p of each token between all others, in one pass",
    "unmasked": "the generator's score is unmasked: log p of each token in the row as it is, in one pass",
}
# Logits for every token at once are as many numbers as the vocabulary has entries, for each.
_LOGITS_SHARE = 4
# Their networks were asked about tokens that stood there, and never saw [MASK].
_UNMASKED = ("replace-mlm", "all-tokens-mlm")
MAX_LINE_BYTES = 1 << 20
MAX_MEMBER_BYTES = 1 << 28
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_TAR_ENDINGS = (".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")


class BlimpConfig(Settings):
    limit: int = Field(0, ge=0)
    """Pairs of each paradigm that a network judges in one pass, drawn by the seed; 0 means all."""
    generator_limit: int = Field(100, ge=0)
    """Pairs of each paradigm that a generator judges that must be asked for one token at a time; 0 means all."""


@dataclass(frozen=True, slots=True)
class MinimalPair:
    good: str
    bad: str
    uid: str
    """The paradigm it was made by; without one, the name of its file."""
    linguistics_term: str
    field: str


class _BlimpLine(BaseModel):
    """What we read of a line of BLiMP, which may hold anything."""

    sentence_good: object = None
    sentence_bad: object = None
    uid: object = Field(default=None, alias="UID")
    linguistics_term: object = ""
    field: object = ""


@dataclass(frozen=True, slots=True)
class PairsRead:
    pairs: list[MinimalPair]
    bad_rows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SentenceScores:
    """How plausible a network finds each text, in the order of the texts."""

    sums: FloatArray  # (N,)
    means: FloatArray  # (N,) per token that counts; 0 where none does


@dataclass(frozen=True, slots=True)
class PairOutcomes:
    """1 where the acceptable sentence won, 0 where it lost, 1/2 for a tie."""

    pairs: Sequence[MinimalPair]
    wins: dict[str, FloatArray]  # name of the score -> (N,)


def evaluate_blimp(model: EvalModel, data: Path, config: BlimpConfig, context: EvalContext) -> Progressive[SuiteResult]:
    tokenizer = model.tokenizer
    evaluation.require_text(tokenizer, str(model.path))
    read = read_pairs(data, context.max_bad_share)
    counts = {"pairs": len(read.pairs), "bad_rows": len(read.bad_rows)}
    notes: list[str] = []
    outcomes: list[PairOutcomes] = []
    for role, network in (("discriminator", model.discriminator), ("generator", model.generator)):
        if network is None:
            notes.append(f"{model.path} holds no {role}: no score of one")
            continue
        scoring: Scoring = "energies" if model.outputs_energies else "verdicts"
        if not isinstance(network, Discriminator):
            scoring = choose_scoring(network, model.objective)
        limit = config.generator_limit if scoring == "pseudo-log-likelihood" else config.limit
        pairs = choose_pairs(read.pairs, limit, context.seed)
        texts = [pair.good for pair in pairs] + [pair.bad for pair in pairs]
        sentences = evaluation.encode_sentences(tokenizer, texts, network.config.sequence_length)
        scores = yield from score_sentences(network, tokenizer, sentences, context, scoring)
        notes += [_NOTES[scoring]] if scoring in _NOTES else []
        # By the whole sentence, and by its mean per token: the former favours short sentences.
        named = {role: scores.sums, f"{role}_mean": scores.means}
        outcomes.append(PairOutcomes(pairs, {name: compare_halves(values) for name, values in named.items()}))
        counts |= {f"{role}_pairs": len(pairs), f"{role}_truncated": sentences.truncated}
        if len(pairs) < len(read.pairs):
            notes.append(f"the {role}'s scores are of {limit} pairs per paradigm, {len(pairs):,} in all")
        if sentences.truncated:
            notes.append(f"{sentences.truncated:,} sentences were cut to the {role}'s sequence length")
    summary, groups = summarise_pairs(outcomes)
    asked = [[[pair.good, pair.bad] for pair in outcome.pairs] for outcome in outcomes]
    # Two networks that judge the same pairs are asked what one is.
    identity = sha256_json([texts for index, texts in enumerate(asked) if texts not in asked[:index]])
    return SuiteResult(summary, groups, counts, identity, tuple(notes), read.bad_rows)


def read_pairs(data: Path, max_bad_share: float) -> PairsRead:
    pairs: list[MinimalPair] = []
    bad_rows: list[str] = []
    for file, number, content in _read_lines(data):
        pair = _parse(file, number, content)
        if isinstance(pair, MinimalPair):
            pairs.append(pair)
        else:
            bad_rows.append(f"{file}: line {number}: {pair}")
    if len(bad_rows) > max_bad_share * (len(pairs) + len(bad_rows)):
        raise InputError(
            f"{data}: {len(bad_rows):,} of {len(pairs) + len(bad_rows):,} lines hold no pair, the first is "
            f"{bad_rows[0]}; correct them, or raise --data.max-bad-share"
        )
    if not pairs:
        raise InputError(f"{data}: holds no pair; give BLiMP's archive, a folder or a .jsonl file")
    return PairsRead(pairs, tuple(bad_rows))


def _parse(file: str, number: int, content: bytes) -> MinimalPair | str:
    """A pair, or why there is none."""
    try:
        record = json.loads(content.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except (ValueError, RecursionError) as error:
        return f"is not JSON ({error})"
    if not isinstance(record, dict):
        return "is not a JSON object"
    line = _BlimpLine.model_validate(record)
    for name, sentence in (("sentence_good", line.sentence_good), ("sentence_bad", line.sentence_bad)):
        if not isinstance(sentence, str) or not sentence.strip():
            return f"has no text in {name!r}"
        if _LONE_SURROGATE.search(sentence):
            return f"has half a character in {name!r}"
    uid = line.uid or Path(file).name.split(".")[0]
    # BLiMP spells one field in two ways: "syntax_semantics" and "syntax/semantics".
    field = str(line.field).replace("/", "_")
    return MinimalPair(str(line.sentence_good), str(line.sentence_bad), str(uid), str(line.linguistics_term), field)


def _read_lines(data: Path) -> Iterator[tuple[str, int, bytes]]:
    """The file, the number of the line in it, and what it holds."""
    if not data.exists():
        raise InputError(f"{data}: no such file or folder; give BLiMP's archive, a folder or a .jsonl file")
    try:
        for file, stream in _open_files(data):
            number = 0
            while content := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(content) > MAX_LINE_BYTES:
                    raise InputError(f"{file}: line {number} is longer than {MAX_LINE_BYTES >> 20} MB; break it up")
                if content.strip():
                    yield file, number, content
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError) as error:
        raise InputError(f"{data}: truncated or not a tar archive ({error}); get the file again") from None
    except OSError as error:
        raise InputError(f"{data}: cannot be read ({error.strerror or error}); check the file") from None


def _open_files(data: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if not (data.is_file() and data.name.lower().endswith(_TAR_ENDINGS)):
        for source in find_sources([str(data)]).files:
            # A folder may hold a README or a table beside the pairs; a file that was named must hold pairs.
            if source.format == "jsonl" or source.is_named:
                with open_source(source) as stream:
                    yield str(source.path), stream
        return
    # As a stream: nothing is unpacked onto the disk, so that no name in it can lead anywhere.
    with tarfile.open(data, "r|*") as archive:
        for member in archive:
            name = Path(member.name).name
            if not member.isfile() or not name.endswith(".jsonl") or name.startswith("."):
                continue
            if member.size > MAX_MEMBER_BYTES:
                raise InputError(f"{data}: {member.name} is larger than {MAX_MEMBER_BYTES >> 20} MB; split it up")
            content = archive.extractfile(member)
            assert content is not None, "a regular file has content"
            yield member.name, content


def choose_pairs(pairs: Sequence[MinimalPair], limit: int, seed: int) -> list[MinimalPair]:
    """At most `limit` of each paradigm, the same ones for every model, in the order of the file."""
    if not limit:
        return list(pairs)
    seen: dict[str, int] = {}
    chosen: list[int] = []
    for index in np.argsort(mix(seed, np.arange(len(pairs))), kind="stable"):
        uid = pairs[index].uid
        seen[uid] = seen.get(uid, 0) + 1
        if seen[uid] <= limit:
            chosen.append(int(index))
    return [pairs[index] for index in sorted(chosen)]


def choose_scoring(generator: TokenModel, objective: str) -> Scoring:
    if objective in _UNMASKED:
        return "unmasked"
    if isinstance(generator, TwoTower):
        return "cloze"
    return "pseudo-log-likelihood" if generator.reads_masked else "log-likelihood"


def score_sentences(
    network: Discriminator | TokenModel,
    tokenizer: Tokenizer,
    sentences: evaluation.Sentences,
    context: EvalContext,
    scoring: Scoring,
) -> Progressive[SentenceScores]:
    """A pass for each sentence, or for each of its tokens where it must be hidden."""
    device = next(network.parameters()).device
    is_ordinary = torch.from_numpy(tokenizer.is_ordinary).to(device)
    is_hiding = scoring == "pseudo-log-likelihood"
    batch_tokens = context.batch_tokens
    if isinstance(network, TokenModel) and not is_hiding:
        batch_tokens = max(1, batch_tokens // _LOGITS_SHARE)
    sums, done = np.zeros(len(sentences.rows)), 0
    for batch in batch_by_length(sentences.rows, tokenizer.special, batch_tokens, device):
        input_ids, length = batch.input_ids, batch.input_ids.shape[1]
        is_counted = is_ordinary[input_ids] & ~batch.is_pad  # (B, T)
        log_probs = torch.zeros(input_ids.shape, dtype=torch.float64, device=device)  # (B, T)
        targets = is_counted.nonzero()  # (M, 2) row and column
        copies = max(1, batch_tokens // length) if is_hiding else max(1, len(targets))
        for part in torch.split(targets, copies):
            context.check()
            rows, columns = part.unbind(dim=1)
            with torch.inference_mode():
                if isinstance(network, Discriminator):
                    logits = network(input_ids, torch.zeros_like(input_ids), batch.attention_pad).double()
                    scores = -logits if scoring == "energies" else F.logsigmoid(-logits)
                    log_probs[rows, columns] = scores[rows, columns]
                    continue
                if is_hiding:
                    # Each target in a copy of its row where it alone is hidden.
                    numbers = torch.arange(len(part), device=device)
                    asked, is_pad = input_ids[rows], batch.is_pad[rows]
                    asked[numbers, columns] = tokenizer.special.mask
                    pad, positions = is_pad if bool(is_pad.any()) else None, numbers * length + columns
                else:
                    asked, pad, positions = input_ids, batch.attention_pad, rows * length + columns
                logits = network(asked, torch.zeros_like(asked), pad, positions)
                target_ids = input_ids[rows, columns]
                log_probs[rows, columns] = -F.cross_entropy(logits.float(), target_ids, reduction="none").double()
        sums[batch.rows] = log_probs.sum(dim=1).cpu().numpy()
        done += len(batch.rows)
        yield Progress("discriminator" if isinstance(network, Discriminator) else "generator", done, len(sums))
    counts = np.array([max(int(tokenizer.is_ordinary[row].sum()), 1) for row in sentences.rows])
    return SentenceScores(sums[sentences.row_ids], (sums / counts)[sentences.row_ids])


def compare_halves(values: FloatArray) -> FloatArray:
    """(2N,) of the good sentences and then of the bad ones -> (N,) which of each pair won."""
    good, bad = np.split(values, 2)
    wins: FloatArray = (good > bad) + 0.5 * (good == bad)
    return wins


def summarise_pairs(outcomes: Sequence[PairOutcomes]) -> tuple[Scores, GroupScores]:
    """The mean over all paradigms, and over those of each group, for every score."""
    scores: Scores = {}
    groups: GroupScores = {"field": {}, "linguistics_term": {}, "uid": {}}
    for outcome in outcomes:
        paradigms: dict[str, list[int]] = {}
        for index, pair in enumerate(outcome.pairs):
            paradigms.setdefault(pair.uid, []).append(index)
        for name, wins in outcome.wins.items():
            scores |= _average(name, [wins[indices] for indices in paradigms.values()])
            for kind, members in groups.items():
                # A pair that does not tell its group is in none.
                named = {(getattr(pair, kind), pair.uid) for pair in outcome.pairs if getattr(pair, kind)}
                uids_of: dict[str, list[str]] = {}
                for member, uid in sorted(named):
                    uids_of.setdefault(member, []).append(uid)
                for member, uids in uids_of.items():
                    members.setdefault(member, {}).update(_average(name, [wins[paradigms[uid]] for uid in uids]))
    return scores, groups


def _average(name: str, paradigms: Sequence[FloatArray]) -> Scores:
    mean = float(np.mean([wins.mean() for wins in paradigms]))
    # Agresti and Coull's two more of each kind: a paradigm of which all pairs are right is not known exactly.
    shares = [((wins.sum() + 2) / (len(wins) + 4), len(wins) + 4) for wins in paradigms]
    margin = 1.96 * float(np.sqrt(sum(share * (1 - share) / count for share, count in shares))) / len(paradigms)
    return {name: mean, f"{name}_interval": [max(0.0, mean - margin), min(1.0, mean + margin)]}
