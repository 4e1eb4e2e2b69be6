"""The keys that say where a server runs: checkpoint, nodes, variables, sizes."""

import pytest

from autotune.config import SweepConfig, parse_config
from autotune.errors import ConfigError

TEXT = """
name = "demo"
candidates = ["auto"]
reference = "auto"
[model]
{model}
[load]
concurrency = [1]
[engine]
name = "sglang"
{engine}
[parallel]
{parallel}
"""


def parse(
    *, model: str = 'repository = "owner/name"', engine: str = "", parallel: str = ""
) -> SweepConfig:
    text = TEXT.format(model=model, engine=engine, parallel=parallel)
    return parse_config(text, where="x.toml")


def refuse(*words: str, **changes: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(**changes)
    message = str(caught.value)
    assert message.startswith("x.toml") and "\n" not in message and message.isprintable()
    assert all(word in message for word in words), message


# -- model


@pytest.mark.parametrize(
    "name", ["owner/name", "nvidia/MiniMax-M2.7-NVFP4", "a/b", "0x/1_2.3-4", "o_o/n.n"]
)
def test_a_name_on_the_hub_is_taken(name: str) -> None:
    assert parse(model=f'repository = "{name}"').model.repository == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "name",
        "/name",
        "owner/",
        "owner//name",
        "owner/name/",
        "owner/name/more",
        "../../etc",
        "../name",
        "owner/..",
        "owner/../..",
        "./name",
        "owner/.name",
        "-owner/name",
        "owner/-name",
        "owner name/x",
        "owner/na me",
        "owner\\\\name",
        "owner/name\\n",
        "owner/näme",
        "owner/name@main",
        "owner/name:main",
        "https://huggingface.co/owner/name",
        "~/model",
        "/abs/olute",
        "o" * 97 + "/name",
        "owner/" + "n" * 97,
        "owner/name\\u0000",
        "owner/name\\u001b[31m",
    ],
)
def test_what_is_no_name_on_the_hub_is_refused(name: str) -> None:
    refuse("model.repository", "nvidia/MiniMax-M2.7-NVFP4", model=f'repository = "{name}"')


@pytest.mark.parametrize(
    "model",
    [
        'quantization = "none"',
        'path = "m"\nrepository = "owner/name"',
        'witness = "minimax-m2"\nrepository = "owner/name"',
        'path = "m"\nwitness = "minimax-m2"\nrepository = "owner/name"',
    ],
)
def test_a_checkpoint_is_given_in_one_way(model: str) -> None:
    refuse("exactly one of path, repository and witness", model=model)


@pytest.mark.parametrize("name", ["../M2", "a b", "", "Mini\\u001bMax", "a/b"])
def test_an_architecture_is_a_name(name: str) -> None:
    refuse("model.architecture", model=f'repository = "o/n"\narchitecture = "{name}"')


# -- nodes


@pytest.mark.parametrize("address", ["node-0:20000", "10.0.0.1:5", "head.cluster.local:65535"])
def test_where_nodes_meet_is_host_and_port(address: str) -> None:
    engine = f'coordinator = "{address}"\nlaunch_prefix = ["srun"]'
    assert parse(engine=engine, parallel="nodes = 2").engine.coordinator == address


def test_one_node_meets_nobody() -> None:
    refuse("engine.coordinator", "parallel.nodes", engine='coordinator = "host:5"')


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host",
        "host:",
        ":20000",
        "host:port",
        "host:-1",
        "host:123456",
        "a b:1",
        "host:1:2",
        "tcp://host:1",
        "host:1/x",
        "-host:1",
        "host:1\\n",
        "höst:1",
    ],
)
def test_any_other_address_is_refused(address: str) -> None:
    refuse("engine.coordinator", "host:port", engine=f'coordinator = "{address}"')


@pytest.mark.parametrize("address", ["host:0", "host:65536", "host:99999"])
def test_a_port_that_cannot_be_is_refused(address: str) -> None:
    refuse("engine.coordinator", engine=f'coordinator = "{address}"')


