"""`headswap embed`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from headswap.cli.flags import Device, Download, Fast, Output, OutputFlags, switch
from headswap.model.shape import Pooling
from headswap.training.config import DeviceName, FastName


def embed(
    bundle: str,
    *text: str,
    file: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,  # - is standard input
    text_column: str | None = None,
    pooling: Pooling = "mean",
    normalize: Annotated[bool, switch("Scale every vector to length 1.")] = False,
    max_length: int | None = None,
    out: Path | None = None,
    overwrite: Annotated[bool, switch("Replace the file if it exists.")] = False,
    device: Annotated[DeviceName, Device] = "auto",
    fast: Annotated[FastName, Fast] = "auto",
    allow_download: Annotated[bool, Download] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Compute one vector per text.

    The vector of a text is pooled from its token vectors, the outputs of the last layer of the base.

    Example: headswap embed runs/base --file reviews.txt --out vectors.npy

    Parameters
    ----------
    bundle
        Run folder or bundle of a base or of a fine-tuned model, an installed base (box:NAME, see headswap bases),
        or a Hugging Face checkpoint: a folder (hf:FOLDER) or a name on the Hub (hf:NAME).
    text
        Texts to embed; - reads one text per line from standard input.
    file
        File with the texts: plain text (one text per line), or .jsonl, .csv, .tsv or .parquet. Give - for standard
        input.
    text_column
        Name of the column with the texts. [default: text]
    pooling
        How the token vectors of a text become one vector: last, mean, first, max, mean+max (both, concatenated), or
        weighted-mean (token i has weight i).
    max_length
        Maximum number of tokens per text. [default: the context length of the base]
    out
        NumPy file (.npy) to write, one row per text; --json then prints the path and the numbers of rows and columns.
        Without it each vector is printed as one line of JSON, also without --json.
    """
    from numpy.lib import format as npy

    from headswap.bundle.bundle import Bundle
    from headswap.cli.display import print_json, start_messages
    from headswap.cli.texts import texts_to_read
    from headswap.core.errors import counted
    from headswap.core.files import atomic_file
    from headswap.core.outputs import check_file, check_file_flags
    from headswap.inference.embed import are_vectors, embed_texts
    from headswap.training.device import device_with

    console = start_messages(quiet=flags.quiet)
    check_file_flags(out, ".npy", overwrite=overwrite, written="vectors are written as a NumPy array")
    if out is not None:
        reads = [file] if file else []
        check_file(
            out, what="array of vectors", is_ours=are_vectors, overwrite=overwrite, reads=reads, example="vectors.npy"
        )
    texts = texts_to_read(text, file, text_column)
    loaded = Bundle.load(bundle, device=device_with(device, fast=fast), allow_download=allow_download)
    vectors = embed_texts(loaded, texts, pooling=pooling, normalize=normalize, max_length=max_length)
    if out is None:
        for one, vector in zip(texts, vectors, strict=True):
            print_json({"text": one, "vector": [round(float(value), 6) for value in vector]})
        return
    with atomic_file(out) as temporary:
        with temporary.open("wb") as target:  # np.save reports a full disk without a reason
            npy.write_array_header_1_0(target, npy.header_data_from_array_1_0(vectors))
            target.write(vectors.data)
    if flags.json:
        print_json({"path": str(out), "num_texts": len(texts), "width": vectors.shape[1]})
    elif not flags.quiet:
        console.print(f"{out}: {counted(len(texts), 'vector')} of width {vectors.shape[1]}.")
