"""The flags of the verbs that hand a model on, and of completion."""

from typing import Any

from electralab.flags.values import count, names, number, positive, positive_int, shares
from electralab.flags.verb import add_settings, add_verb


def _add_export(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "export",
        "write a model in a form that others can use, tried against the model first",
        "electra export runs/mine --format onnx-int8 --data my_texts/ --out models/mine-int8",
    )
    parser.add_argument("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder to write")
    parser.add_argument(
        "--format", default="hf", metavar="NAME", help="hf (for transformers), onnx, or onnx-int8 (default: hf)"
    )
    parser.add_argument(
        "--data", metavar="PATH", help="your text, or prepared data, to calibrate with and to try it on"
    )
    parser.add_argument(
        "--activations", choices=["dynamic", "static"], help="of onnx-int8: ranges found in each call, or on --data"
    )
    parser.add_argument("--storage", choices=["fp32", "fp16", "bf16"], help="of hf: what the weights are stored in")
    parser.add_argument("--license", default="", metavar="NAME", help="of the weights: apache-2.0, mit, …, or a file")
    parser.add_argument("--threads", type=positive_int, default=0, metavar="N", help="default: the cores there are")
    add_settings(parser, "a TOML file of settings")


def _add_compress(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "compress",
        "make smaller and faster variants of a model and measure them; the same command again goes on",
        "electra compress runs/reviews --data reviews/ --out compressed/ --prune 0.3,0.5 --max-loss 1",
    )
    parser.add_argument("model", metavar="MODEL", help="a run or model folder: a tuned model, or a pre-trained pair")
    parser.add_argument(
        "--data", required=True, metavar="PATH", help="of a tuned model its task's files; else prepared data or text"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder of the variants")
    parser.add_argument("--storage", type=names, metavar="NAME,NAME", help="fp16, bf16; fp32 for neither (both)")
    parser.add_argument("--prune", type=shares, metavar="P,P", help="shares of heads and neurons to remove (0.3)")
    parser.add_argument("--no-prune", action="store_const", const=[], dest="prune", help="leave the network whole")
    parser.add_argument("--drop-layers", type=count, metavar="N", help="whole layers to leave out where pruned (0)")
    parser.add_argument("--recovery-steps", type=count, metavar="N", help="of training what is left (1000); 0 for none")
    parser.add_argument("--graphs", type=names, metavar="NAME,NAME", help="onnx, onnx-dynamic-int8, onnx-static-int8")
    parser.add_argument("--target-speedup", type=positive, metavar="X", help="take the best that is so much faster")
    parser.add_argument("--max-loss", type=number, metavar="X", help="take the fastest that loses so many points")
    parser.add_argument("--license", default="", metavar="NAME", help="of the weights: apache-2.0, mit, …, or a file")
    parser.add_argument("--generator", metavar="MODEL", help="of a pair: the fixed generator that replaces tokens")
    parser.add_argument("--task", metavar="NAME", help="of a tuned model that does not say what it was tuned for")
    parser.add_argument("--seed", type=int, metavar="S", help="of the training of what is left (0)")
    parser.add_argument("--threads", type=positive_int, default=0, metavar="N", help="default: the cores there are")
    add_settings(parser, "a TOML file of settings")


def _add_import(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "import",
        "convert a legacy pickled or TensorFlow checkpoint into a safe model folder",
        "electra import old/ --out models/new",
    )
    parser.add_argument("old", metavar="OLD", help="a folder with pytorch_model.bin or a TensorFlow checkpoint")
    parser.add_argument("--out", required=True, metavar="NEW", help="the folder to write")


def _add_completion(verbs: Any) -> None:
    parser = add_verb(verbs, "completion", "print a completion script for a shell", 'eval "$(electra completion bash)"')
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"], help="the shell to complete words in")


VERBS = (_add_export, _add_compress, _add_import, _add_completion)
