"""Keys and values come back from the slots they were written to, in every layout and dtype."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvcore.allocators import SWAAllocator
from kvcore.errors import ConfigurationError, SlotOutOfRange
from kvcore.pools.draft import make_draft_pool
from kvcore.pools.kv import KVWriteLoc
from kvcore.pools.mha import MHATokenToKVPool, PagedMHATokenToKVPool
from kvcore.pools.mla import MLATokenToKVPool
from kvcore.pools.swa_kv import SWAKVPool

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


def make_mha(size=32, page_size=4, dtype=torch.float32, *, cls=MHATokenToKVPool, **kwargs):
    defaults = {"head_num": 2, "head_dim": 3, "v_head_dim": 5, "layer_num": 2, "device": "cpu"}
    return cls(size, page_size, dtype=dtype, **{**defaults, **kwargs})


def make_mla(size=32, page_size=4, dtype=torch.float32):
    return MLATokenToKVPool(
        size,
        page_size,
        dtype=dtype,
        kv_lora_rank=6,
        qk_rope_head_dim=2,
        layer_num=2,
        device="cpu",
        start_layer=3,
    )


def make_swa(size=32, size_swa=16, page_size=4, dtype=torch.float32):
    allocator = SWAAllocator(size, size_swa, page_size, device="cpu")
    pool = SWAKVPool(
        size,
        size_swa,
        page_size,
        dtype=dtype,
        head_num=2,
        head_dim=3,
        full_layer_ids=[0, 3],
        swa_layer_ids=[1, 2],
        device="cpu",
    )
    pool.register_mapping(allocator.full_to_swa_index_mapping)
    return allocator, pool


def tokens(num, dim, seed=0):
    return torch.randn(num, 2, dim, generator=torch.Generator().manual_seed(seed))


def at(pool, buffer, slots):
    """Rows of ``slots``, whatever the layout."""
    if isinstance(pool, PagedMHATokenToKVPool):
        return buffer[slots // pool.page_size, :, slots % pool.page_size]
    return buffer[slots]


@pytest.mark.parametrize("cls", [MHATokenToKVPool, PagedMHATokenToKVPool])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_mha_rows_read_back(cls, dtype):
    pool = make_mha(dtype=dtype, cls=cls, start_layer=4)
    slots = torch.tensor([4, 35, 17])
    k, v = tokens(3, 3, 1), tokens(3, 5, 2)
    pool.set_kv_buffer(5, slots, k, v)
    keys, values = pool.get_kv_buffer(5)
    assert keys.dtype == dtype
    assert torch.equal(at(pool, keys, slots).float(), k.to(dtype).float())
    assert torch.equal(at(pool, values, slots).float(), v.to(dtype).float())
    other_keys, _ = pool.get_kv_buffer(4)
    assert (other_keys.float() == 0).all()


def test_buffers_have_a_page_more_than_slots():
    pool = make_mha(32, 4)
    keys, values = pool.get_kv_buffer(0)
    assert keys.shape == (36, 2, 3)
    assert values.shape == (36, 2, 5)
    assert pool.bytes_used() == 2 * 36 * 2 * (3 + 5) * 4


def test_eight_bit_floats_are_stored_as_bytes():
    pool = make_mha(dtype=torch.float8_e4m3fn)
    assert pool.store_dtype == torch.uint8
    assert pool.bytes_used() == 2 * 36 * 2 * (3 + 5)


def test_scales_divide_only_where_a_cast_is_needed():
    k, v = tokens(1, 3), tokens(1, 5)
    slots = torch.tensor([5])
    cast = make_mha(dtype=torch.float8_e4m3fn)
    cast.set_kv_buffer(0, slots, k, v, 2.0, torch.tensor(4.0))
    assert torch.equal(cast.get_kv_buffer(0)[0][5].float(), (k[0] / 2).to(torch.float8_e4m3fn).float())
    assert torch.equal(cast.get_kv_buffer(0)[1][5].float(), (v[0] / 4).to(torch.float8_e4m3fn).float())
    same = make_mha()
    same.set_kv_buffer(0, slots, k, v, 2.0, 4.0)
    assert torch.equal(same.get_kv_buffer(0)[0][5], k[0])


@pytest.mark.parametrize("cls", [MHATokenToKVPool, PagedMHATokenToKVPool])
@pytest.mark.parametrize("slot", [-1, 36])
def test_a_slot_outside_the_buffer_is_refused(cls, slot):
    pool = make_mha(cls=cls)
    with pytest.raises(SlotOutOfRange, match=f"reach from {min(slot, 4)} to {max(slot, 4)}"):
        pool.set_kv_buffer(0, torch.tensor([4, slot]), tokens(2, 3), tokens(2, 5))
    assert (pool.get_kv_buffer(0)[0] == 0).all()


@pytest.mark.parametrize("layer", [3, 6])
def test_a_layer_of_another_rank_is_refused(layer):
    with pytest.raises(
        ConfigurationError, match=f"layer {layer} is not in this pool, which holds layers 4 to 5"
    ):
        make_mha(start_layer=4).get_kv_buffer(layer)


def test_the_first_layer_of_the_model_is_layer_zero():
    """0 is a layer, not a missing value."""
    pool = make_mha(layer_num=1, start_layer=0)
    assert pool.local_layer(0) == 0


@pytest.mark.parametrize("kwargs", [{"size": 30}, {"layer_num": 0}, {"start_layer": -1}])
def test_a_pool_holds_whole_pages_and_layers(kwargs):
    with pytest.raises(ConfigurationError, match="whole pages in at least one layer"):
        make_mha(**kwargs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn], ids=str)
def test_latent_vectors_read_back_whole_and_in_part(dtype):
    pool = make_mla(dtype=dtype)
    nope, rope = torch.randn(3, 1, 6), torch.randn(3, 1, 2)
    slots = torch.tensor([7, 30, 8], dtype=torch.int32)
    pool.set_mla_kv_buffer(4, slots, nope, rope)
    latent, values = pool.get_kv_buffer(4)
    assert torch.equal(latent[slots.long()].float(), torch.cat((nope, rope), -1).to(dtype).float())
    assert torch.equal(values[slots.long()].float(), nope.to(dtype).float())


def test_window_layers_write_to_window_slots():
    allocator, pool = make_swa()
    slots = allocator.alloc(8)
    loc = KVWriteLoc(slots, pool.translate_loc_from_full_to_swa(slots))
    for layer in range(4):
        pool.set_kv_buffer(layer, loc, tokens(8, 3, layer), tokens(8, 3, layer + 9))
    for layer, places in ((0, slots), (3, slots), (1, loc.swa_loc), (2, loc.swa_loc)):
        assert torch.equal(pool.get_kv_buffer(layer)[0][places], tokens(8, 3, layer))
    assert pool.get_kv_buffer(1)[0].shape[0] == 20
    assert (pool.full_size, pool.window_size) == (32, 16)


def test_window_layers_need_window_slots():
    _, pool = make_swa()
    with pytest.raises(ConfigurationError, match="layer 1 has a window"):
        pool.set_kv_buffer(1, KVWriteLoc(torch.tensor([4])), tokens(1, 3), tokens(1, 3))
    with pytest.raises(ConfigurationError, match="layer 9 is not in this pool"):
        pool.get_kv_buffer(9)


def test_a_layer_is_full_or_windowed():
    with pytest.raises(ConfigurationError, match="full or windowed"):
        SWAKVPool(
            8,
            8,
            4,
            dtype=torch.float32,
            head_num=1,
            head_dim=1,
            full_layer_ids=[0, 1],
            swa_layer_ids=[1],
            device="cpu",
        )


def test_moves_follow_both_pools():
    allocator, pool = make_swa()
    slots = allocator.alloc(16)
    loc = KVWriteLoc(slots, pool.translate_loc_from_full_to_swa(slots))
    for layer in range(4):
        pool.set_kv_buffer(layer, loc, tokens(16, 3, layer), tokens(16, 3, layer))
    pool.move_kv_cache(slots[:6], slots[4:10])
    for layer, places in ((0, slots), (1, loc.swa_loc)):
        assert torch.equal(pool.get_kv_buffer(layer)[0][places[:6]], tokens(16, 3, layer)[4:10])


@given(data=st.data(), kind=st.sampled_from(["mha", "paged", "mla"]))
def test_moves_read_everything_before_they_write(data, kind):
    """Any overlap of sources and targets, as if all tokens had been moved at once."""
    pool = (
        make_mla()
        if kind == "mla"
        else make_mha(cls=PagedMHATokenToKVPool if kind == "paged" else MHATokenToKVPool)
    )
    slot = st.integers(1, 35)
    targets = data.draw(st.lists(slot, unique=True, max_size=30))
    sources = data.draw(st.lists(slot, min_size=len(targets), max_size=len(targets)))
    layer = pool.start_layer + 1
    every = torch.arange(36)
    values = every[:, None, None].float()
    if kind == "mla":
        pool.set_mla_kv_buffer(layer, every, values.expand(36, 1, 6).clone(), values.expand(36, 1, 2).clone())
    else:
        pool.set_kv_buffer(layer, every, values.expand(36, 2, 3).clone(), values.expand(36, 2, 5).clone())
    pool.move_kv_cache(torch.tensor(targets, dtype=torch.int64), torch.tensor(sources, dtype=torch.int64))
    expected = list(range(36))
    for target, source in zip(targets, sources, strict=True):
        expected[target] = source
    for buffer in pool.get_kv_buffer(layer):
        assert at(pool, buffer, every)[:, 0, 0].tolist() == expected


def test_a_shift_by_one_over_many_rows_moves_each_once():
    pool = make_mha(size=1024, page_size=1)
    every = torch.arange(1025)
    values = every[:, None, None].float()
    pool.set_kv_buffer(0, every, values.expand(-1, 2, 3).clone(), values.expand(-1, 2, 5).clone())
    pool.move_kv_cache(every[2:], every[1:-1])
    assert pool.get_kv_buffer(0)[0][:, 0, 0].tolist() == [0, 1, *range(1, 1024)]


@pytest.mark.parametrize("kind", ["mha", "paged", "mla", "swa"])
def test_tokens_travel_to_the_host_and_back(kind, monkeypatch):
    for module in ("kv", "mha", "swa_kv"):
        monkeypatch.setattr(f"kvcore.pools.{module}.CPU_COPY_CHUNK", 4)
    allocator = None
    if kind == "swa":
        allocator, pool = make_swa(size_swa=24)
        slots = allocator.alloc(12)
        allocator.free_swa(slots[:4])
        target = allocator.alloc(12)
        allocator.free_swa(target[:4])
        for layer in range(4):
            pool.set_kv_buffer(
                layer,
                KVWriteLoc(slots, pool.translate_loc_from_full_to_swa(slots)),
                tokens(12, 3, layer),
                tokens(12, 3),
            )
    else:
        pool = (
            make_mla()
            if kind == "mla"
            else make_mha(cls=PagedMHATokenToKVPool if kind == "paged" else MHATokenToKVPool)
        )
        slots, target = torch.arange(4, 14), torch.arange(20, 30)
        for layer in (pool.start_layer, pool.start_layer + 1):
            if kind == "mla":
                pool.set_mla_kv_buffer(layer, slots, torch.randn(10, 1, 6), torch.randn(10, 1, 2))
            else:
                pool.set_kv_buffer(layer, slots, tokens(10, 3, layer), tokens(10, 5))
    pool.load_cpu_copy(pool.get_cpu_copy(slots), target)
    for layer in range(pool.start_layer, pool.start_layer + pool.layer_num):
        places, wanted = slots, target
        if allocator is not None and pool.layers_mapping[layer].is_swa:
            places, wanted = (pool.translate_loc_from_full_to_swa(end[4:]) for end in (slots, target))
        for buffer in pool.get_kv_buffer(layer):
            assert torch.equal(at(pool, buffer, wanted), at(pool, buffer, places))
            assert at(pool, buffer, wanted).abs().sum() > 0


def test_a_draft_pool_serves_every_slot_of_the_full_pool():
    """Rows hold full slots; a draft pool of the window's size would be written past its end."""
    allocator, target = make_swa(size=64, size_swa=16)
    draft = make_draft_pool(target, head_num=1, head_dim=2, layer_num=1)
    assert draft.size >= target.full_kv_pool.size
    last = allocator.full_attn_allocator.alloc(64)[-1:]
    draft.set_kv_buffer(0, last, torch.ones(1, 1, 2), torch.ones(1, 1, 2))
    assert draft.get_kv_buffer(0)[0][last].sum() == 2


def test_moves_without_a_mapping_are_refused():
    pool = SWAKVPool(
        8,
        8,
        4,
        dtype=torch.float32,
        head_num=1,
        head_dim=1,
        full_layer_ids=[0],
        swa_layer_ids=[1],
        device="cpu",
    )
    with pytest.raises(ConfigurationError, match="register_mapping"):
        pool.move_kv_cache(torch.tensor([4]), torch.tensor([5]))
