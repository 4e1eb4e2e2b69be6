"""A worker process: one backend, or the oracle, on its own, so that nothing it breaks is ours.

It waits for a request, does it, answers, and ends when nobody is left to ask. What it prints goes
into its log. `autotune.kernels.pool` starts and ends it.
"""

import os
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import torch

from autotune.errors import UsageError
from autotune.kernels.backends.protocol import Call, Device, Prepared, Problem
from autotune.kernels.compare import judge
from autotune.kernels.device import find_device, free_bytes, measure_roof
from autotune.kernels.distribution import Distribution, parse_distribution
from autotune.kernels.held import DequantizedExperts, calibrate, roundings
from autotune.kernels.layer import Batch, Layer, seeded_batch, seeded_layer
from autotune.kernels.messages import (
    Answer,
    Answered,
    BeOracle,
    Check,
    Checked,
    Failed,
    FindDevice,
    Found,
    Prepare,
    Ready,
    Request,
    Response,
    Time,
    Timed,
)
from autotune.kernels.oracle import EXACT, moe_layer
from autotune.kernels.quantization.schemes import SCHEMES
from autotune.kernels.quantization.tolerance import tolerance
from autotune.kernels.registry import find_backend
from autotune.kernels.routing import Routing
from autotune.kernels.schema import KernelConfig
from autotune.kernels.timing import Timer
from autotune.kernels.timing.cuda import CudaTimer
from autotune.kernels.timing.host import HostTimer, calls_per_block
from autotune.kernels.work import layer_work

# An oracle in float64 is slow: of a large batch, this many tokens are compared, evenly spread.
MOST_COMPARED = 512
_CALIBRATION_TOKENS = 64
_EMPTY_CALLS = 2000
_REASON_CHARACTERS = 300


def serve(connection: Connection, log: str) -> None:
    """Answer requests until the other end is closed. The entry point of a worker process."""
    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    worker = Worker()
    while True:
        try:
            data = connection.recv_bytes()
        except (EOFError, OSError):
            return
        response = answer(worker, msgspec.json.decode(data, type=Request))
        sys.stdout.flush()
        try:
            connection.send_bytes(msgspec.json.encode(response))
        except OSError:
            return


def answer(worker: "Worker", request: Request) -> Response:
    """Do what is asked; whatever goes wrong becomes a `Failed`."""
    try:
        with torch.inference_mode():
            return worker.do(request)
    except UsageError as error:
        return Failed(status="unsupported", reason=_line(error))
    except (torch.cuda.OutOfMemoryError, MemoryError) as error:
        torch.cuda.empty_cache()
        return Failed(status="oom", reason=_line(error))
    except Exception as error:
        # Whatever a kernel library raises: that backend's row, with the whole story in its log.
        sys.excepthook(type(error), error, error.__traceback__)
        out_of_memory = "can't allocate memory" in str(error) or "out of memory" in str(error)
        return Failed(
            status="oom" if out_of_memory else "failed",
            reason=f"{type(error).__name__}: {_line(error)}",
        )


def _line(error: BaseException) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return (text or type(error).__name__)[:_REASON_CHARACTERS]


