"""The files of the shards: how they are divided and how they are recorded."""

from pathlib import Path

from headswap.data.remote_files import UNKNOWN_SIZE
from headswap.tokens.shard_plan import SourceFile, as_json, is_same_plan, list_sources, plan_shards, recorded


def test_files_are_divided_in_their_order() -> None:
    files = [SourceFile(str(number), size, "") for number, size in enumerate([4, 5, 2, 30, 1, 1])]
    assert [[file.size for file in part] for part in plan_shards(files, 10)] == [[4, 5], [2], [30], [1, 1]]


def test_a_file_of_unknown_size_is_a_shard_alone() -> None:
    files = [SourceFile(str(number), size, "") for number, size in enumerate([4, UNKNOWN_SIZE, UNKNOWN_SIZE, 3, 2])]
    assert [[file.place for file in part] for part in plan_shards(files, 10)] == [["0"], ["1"], ["2"], ["3", "4"]]


def test_a_file_given_twice_is_listed_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    found = list_sources([str(tmp_path / "a.txt"), str(tmp_path)])
    assert [(file.name, file.size) for file in found] == [("a.txt", 1)]


def test_the_record_has_names_but_no_folders_or_signatures() -> None:
    files = [SourceFile("/home/ada/x/a.txt", 1, "7"), SourceFile("/home/ada/y/a.txt", 1, "7")]
    signed = SourceFile("https://host/private/b.jsonl.gz?Signature=secret", 2, "etag")
    ((one, other, remote),) = recorded([[*files, signed]])
    assert (one["name"], remote["name"], remote["version"]) == ("a.txt", "b.jsonl.gz", "etag")
    assert one["folder"] != other["folder"]
    assert not any(word in str((one, other, remote)) for word in ("ada", "private", "secret", "/"))
    again = SourceFile("https://host/private/b.jsonl.gz?Signature=other", 2, "etag")
    moved = [SourceFile(file.place.replace("/home/ada", "/mnt"), file.size, file.version) for file in files]
    assert recorded([[*moved, again]]) == [[one, other, remote]]


def test_a_plan_with_places_is_compared_by_names() -> None:
    shards = [[SourceFile("/a/b.txt", 1, "7")]]
    plan = {"shards": recorded(shards), "side": []}
    assert is_same_plan({"shards": as_json(shards), "side": []}, plan)
    assert is_same_plan(plan, plan)
    assert not is_same_plan({"shards": as_json([[SourceFile("/a/b.txt", 2, "7")]]), "side": []}, plan)
    assert not is_same_plan({"shards": as_json(shards), "side": ["word_starts"]}, plan)
