"""`headswap demo`."""

from pathlib import Path
from typing import Annotated

from headswap.cli.flags import Output, OutputFlags, switch


def demo(
    *,
    out: Path = Path("runs/demo"),
    minutes: float = 1.25,
    labels: int = 1_000,
    seeds: int = 3,
    overwrite: Annotated[bool, switch("Remove an earlier demo first.")] = False,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Pre-train on film reviews, swap the head, fine-tune, and see what it bought (about 5 minutes).

    Parameters
    ----------
    out
        Folder for everything the demo makes; a demo that was stopped goes on there.
    minutes
        How long to pre-train.
    labels
        How many labelled sentences each model may see.
    seeds
        How often each model is fine-tuned.
    """
    from headswap.cli.display import Display, print_json, print_table, start_messages
    from headswap.core.errors import SettingError
    from headswap.core.files import remove_folder
    from headswap.study.comparison import verdict
    from headswap.study.demo import run_demo
    from headswap.study.figures import mean_curve, spark_line

    if minutes <= 0 or labels < 20 or seeds < 1:
        raise SettingError("minutes must be above 0, labels at least 20, and seeds at least 1.")
    console = start_messages(quiet=flags.quiet)
    if overwrite and (out / "base" / "recipe.toml").exists():
        remove_folder(out)

    def announce(arm: str, seed: int) -> None:
        if not flags.quiet:
            console.print(f"\n[bold]{arm}[/bold], seed {seed}")

    with Display(console, quiet=flags.quiet) as display:
        found = run_demo(
            out, minutes=minutes, num_labels=labels, seeds=range(1, seeds + 1), observer=display, on_arm=announce
        )
    if flags.json:
        print_json(found.as_json() | {"verdict": verdict(found), "out": str(out)})
        return
    curves = {arm: mean_curve(curve) for arm, curve in found.curves.items() if all(curve)}
    values = [value for curve in curves.values() for _, value in curve]
    rows = []
    for arm in found.accuracy:
        score = found.interval(arm)
        span = f"{score.low:.3f} to {score.high:.3f}" if score.low is not None else "too few seeds"
        curve = spark_line([value for _, value in curves[arm]], min(values), max(values)) if arm in curves else ""
        rows.append((arm, f"{score.mean:.3f}", span, curve))
    title = f"Test accuracy on {found.num_test:,} sentences, {found.num_labels} labels, {seeds} seed(s)"
    print_table(title, ("arm", "mean", "95 % interval", "validation by epoch"), rows)
    for sentence in verdict(found):
        print(sentence)
    print(f"Files: {out}/comparison.png (both curves), comparison.json, base/, and one folder a fine-tuning.")