class Worker:
    """What a worker holds between requests."""

    def __init__(self) -> None:
        self._config: KernelConfig
        self._problem: Problem
        self._layer: Layer
        self._distribution: Distribution
        self._roundings = EXACT
        self._prepared: Prepared | None = None
        self._backend = ""
        self._timer: Timer | None = None
        self._calls = 0

    def do(self, request: Request) -> Response:
        """Do one request.

        Raises:
            Exception: anything that a kernel library raises.
        """
        match request:
            case FindDevice():
                return Found(device=find_device(request.asked))
            case BeOracle():
                return self._be_oracle(request)
            case Prepare():
                return self._prepare(request)
            case Answer():
                return self._answer(request)
            case Check():
                return self._check(request)
            case Time():
                return self._time()

    def _be_oracle(self, request: BeOracle) -> Ready:
        # Before the layer is there: the roof is the device's, not what a full memory leaves of it.
        device = request.problem.device
        roof = measure_roof(device, request.problem.scheme)
        empty = HostTimer(_nothing).times_s(_EMPTY_CALLS)
        self._make(request.config, request.problem)
        calibration = calibrate(self._layer, self._batch(_CALIBRATION_TOKENS))
        self._roundings = roundings(request.problem.scheme, calibration)
        return Ready(calibration=calibration, roof=roof, empty_call_s=sum(empty) / len(empty))

    def _prepare(self, request: Prepare) -> Ready:
        self._make(request.config, request.problem)
        self._backend = request.backend
        backend = find_backend(request.backend)
        self._prepared = backend.prepare(self._layer, request.problem, request.calibration)
        # The kernel has its own form of the weights, and the other backends need room beside it.
        self._layer = self._layer.without_weights()
        if request.problem.device.kind == "cuda":
            torch.cuda.empty_cache()
        return Ready()

    def _make(self, config: KernelConfig, problem: Problem) -> None:
        sizes = problem.spec.geometry
        # The weights, and as much again for the form that a kernel takes.
        needed = 2 * 2 * 3 * sizes.experts * sizes.hidden_size * sizes.expert_width
        _check_room(needed, problem.device, "the layer's weights and a kernel's copy")
        self._config, self._problem = config, problem
        self._distribution = parse_distribution(config.distribution)
        self._layer = seeded_layer(problem.spec, seed=config.seed, device=self._device)

    @property
    def _device(self) -> torch.device:
        return torch.device(self._problem.device.kind)

    def _batch(self, tokens: int) -> Batch:
        return seeded_batch(
            self._layer,
            tokens=tokens,
            distribution=self._distribution,
            seed=self._config.seed,
            device=self._device,
        )

    def _answer(self, request: Answer) -> Answered:
        """Write both oracles' outputs for the compared tokens, float32, to a file."""
        batch = self._batch(request.tokens)
        rows = compared_rows(request.tokens).to(self._device)
        routing = Routing(batch.routing.expert_ids[rows], batch.routing.weights[rows])
        activation = self._layer.spec.activation
        hidden_states = batch.hidden_states[rows]
        full = moe_layer(hidden_states, self._layer, routing, activation)
        dequantized = full
        scheme = self._problem.scheme
        if scheme != "bf16":
            dequantized = moe_layer(
                hidden_states,
                DequantizedExperts(self._layer, scheme),
                routing,
                activation,
                roundings=self._roundings,
            )
        Path(request.path).parent.mkdir(parents=True, exist_ok=True)
        outputs = {"full": full.float().cpu(), "dequantized": dequantized.float().cpu()}
        torch.save(outputs, request.path)
        counts = batch.routing.expert_ids.flatten().bincount()
        return Answered(
            work=layer_work(
                self._layer.spec.geometry,
                tokens=request.tokens,
                experts_hit=int((counts > 0).sum()),
                busiest=int(counts.max()),
                weight_bytes=SCHEMES[scheme].weight_bytes,
            )
        )

    def _check(self, request: Check) -> Checked:
        self._timer = None
        if self._prepared is None:
            raise UsageError(f"{self._backend}: asked to compute before its weights were prepared")
        problem = self._problem
        needed = find_backend(self._backend).working_bytes(problem, tokens=request.tokens)
        _check_room(needed, problem.device, f"a batch of {request.tokens} tokens")
        call = self._prepared.bind(self._batch(request.tokens))
        first_call_s, output = _timed_once(call)
        expected = torch.load(request.path, weights_only=True)
        rows, sizes = compared_rows(request.tokens), problem.spec.geometry
        values = sizes.top_k * sizes.expert_width
        numerics = judge(
            output,
            rows=rows,
            shape=(request.tokens, sizes.hidden_size),
            dequantized=expected["dequantized"],
            full=expected["full"],
            limits=tolerance(problem.scheme, values=len(rows) * values),
            token_limits=tolerance(problem.scheme, values=values),
        )
        self._timer = _timer(call, problem.device, cold_cache=self._config.cold_cache)
        self._calls = 0
        return Checked(numerics=numerics, first_call_s=first_call_s, graph=self._timer.graph)

    def _time(self) -> Timed:
        if self._timer is None:
            raise UsageError(f"{self._backend}: asked to time before a batch was checked")
        if not self._calls:
            # Only now: batches are checked while others compute, blocks are timed alone.
            latency_s = min(self._timer.times_s(2))
            self._calls = calls_per_block(latency_s, block_s=self._config.block_s)
        return Timed(times_s=self._timer.times_s(self._calls))


def compared_rows(tokens: int) -> torch.Tensor:
    """Return which tokens of a batch the oracle computes, int64, first and last among them."""
    if tokens <= MOST_COMPARED:
        return torch.arange(tokens)
    return torch.linspace(0, tokens - 1, MOST_COMPARED, dtype=torch.float64).round().long()


def _timer(call: Call, device: Device, *, cold_cache: bool) -> Timer:
    if device.kind == "cuda":
        return CudaTimer(call, cold_cache=cold_cache)
    return HostTimer(call)


def _timed_once(call: Call) -> tuple[float, torch.Tensor]:
    """Call for the first time, compiling and tuning included; wait for the answer."""
    start = time.perf_counter()
    output = call()
    if output.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start, output.clone()


def _check_room(needed: int, device: Device, what: str) -> None:
    free = free_bytes(device)
    if needed > free:
        raise MemoryError(
            f"{what} would take about {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free"
        )


def _nothing() -> None:
    """What an empty call is."""
