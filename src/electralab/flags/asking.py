"""The flags of the verbs that use a model."""

from typing import Any

from electralab.flags.values import count, number, positive_int
from electralab.flags.verb import add_settings, add_verb


def _add_detect(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "detect",
        "say for each token of a text how likely it was replaced",
        "electra detect runs/quickstart 'The people of the United elephants are free.'",
    )
    parser.add_argument("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the text, or - for standard input")
    parser.add_argument("--file", metavar="PATH", help="a file that holds the text")
    parser.add_argument("--lines", action="store_true", help="each line is a text of its own; --json gives a line each")
    add_settings(parser, "a TOML file of settings")


def _add_predict(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "predict",
        "answer for every row of a file with a tuned model",
        "electra predict runs/reviews new.csv --out answers.jsonl",
    )
    parser.add_argument("model", metavar="MODEL", help="a fine-tuning run or a tuned model folder")
    parser.add_argument("input", metavar="INPUT", help="a .csv, .tsv, .jsonl, .parquet or .txt file, or - for a pipe")
    parser.add_argument("--out", metavar="FILE", help=".jsonl, .csv or .tsv; default: JSON lines on standard output")
    parser.add_argument("--ensemble", action="store_true", help="average over all seeds of the run")
    parser.add_argument("--text", metavar="COLUMN", help="the column of the text; without it, found by name or content")
    parser.add_argument("--text-a", metavar="COLUMN", help="the column of the first text of a pair, or the question")
    parser.add_argument("--text-b", metavar="COLUMN", help="the column of the second, or the context")
    parser.add_argument("--threads", type=positive_int, default=0, metavar="N", help="default: the cores there are")
    add_settings(parser, "a TOML file of settings")


def _add_proofread(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "proofread",
        "name the words of documents that look wrong, and what may have been meant",
        "electra proofread letter.txt notes.md --model runs/mine --html proofs.html",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="text files, or - (or none) for standard input")
    parser.add_argument("--model", default="runs/quickstart", metavar="MODEL", help="a run or pair (runs/quickstart)")
    parser.add_argument("--threshold", type=float, metavar="P", help="how suspicious a word must be (0.5)")
    parser.add_argument("--limit", type=count, metavar="N", help="the most words to name in a document (50); 0 for all")
    parser.add_argument("--suggestions", type=count, metavar="N", help="for each word (3)")
    parser.add_argument("--html", metavar="FILE", help="write a page with the marked texts instead of lines")
    parser.add_argument("--measure", action="store_true", help="plant damage in the texts and say how much is found")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the damage that --measure plants (0)")
    parser.add_argument("--threads", type=positive_int, default=0, metavar="N", help="default: the cores there are")
    add_settings(parser, "a TOML file of settings")


def _add_serve(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "serve",
        "answer over HTTP, with a page to try it; SIGTERM lets it finish what it has begun",
        "electra serve runs/quickstart reviews=runs/reviews --port 8000",
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help="run or model folders, or NAME=FOLDER")
    parser.add_argument("--host", metavar="ADDRESS", help="to listen on (127.0.0.1); any other needs a key")
    parser.add_argument("--port", type=count, metavar="N", help="to listen on (8000); 0 for any that is free")
    parser.add_argument(
        "--allow-host",
        action="append",
        dest="allow_hosts",
        metavar="NAME",
        help="a further name by which it may be asked without a key, as behind a proxy; can be repeated",
    )
    parser.add_argument("--key-file", metavar="FILE", help="keys, one a line, of which each request must bring one")
    parser.add_argument(
        "--drain-seconds", type=number, metavar="S", help="to finish in what was begun when told to stop (2)"
    )
    parser.add_argument("--runtime", choices=["torch", "onnx"], help="what runs the networks (torch)")
    parser.add_argument("--threads", type=positive_int, default=0, metavar="N", help="default: the cores there are")
    add_settings(parser, "a TOML file of settings")


VERBS = (_add_detect, _add_predict, _add_proofread, _add_serve)
