"""No hot path makes the host wait for the device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvcore.allocators import PagedAllocator
from kvcore.kernels.addressing import upload
from kvcore.prefix_cache import EvictParams
from tests.kvcore.factories import Stack, make_req, make_stack
from tests.kvcore.sync_guard import DEVICE, DeviceSync, DeviceTensor, fake_device, no_waits

PAGE_SIZES = [1, 4, 16]
SPECS = [None, "eagle", "dflash"]
CACHES = ["chunk", "radix", "swa_chunk", "swa"]


def live_and_die(stack: Stack, spec: str | None) -> None:
    """Match, extend, cache, decode, leave the window, evict, retract, release."""
    old = [make_req(f"old-{i}", origin_input_ids=[i] * 40, max_new_tokens=2) for i in range(4)]
    reqs = [make_req(f"r{i}", origin_input_ids=[i] * 36 + [9] * (i + 1), max_new_tokens=60) for i in range(4)]
    batch = stack.cached(*old)
    stack.finish(batch)
    running = stack.cached(*reqs)
    for step in range(12):
        running.check_decode_mem()
        running.prepare_for_decode()
        running.advance([[step] * (1 if spec is None else 2)] * 4)
    stack.allocator.free_group_begin()
    stack.finish(running, reqs[0], is_insert=False)
    stack.allocator.free_group_end()
    stack.tree.evict(EvictParams(num_tokens=48, swa_num_tokens=16))
    running.retract_decode()
    running.prepare_for_decode()
    stack.finish(running)


@pytest.fixture
def _fake_device():
    with fake_device():
        yield


@pytest.mark.usefixtures("_fake_device")
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_the_life_of_requests_waits_for_nothing(cache, page_size, spec):
    stack = make_stack(cache, page_size=page_size, size=512, spec=spec, device=DEVICE, rows=32)
    with no_waits():
        live_and_die(stack, spec)
    assert isinstance(stack.pool.req_to_token, DeviceTensor)
    stack.checker.check([], "the last release")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_the_life_of_requests_waits_for_nothing_on_cuda(cache, page_size, spec):
    stack = make_stack(cache, page_size=page_size, size=512, spec=spec, device="cuda", rows=32)
    live_and_die(make_stack(cache, page_size=page_size, size=512, spec=spec, device="cuda", rows=32), spec)
    torch.cuda.set_sync_debug_mode("error")
    try:
        live_and_die(stack, spec)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    stack.checker.check([], "the last release")


@pytest.mark.usefixtures("_fake_device")
@pytest.mark.parametrize("cache", ["radix", "swa"])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_eviction_in_an_extend_waits_for_nothing(cache, page_size):
    stack = make_stack(cache, page_size=page_size, size=128, device=DEVICE, rows=32)
    with no_waits():
        for i in range(12):
            stack.finish(stack.cached(make_req(str(i), origin_input_ids=[i] * 33, max_new_tokens=1)))
    assert stack.tree.evictable_size() <= 128
    stack.checker.check([], "the last release")


def on_device(*values: int) -> torch.Tensor:
    return upload(np.array(values, dtype=np.int64), DEVICE)


@pytest.mark.usefixtures("_fake_device")
@pytest.mark.parametrize(
    "wait",
    [
        torch.Tensor.tolist,
        lambda t: t[0].item(),
        lambda t: t.cpu(),
        lambda t: t.numpy(),
        lambda t: int(t[0]),
        lambda t: bool(t[0] > 1),
        torch.unique,
        lambda t: t.nonzero(),
        lambda t: t[t > 1],
        lambda t: t.__setitem__(t > 1, 0),
        lambda t: t.__setitem__(t - 1, 0),
        lambda t: t + torch.arange(3),
        lambda t: t[torch.arange(2)],
        lambda t: torch.equal(t, t),
        lambda t: torch.masked_select(t, t > 1),
    ],
)
def test_the_guard_sees_every_kind_of_wait(wait):
    tensor = on_device(1, 2, 3)
    with no_waits(), pytest.raises(DeviceSync):
        wait(tensor)


@pytest.mark.usefixtures("_fake_device")
def test_the_guard_lets_work_on_the_device_pass():
    tensor = on_device(1, 2, 3)
    with no_waits():
        made = torch.zeros(3, dtype=torch.int64, device=DEVICE)
        made[1:] = 5
        made[tensor - 1] = tensor * 2
        total = torch.cat((made, tensor))[::2].sum()
        made.masked_fill_(made > 4, 0)
    assert isinstance(total, DeviceTensor)
    assert total.device == DEVICE
    assert made.tolist() == [2, 4, 0]


@pytest.mark.usefixtures("_fake_device")
@pytest.mark.parametrize("page_size", [4, 16])
def test_the_general_free_is_the_slow_form(page_size):
    """Arbitrary slots may hold duplicates; finding them at a page size above 1 waits, and is documented to."""
    allocator = PagedAllocator(64, page_size, device=DEVICE)
    slots = allocator.alloc(16)
    with no_waits(), pytest.raises(DeviceSync):
        allocator.free(slots)