def test_nodes_need_a_launcher() -> None:
    refuse("parallel.nodes: 2 nodes", "engine.launch_prefix", "srun", parallel="nodes = 2")
    config = parse(engine='launch_prefix = ["srun", "--nodes=2"]', parallel="nodes = 2")
    assert config.parallel.nodes == 2 and config.engine.node_rank_variable == "SLURM_NODEID"
    assert parse(parallel="nodes = 1").parallel.nodes == 1


@pytest.mark.parametrize("size", ["tp", "ep", "dp", "attention_dp", "nodes"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", '"2"', "true", str(2**31 + 1)])
def test_sizes_count_from_one(size: str, value: str) -> None:
    refuse(f"parallel.{size}", parallel=f"{size} = {value}")


@pytest.mark.parametrize("name", ["", "1X", "A B", "A=B", "A-B", "Ä", "A\\u0000", "$X"])
def test_the_variable_of_the_nodes_number_is_one(name: str) -> None:
    refuse("engine.node_rank_variable", engine=f'node_rank_variable = "{name}"')


# -- variables, arguments and names


@pytest.mark.parametrize("name", ["", "1X", "A B", "A=B", "A-B", "Ä", "A\\u0000B", "$(x)"])
def test_a_variables_name_is_one(name: str) -> None:
    refuse("environment", engine=f'environment = {{ "{name}" = "1" }}')


def test_a_variables_value_ends_at_no_nul() -> None:
    refuse("environment: 'X'", engine='environment = { X = "a\\u0000b" }')


def test_a_candidates_variables_and_arguments_are_checked_too() -> None:
    plain = TEXT.format(model='repository = "o/n"', engine="", parallel="")
    for own in ('environment = { "1X" = "" }', 'arguments = ["a\\u0000b"]'):
        text = plain.replace('["auto"]', f'[{{ backend = "auto", {own} }}]')
        with pytest.raises(ConfigError, match=r"environment: '1X'|NUL"):
            parse_config(text, where="x.toml")


@pytest.mark.parametrize("key", ["arguments", "launch_prefix"])
def test_an_argument_holds_no_nul(key: str) -> None:
    refuse("NUL", engine=f'{key} = ["a\\u0000b"]')


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("engine.arch", {"engine": 'arch = "{}"'}),
        ("parallel.a2a_mode", {"parallel": 'a2a_mode = "{}"'}),
        ("parallel.a2a_backend", {"parallel": 'a2a_backend = "{}"'}),
        ("engine.dtype", {"engine": 'dtype = "{}"'}),
    ],
)
@pytest.mark.parametrize("name", ["", "../x", "a b", "a;b"])
def test_what_becomes_a_word_or_a_folder_is_a_name(
    key: str, changes: dict[str, str], name: str
) -> None:
    refuse(key, **{table: text.format(name) for table, text in changes.items()})


def test_the_new_keys_have_defaults() -> None:
    config = parse()
    assert (config.engine.arch, config.engine.coordinator) == (None, None)
    assert config.engine.share_kernel_tuning is False
    assert (config.parallel.attention_dp, config.parallel.nodes) == (1, 1)
    assert config.parallel.a2a_mode is None


@pytest.mark.parametrize(
    ("wrong", "right", "changes"),
    [
        ("repositry", "repository", {"model": 'repositry = "o/n"'}),
        ("architectur", "architecture", {"model": 'path = "m"\narchitectur = "X"'}),
        ("share_kernel_tunings", "share_kernel_tuning", {"engine": "share_kernel_tunings = true"}),
        ("cordinator", "coordinator", {"engine": 'cordinator = "a:1"'}),
        ("node", "nodes", {"parallel": "node = 2"}),
        ("attn_dp", "attention_dp", {"parallel": "attn_dp = 2"}),
    ],
)
def test_a_misspelt_key_is_told_with_the_nearest(
    wrong: str, right: str, changes: dict[str, str]
) -> None:
    refuse(f".{wrong}'", f"did you mean '{right}'?", **changes)
